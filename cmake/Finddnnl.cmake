# oneDNN's header and library as DNNL::dnnl. Its own package file cannot be asked: Debian's insists on OpenCL's headers,
# which a program on the CPU never includes, and stops the caller's configuration where they are missing.
include(FindPackageHandleStandardArgs)
find_path(dnnl_INCLUDE_DIR dnnl.hpp)
find_library(dnnl_LIBRARY dnnl)
mark_as_advanced(dnnl_INCLUDE_DIR dnnl_LIBRARY)
find_package_handle_standard_args(dnnl NAME_MISMATCHED REQUIRED_VARS dnnl_LIBRARY dnnl_INCLUDE_DIR)
if(dnnl_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED GLOBAL)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${dnnl_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${dnnl_INCLUDE_DIR}")
endif()
