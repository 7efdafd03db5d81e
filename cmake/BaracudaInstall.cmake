# Headers, both libraries, and a relocatable package: find_package(baracuda) gives baracuda::baracuda and baracuda::static
# (and baracuda::cuda_static with BARACUDA_CUDA_STATIC).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

include(BaracudaHeaders)
baracuda_public_headers(headers)
foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

if(BARACUDA_DLPACK_INCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/c/baracuda.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()

set_target_properties(baracuda_shared PROPERTIES EXPORT_NAME baracuda)
set_target_properties(baracuda_static PROPERTIES EXPORT_NAME static)
install(TARGETS baracuda_shared baracuda_static EXPORT baracuda
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET baracuda_cuda)  # beside the library, which looks for it there
  install(TARGETS baracuda_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(BARACUDA_CUDA_STATIC)
    install(TARGETS baracuda_cuda_static EXPORT baracuda ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endif()
if(TARGET baracuda_cli)
  install(TARGETS baracuda_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/baracuda)
install(EXPORT baracuda NAMESPACE baracuda:: FILE baracudaTargets.cmake DESTINATION ${package})
set(BARACUDA_WITH_ONEDNN FALSE)
get_property(libraries GLOBAL PROPERTY BARACUDA_LIBRARIES)
if("DNNL::dnnl" IN_LIST libraries)
  set(BARACUDA_WITH_ONEDNN TRUE)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/baracudaConfig.cmake.in ${PROJECT_BINARY_DIR}/baracudaConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/baracudaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/baracudaConfig.cmake ${PROJECT_BINARY_DIR}/baracudaConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/Finddnnl.cmake DESTINATION ${package})
