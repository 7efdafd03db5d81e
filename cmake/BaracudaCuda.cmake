# The CUDA half: one shared library of its own, which the library loads when a CUDA stream is asked for.
#
#   baracuda_cuda(HEADER gated/gated.hpp OPS Gated GatedBackward SOURCES gated.cu gated_cuda.cpp)    in a family's build file
include_guard()

set(BARACUDA_CUDA_ARCHITECTURES "80-real;86-real;89-real;90a-real;90-virtual" CACHE STRING
  "Architectures of the CUDA half as CMAKE_CUDA_ARCHITECTURES names them")
option(BARACUDA_CUDA_LINE_INFO "Source lines in the CUDA kernels, for profilers and sanitizers; the library doubles in size" OFF)
option(BARACUDA_CUDA_STATIC "Install baracuda::cuda_static too: the CUDA half to link in, for programs that load nothing" OFF)
set(BARACUDA_WITH_CUDA OFF)
if(NOT BARACUDA_CUDA STREQUAL "OFF")
  find_program(BARACUDA_NVCC nvcc PATHS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(BARACUDA_NVCC)
    set(BARACUDA_WITH_CUDA ON)
    set(CMAKE_CUDA_COMPILER ${BARACUDA_NVCC})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    set(CMAKE_CUDA_ARCHITECTURES ${BARACUDA_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
      message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} (${BARACUDA_NVCC}) is too old, the CUDA half needs 12.8; -DBARACUDA_CUDA=OFF builds the CPU half alone")
    endif()
    # Attention has kernels of sm_90a, which neither `native` nor 90 names.
    if(BARACUDA_CUDA_ARCHITECTURES STREQUAL "native" AND CMAKE_CUDA_ARCHITECTURES_NATIVE)
      list(TRANSFORM CMAKE_CUDA_ARCHITECTURES_NATIVE REPLACE "^90-real$" "90a-real" OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
    endif()
    if("90" IN_LIST CMAKE_CUDA_ARCHITECTURES OR "90-real" IN_LIST CMAKE_CUDA_ARCHITECTURES)
      message(STATUS "Architecture 90: attention's kernels for H100 and H200 need 90a, others will run")
    endif()
    foreach(kind IN ITEMS STANDARD EXTENSION)  # CMake 3.25 does not know that nvcc has C++20
      if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
      endif()
    endforeach()
    find_package(CUDAToolkit REQUIRED)
    if(BARACUDA_CCACHE AND PROJECT_IS_TOP_LEVEL)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${BARACUDA_CCACHE})
    endif()
    set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
  elseif(BARACUDA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "BARACUDA_CUDA is ON and nvcc was not found (looked in PATH, $CUDA_PATH/bin, /usr/local/cuda/bin)")
  else()
    message(STATUS "nvcc not found: the CPU half alone is built")
  endif()
endif()

function(baracuda_cuda)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "HEADER" "OPS;SOURCES")
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY BARACUDA_CUDA_SOURCES ${arg_SOURCES})
  set_property(GLOBAL APPEND_STRING PROPERTY BARACUDA_CUDA_INCLUDES "#include \"baracuda/ops/${arg_HEADER}\"\n")
  foreach(op IN LISTS arg_OPS)
    set_property(GLOBAL APPEND_STRING PROPERTY BARACUDA_CUDA_DECLARATIONS "template <> std::span<const Kernel<${op}>> cuda_kernels<${op}>();\n")
    set_property(GLOBAL APPEND_STRING PROPERTY BARACUDA_CUDA_ENTRIES "      rows_of<${op}>(),\n")
  endforeach()
endfunction()

# After all families: the library.
function(baracuda_cuda_library)
  if(NOT BARACUDA_WITH_CUDA)
    return()
  endif()
  foreach(list IN ITEMS INCLUDES DECLARATIONS ENTRIES SOURCES)
    get_property(BARACUDA_CUDA_${list} GLOBAL PROPERTY BARACUDA_CUDA_${list})
  endforeach()
  set(device ${PROJECT_SOURCE_DIR}/baracuda/device)
  configure_file(${device}/rows.cpp.in ${PROJECT_BINARY_DIR}/generated/cuda_rows.cpp @ONLY)
  add_library(baracuda_cuda_objects OBJECT ${device}/runtime.cpp ${device}/probe.cu ${PROJECT_BINARY_DIR}/generated/cuda_rows.cpp ${BARACUDA_CUDA_SOURCES})
  string(REGEX REPLACE "-real" "" built_for "${CMAKE_CUDA_ARCHITECTURES}")
  string(REGEX REPLACE "([0-9a]+)-virtual" "ptx-\\1" built_for "${built_for}")
  list(JOIN built_for " " built_for)
  target_compile_definitions(baracuda_cuda_objects PRIVATE "BARACUDA_CUDA_BUILT_FOR=\"${built_for}\"")
  target_include_directories(baracuda_cuda_objects PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_compile_features(baracuda_cuda_objects PRIVATE cxx_std_20)
  # -fmad=false: an fma stands in the formula or it does not happen, as on the CPU.
  # --compress-mode=size: the kernels take less than half of the library's room; the driver unpacks a file's kernels when the first of them is asked for.
  target_compile_options(baracuda_cuda_objects PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -fwrapv -Wall -Wextra $<$<BOOL:${BARACUDA_WERROR}>:-Werror> -Wno-missing-field-initializers -Wno-unknown-pragmas>
    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --compress-mode=size $<$<BOOL:${BARACUDA_CUDA_LINE_INFO}>:-lineinfo> --expt-relaxed-constexpr -Xcompiler=-ffp-contract=off,-fwrapv $<$<BOOL:${BARACUDA_WERROR}>:-Werror=all-warnings>>)
  target_link_libraries(baracuda_cuda_objects PRIVATE CUDA::cudart_static)
  set_target_properties(baracuda_cuda_objects PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
    CUDA_RUNTIME_LIBRARY Static)

  add_library(baracuda_cuda SHARED $<TARGET_OBJECTS:baracuda_cuda_objects>)
  set_target_properties(baracuda_cuda PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LINKER_LANGUAGE CXX)
  target_link_libraries(baracuda_cuda PRIVATE baracuda_static CUDA::cudart_static)
  target_link_options(baracuda_cuda PRIVATE LINKER:--no-undefined LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/cuda_half.version)
  set_property(TARGET baracuda_cuda APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/cuda_half.version)
  # Beside the library that looks for it in its own folder.
  set_target_properties(baracuda_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:baracuda_shared>)

  # For a program that loads nothing: both halves linked in.
  add_library(baracuda_cuda_static STATIC $<TARGET_OBJECTS:baracuda_cuda_objects>)
  set_target_properties(baracuda_cuda_static PROPERTIES EXPORT_NAME cuda_static LINKER_LANGUAGE CXX)
  if(NOT BARACUDA_CUDA_STATIC)
    set_target_properties(baracuda_cuda_static PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_link_libraries(baracuda_cuda_static PUBLIC baracuda_static PRIVATE CUDA::cudart_static)
  target_link_options(baracuda_cuda_static INTERFACE LINKER:--undefined=baracuda_cuda_half)
  add_library(baracuda::cuda_static ALIAS baracuda_cuda_static)
endfunction()
