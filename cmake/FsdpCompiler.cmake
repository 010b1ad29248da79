# MLIR, and the two functions with which compiler-side targets are made.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} from ${MLIR_DIR}")
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
if(NOT LLVM_LINK_LLVM_DYLIB OR NOT TARGET MLIR)
  message(FATAL_ERROR "fsdpc links the MLIR and LLVM shared libraries, which this LLVM lacks")
endif()

separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_library(fsdp_compiler_flags INTERFACE)
target_link_libraries(fsdp_compiler_flags INTERFACE fsdp_flags)
target_compile_definitions(fsdp_compiler_flags INTERFACE ${llvm_definitions})
target_include_directories(fsdp_compiler_flags INTERFACE
  "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/include")
target_include_directories(fsdp_compiler_flags SYSTEM INTERFACE
  ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
find_program(FSDP_LLD NAMES ld.lld-22 ld.lld HINTS "${LLVM_TOOLS_BINARY_DIR}")
if(FSDP_LLD)
  # g++ 12 takes -fuse-ld=lld only where 'ld.lld' is on its program path.
  get_filename_component(lld_dir "${FSDP_LLD}" DIRECTORY)
  target_link_options(fsdp_compiler_flags INTERFACE "-B${LLVM_TOOLS_BINARY_DIR}" -fuse-ld=lld)
endif()

# fsdp_add_library(NAME SOURCES... [DEPENDS tablegen targets] [LINK libs] [TORCH])
#
# A static library on the MLIR and LLVM shared libraries; never libMLIR*.a, since a second copy of
# MLIR in one process has its own TypeIDs and options. LLVM is built without exceptions; TORCH
# keeps them, for libraries that call LibTorch.
function(fsdp_add_library name)
  cmake_parse_arguments(ARG "TORCH" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM fsdp_compiler_flags)
  if(ARG_TORCH)
    target_link_libraries(${name} PUBLIC LibTorch::cpu)
  else()
    target_compile_options(${name} PRIVATE -fno-exceptions)
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# fsdp_add_tool(NAME SOURCES... [LINK libs] [TORCH] [FLAGS])
#
# An executable. FLAGS: its command line is CLI11's, which reports bad flags by exceptions.
function(fsdp_add_tool name)
  cmake_parse_arguments(ARG "TORCH;FLAGS" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM fsdp_compiler_flags)
  target_compile_definitions(${name} PRIVATE FSDP_VERSION="${PROJECT_VERSION}")
  if(ARG_FLAGS)
    find_package(CLI11 REQUIRED CONFIG)
    target_link_libraries(${name} PRIVATE CLI11::CLI11)
  elseif(NOT ARG_TORCH)
    target_compile_options(${name} PRIVATE -fno-exceptions)
  endif()
endfunction()
