# Headers, both libraries, and a relocatable package: find_package(baracuda) gives baracuda::baracuda and baracuda::static.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Public: the core, the thread team that plans use, and each family's own header. Formulas (_math) and the tables of
# instruction-set units (_cpu) stay inside.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/baracuda/core ${PROJECT_SOURCE_DIR}/baracuda/ops DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/baracuda
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*_math.hpp" EXCLUDE PATTERN "*_cpu.hpp" EXCLUDE PATTERN "*_detail.hpp" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/baracuda/host/thread_team.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/baracuda/host)

if(BARACUDA_DLPACK_INCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/c/baracuda.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()

set_target_properties(baracuda_shared PROPERTIES EXPORT_NAME baracuda)
set_target_properties(baracuda_static PROPERTIES EXPORT_NAME static)
install(TARGETS baracuda_shared baracuda_static EXPORT baracuda
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET baracuda_cli)
  install(TARGETS baracuda_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/baracuda)
install(EXPORT baracuda NAMESPACE baracuda:: FILE baracudaTargets.cmake DESTINATION ${package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/baracudaConfig.cmake.in ${PROJECT_BINARY_DIR}/baracudaConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/baracudaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/baracudaConfig.cmake ${PROJECT_BINARY_DIR}/baracudaConfigVersion.cmake DESTINATION ${package})
