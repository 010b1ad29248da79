# HiGHS (linear and integer programs), from the PyPI package 'highsbox' in FSDP_PYTHON's
# environment, which FindLibTorch.cmake settles.
#
# Defines Highs::highs, for use through its C interface.
if(NOT Highs_ROOT_DIR)
  execute_process(
    COMMAND "${FSDP_PYTHON}" -c "import highsbox; print(highsbox.highs_dist_dir())"
    OUTPUT_VARIABLE highs_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR
      "highsbox is not installed for ${FSDP_PYTHON}; run tools/setup.sh, or "
      "'${FSDP_PYTHON} -m pip install highsbox'")
  endif()
  set(Highs_ROOT_DIR "${highs_dir}" CACHE PATH "The HiGHS folder that holds include/ and lib/")
endif()
find_path(Highs_INCLUDE_DIR interfaces/highs_c_api.h
  PATHS "${Highs_ROOT_DIR}/include/highs" NO_DEFAULT_PATH)
find_library(Highs_LIBRARY highs PATHS "${Highs_ROOT_DIR}/lib" NO_DEFAULT_PATH)
if(Highs_INCLUDE_DIR)
  file(READ "${Highs_INCLUDE_DIR}/HConfig.h" config_text)
  foreach(part MAJOR MINOR PATCH)
    string(REGEX MATCH "HIGHS_VERSION_${part} ([0-9]+)" _ "${config_text}")
    set(version_${part} "${CMAKE_MATCH_1}")
  endforeach()
  set(Highs_VERSION "${version_MAJOR}.${version_MINOR}.${version_PATCH}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highs
  REQUIRED_VARS Highs_LIBRARY Highs_INCLUDE_DIR VERSION_VAR Highs_VERSION)

if(Highs_FOUND AND NOT TARGET Highs::highs)
  add_library(Highs::highs SHARED IMPORTED)
  set_target_properties(Highs::highs PROPERTIES IMPORTED_LOCATION "${Highs_LIBRARY}")
  target_include_directories(Highs::highs SYSTEM INTERFACE "${Highs_INCLUDE_DIR}")
endif()
