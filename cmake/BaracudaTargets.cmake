# One function per kind of target; a folder's build file only lists its files.
#
#   baracuda_sources(FILE...)          baseline units of the library
#   baracuda_isa_sources(FILE...)      units compiled once per instruction set, each into its own namespace
#   baracuda_test(NAME FILE... [LIBRARIES ...] [COST s])    a GoogleTest program, registered with CTest; the longest start first
#   baracuda_bench(NAME FILE... [LIBRARIES ...] [NEEDS family...])    a Google Benchmark program, left out without these families
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O3 in Release; assertions stay out of it. Sanitize is the build for the sanitizers and the fuzzers.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")
find_program(BARACUDA_CCACHE ccache)
if(BARACUDA_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${BARACUDA_CCACHE})
endif()
find_package(Threads REQUIRED)

# Contraction off: an fma stands in the formula or it does not happen (one formula, same bits everywhere).
# -fwrapv: the integer lanes of a NaN may wrap. The two -fno keep selects vectorisable.
add_library(baracuda_flags INTERFACE)
target_include_directories(baracuda_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(baracuda_flags INTERFACE -ffp-contract=off -fwrapv -fno-math-errno -fno-trapping-math
  -Wall -Wextra $<$<BOOL:${BARACUDA_WERROR}>:-Werror> -Wno-unknown-pragmas -Wno-missing-field-initializers -Wno-dangling-else
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-psabi>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-bitwise-instead-of-logical>)  # masks of one lane are bool
target_link_libraries(baracuda_flags INTERFACE Threads::Threads)
if(BARACUDA_SANITIZE)
  target_compile_options(baracuda_flags INTERFACE -fsanitize=${BARACUDA_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(baracuda_flags INTERFACE -fsanitize=${BARACUDA_SANITIZE})
endif()

# Instruction sets: name and -march. avx512bf16 serves only units that ask for it (BF16 keyword), amx those that have nothing else (AMX).
set(BARACUDA_ISAS portable avx2 avx512)
if(NOT BARACUDA_AVX2)
  list(REMOVE_ITEM BARACUDA_ISAS avx2)
  target_compile_definitions(baracuda_flags INTERFACE BARACUDA_WITHOUT_AVX2)
endif()
# Beside BARACUDA_OBJECTS_OF, sanitizers watch those that this machine's processor chooses.
set(BARACUDA_WATCHED_ISAS portable avx2)
if(has_avx512)
  set(BARACUDA_WATCHED_ISAS avx512)
endif()
if(has_avx512bf16)  # units without it have avx512 as their best
  list(APPEND BARACUDA_WATCHED_ISAS avx512bf16 amx)
endif()
if(NOT BARACUDA_SANITIZE_KERNELS)
  set(BARACUDA_WATCHED_ISAS "")
endif()
# portable is the last resort and has one lane: unrolling it is compile time without speed.
set(BARACUDA_MARCH_portable x86-64 -O1)
set(BARACUDA_MARCH_avx2 x86-64-v3)
set(BARACUDA_MARCH_avx512 x86-64-v4)
set(BARACUDA_MARCH_avx512bf16 x86-64-v4 -mavx512bf16)
set(BARACUDA_MARCH_amx x86-64-v4 -mavx512bf16 -mamx-tile -mamx-bf16)

# The objects of FILE... of a target of this folder, as the build in BARACUDA_OBJECTS_OF made them.
function(baracuda_objects_of result target)
  file(RELATIVE_PATH folder ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR})
  list(TRANSFORM ARGN REPLACE "^\\.\\./" "__/")
  list(TRANSFORM ARGN REPLACE "(.+)" "${BARACUDA_OBJECTS_OF}/${folder}/CMakeFiles/${target}.dir/\\1.o")
  set(${result} ${ARGN} PARENT_SCOPE)
endfunction()

set_property(GLOBAL PROPERTY BARACUDA_SOURCES "")
set_property(GLOBAL PROPERTY BARACUDA_OBJECTS "")

function(baracuda_sources)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY BARACUDA_SOURCES ${ARGN})
endfunction()

function(baracuda_isa_objects target file isa)
  add_library(${target} OBJECT ${file})
  target_link_libraries(${target} PRIVATE baracuda_flags)
  # No exceptions or unwinding tables to mix between instruction sets; the loops need neither.
  list(TRANSFORM BARACUDA_MARCH_${isa} REPLACE "^x86" "-march=x86" OUTPUT_VARIABLE march)
  target_compile_options(${target} PRIVATE ${march} -fno-exceptions -fvisibility=hidden
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)  # false on unrolled lane loops
  if(BARACUDA_SANITIZE MATCHES address)  # lanes are temporaries by the thousand: watching their scopes takes five times as long to compile
    target_compile_options(${target} PRIVATE -fno-sanitize-address-use-after-scope)
  endif()
  if(BARACUDA_SANITIZE AND NOT BARACUDA_SANITIZE_KERNELS)
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
  endif()
  target_compile_definitions(${target} PRIVATE BARACUDA_ISA=${isa})
endfunction()

function(baracuda_isa_sources)
  cmake_parse_arguments(PARSE_ARGV 0 arg "BF16;AMX" "" "")
  set(isas ${BARACUDA_ISAS})
  set(watched ${BARACUDA_WATCHED_ISAS})
  if(arg_BF16)
    list(APPEND isas avx512bf16)
    if(has_avx512bf16)
      list(REMOVE_ITEM watched avx512)
    endif()
  elseif(arg_AMX)
    set(isas amx)
  endif()
  foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
    get_filename_component(stem ${file} NAME_WE)
    foreach(isa IN LISTS isas)
      set(target ${stem}_${isa})
      if(BARACUDA_OBJECTS_OF AND NOT isa IN_LIST watched)
        baracuda_objects_of(objects ${target} ${file})
        add_library(${target} OBJECT IMPORTED GLOBAL)
        set_target_properties(${target} PROPERTIES IMPORTED_OBJECTS ${objects})
      else()
        baracuda_isa_objects(${target} ${file} ${isa})
      endif()
      set_property(GLOBAL APPEND PROPERTY BARACUDA_OBJECTS $<TARGET_OBJECTS:${target}>)
      set_property(GLOBAL APPEND PROPERTY BARACUDA_ISA_TARGETS ${target})
    endforeach()
  endforeach()
endfunction()

function(baracuda_test name)
  if(NOT BARACUDA_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;COST" "LIBRARIES")
  find_package(GTest REQUIRED)
  set(sources ${arg_UNPARSED_ARGUMENTS})
  if(BARACUDA_OBJECTS_OF AND NOT arg_LIBRARIES)  # tests with libraries see more than the library's loops
    baracuda_objects_of(sources ${name} ${sources})
    set_source_files_properties(${sources} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endif()
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE baracuda_static baracuda_testing baracuda_flags GTest::gtest_main ${arg_LIBRARIES})
  if(BARACUDA_WITH_CUDA)
    set_target_properties(${name} PROPERTIES BUILD_RPATH ${PROJECT_BINARY_DIR}/baracuda)  # where the loader finds the CUDA half
  endif()
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # oracles are short loops; compile time counts more
  if(BARACUDA_SANITIZE MATCHES undefined)
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)  # of the test's own code; the library keeps it
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  if(BARACUDA_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
  if(arg_COST)
    set_tests_properties(${name} PROPERTIES COST ${arg_COST})
  endif()
endfunction()

function(baracuda_bench name)
  if(NOT BARACUDA_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;NEEDS")
  foreach(family IN LISTS arg_NEEDS)
    if(NOT family IN_LIST BARACUDA_BUILT_FAMILIES)
      message(STATUS "${name} is left out: it needs ${family}")
      return()
    endif()
  endforeach()
  find_package(benchmark REQUIRED)
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE baracuda_static baracuda_testing baracuda_flags benchmark::benchmark_main ${arg_LIBRARIES})
endfunction()
