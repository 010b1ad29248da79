# LibTorch from the Python environment that holds torch.
#
#   FSDP_PYTHON     interpreter of that environment; default: build/venv/bin/python, else python3
#
# Defines LibTorch::cpu and, where torch has it, LibTorch::cuda for libraries that are loaded on
# demand. torch's own package file needs a CUDA toolkit, and linking what it lists
# would pull in libtorch_cuda; CPU programs need libtorch_cpu and libc10 alone.
if(NOT FSDP_PYTHON)
  if(EXISTS "${PROJECT_SOURCE_DIR}/build/venv/bin/python")
    set(FSDP_PYTHON "${PROJECT_SOURCE_DIR}/build/venv/bin/python" CACHE FILEPATH "" FORCE)
  else()
    find_program(FSDP_PYTHON3 python3 REQUIRED)
    set(FSDP_PYTHON "${FSDP_PYTHON3}" CACHE FILEPATH "" FORCE)
  endif()
endif()
if(NOT LibTorch_ROOT_DIR)
  execute_process(
    COMMAND "${FSDP_PYTHON}" -c
      "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('torch').origin).parent)"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "torch is not installed for ${FSDP_PYTHON}; run tools/setup.sh, or set FSDP_PYTHON")
  endif()
  set(LibTorch_ROOT_DIR "${torch_dir}" CACHE PATH "The torch folder that holds include/ and lib/")
endif()
file(READ "${LibTorch_ROOT_DIR}/version.py" version_text)
string(REGEX MATCH "__version__ = '([0-9.]+)" _ "${version_text}")
set(LibTorch_VERSION "${CMAKE_MATCH_1}")
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${LibTorch_ROOT_DIR}/lib" NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 PATHS "${LibTorch_ROOT_DIR}/lib" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY VERSION_VAR LibTorch_VERSION)

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${LibTorch_C10_LIBRARY}")
  add_library(LibTorch::cpu SHARED IMPORTED)
  set_target_properties(LibTorch::cpu PROPERTIES
    IMPORTED_LOCATION "${LibTorch_CPU_LIBRARY}"
    INTERFACE_LINK_LIBRARIES LibTorch::c10)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    "${LibTorch_ROOT_DIR}/include" "${LibTorch_ROOT_DIR}/include/torch/csrc/api/include")
  target_compile_definitions(LibTorch::cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  # torch is built by gcc, whose names of constrained templates clang 18 and later no longer write.
  target_compile_options(LibTorch::cpu INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fclang-abi-compat=17>)
  # libcudart and libcupti are found through libtorch_cpu's own rpath, at run time only.
  target_link_options(LibTorch::cpu INTERFACE
    "-Wl,--no-as-needed" "-Wl,--allow-shlib-undefined")
  find_library(LibTorch_CUDA_LIBRARY torch_cuda PATHS "${LibTorch_ROOT_DIR}/lib" NO_DEFAULT_PATH)
  find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda PATHS "${LibTorch_ROOT_DIR}/lib" NO_DEFAULT_PATH)
  if(LibTorch_CUDA_LIBRARY AND LibTorch_C10_CUDA_LIBRARY)
    add_library(LibTorch::c10_cuda SHARED IMPORTED)
    set_target_properties(LibTorch::c10_cuda PROPERTIES
      IMPORTED_LOCATION "${LibTorch_C10_CUDA_LIBRARY}")
    add_library(LibTorch::cuda SHARED IMPORTED)
    set_target_properties(LibTorch::cuda PROPERTIES
      IMPORTED_LOCATION "${LibTorch_CUDA_LIBRARY}"
      INTERFACE_LINK_LIBRARIES "LibTorch::c10_cuda;LibTorch::cpu")
  endif()
endif()
