# Where programs and libraries of the build look for shared libraries. Folders within the project,
# the build's own and a Python environment in it, are named as seen from the file ($ORIGIN), so that
# the project can be moved or copied with its build. Only folders outside of it are named absolutely:
# MLIR's, CUDA's, and those of a Python environment elsewhere. libfsdp_runtime.so is an exception:
# runtime/CMakeLists.txt names torch's folder relatively, also where it lies outside of the project.
#
# Programs lie in bin/ and shared libraries in lib/ beside it, so that folders look alike from both.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
# Adds the folders outside of the project of what a target links with, and no others.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# fsdp_add_run_path(FOLDER): what is declared afterwards also looks in this folder, if it lies within
# the project.
macro(fsdp_add_run_path folder)
  cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${folder}" NORMALIZE is_within)
  if(is_within)
    file(RELATIVE_PATH from_libraries "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}" "${folder}")
    list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/${from_libraries}")
  endif()
endmacro()
