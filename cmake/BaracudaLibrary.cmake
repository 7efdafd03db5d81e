# The library from everything that the folders listed: one set of objects, a static and a shared library.
get_property(sources GLOBAL PROPERTY BARACUDA_SOURCES)
get_property(objects GLOBAL PROPERTY BARACUDA_OBJECTS)
get_property(BARACUDA_LIBRARIES GLOBAL PROPERTY BARACUDA_LIBRARIES)

add_library(baracuda_objects OBJECT ${sources})
# Descriptions, no loops: under sanitizers -O0 compiles them in 0.4 of the time. Fuzzers keep what is undefined in them.
set(effort -O1)
if(BARACUDA_FUZZERS)
  set(effort -O0)
elseif(BARACUDA_SANITIZE MATCHES undefined)
  set(effort "-O0;-fno-sanitize=undefined")
endif()
set_source_files_properties(${BARACUDA_REGISTRY_SOURCES} PROPERTIES COMPILE_OPTIONS "${effort}")
target_link_libraries(baracuda_objects PRIVATE baracuda_flags)
target_compile_definitions(baracuda_objects PRIVATE BARACUDA_BUILDING)

# What a consumer of the installed static library links besides: by the name of the package's target, or of the library.
set(installed "")
foreach(library IN LISTS BARACUDA_LIBRARIES)
  get_filename_component(stem "${library}" NAME_WE)
  string(REGEX REPLACE "^lib" "" stem "${stem}")
  list(APPEND installed "$<INSTALL_INTERFACE:${stem}>")
endforeach()

foreach(kind IN ITEMS static shared)
  string(TOUPPER ${kind} KIND)
  add_library(baracuda_${kind} ${KIND} $<TARGET_OBJECTS:baracuda_objects> ${objects})
  set_target_properties(baracuda_${kind} PROPERTIES OUTPUT_NAME baracuda VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(baracuda_${kind} PUBLIC cxx_std_20)
  target_include_directories(baracuda_${kind} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/c>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated> $<INSTALL_INTERFACE:include>)
  target_link_libraries(baracuda_${kind} PUBLIC Threads::Threads PRIVATE "$<BUILD_INTERFACE:${BARACUDA_LIBRARIES}>" ${CMAKE_DL_LIBS})
  if(kind STREQUAL "static")
    target_link_libraries(baracuda_static PRIVATE ${installed})
  endif()
  if(BARACUDA_SANITIZE)
    target_link_options(baracuda_${kind} PUBLIC -fsanitize=${BARACUDA_SANITIZE})
  endif()
endforeach()
add_library(baracuda::baracuda ALIAS baracuda_shared)
add_library(baracuda::static ALIAS baracuda_static)
