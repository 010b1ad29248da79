# Precompiled headers of MLIR, torch and GoogleTest, which most translation units spend more time on
# than on their own text. Only for g++: what clang precompiles names the folder that it was made in, so that
# builds in two folders could not share it through ccache.
#
# fsdp_precompile_headers(TARGET [MLIR] [TORCH] [TEST])
#
# For static libraries, parts of the runtime and unit tests (TEST) most of whose sources include
# these headers; the others pay for reading them. They are compiled once for each combination, in a
# library of its own with the flags that its users share. A header of the project does not belong here: each change of
# it would recompile every user. Headers are named as sources include them, since CMake writes what
# it is given into a generated header, and an absolute path would be another one in each work tree.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  function(fsdp_precompile_headers)
  endfunction()
  return()
endif()

# Of include/fsdp/IR/Fsdp.h, and of most sources of lib/ and passes/.
set(FSDP_MLIR_HEADERS
  <mlir/Bytecode/BytecodeOpInterface.h>
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/OpImplementation.h>
  <mlir/IR/SymbolTable.h>
  <mlir/Interfaces/SideEffectInterfaces.h>)
# Of what speaks of tensors, and of what calls operators by name.
set(FSDP_TORCH_HEADERS
  <ATen/core/Tensor.h>
  <ATen/core/dispatch/Dispatcher.h>
  <ATen/core/ivalue.h>
  <ATen/ops/empty.h>
  <ATen/ops/from_blob.h>)
# Of unit tests; those of what speaks of tensors call many operators.
set(FSDP_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h>)
set(FSDP_TORCH_TEST_HEADERS <ATen/Functions.h>)

function(fsdp_precompile_headers target)
  cmake_parse_arguments(ARG "MLIR;TORCH;TEST" "" "" ${ARGN})
  set(pch fsdp_pch)
  set(headers)
  set(links fsdp_flags)
  if(ARG_MLIR)
    string(APPEND pch _mlir)
    list(APPEND headers ${FSDP_MLIR_HEADERS})
    set(links fsdp_compiler_flags)
  endif()
  if(ARG_TORCH)
    string(APPEND pch _torch)
    list(APPEND headers ${FSDP_TORCH_HEADERS})
    list(APPEND links LibTorch::cpu)
  endif()
  if(ARG_TEST)
    string(APPEND pch _test)
    list(APPEND headers ${FSDP_TEST_HEADERS})
    if(ARG_TORCH)
      list(APPEND headers ${FSDP_TORCH_TEST_HEADERS})
    endif()
    list(APPEND links GTest::gmock)
    # An executable has -fPIE, the headers' library -fPIC.
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  if(NOT TARGET ${pch})
    # CMake wants a source of it.
    add_library(${pch} OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/Empty.cpp")
    target_link_libraries(${pch} PRIVATE ${links})
    target_precompile_headers(${pch} PRIVATE ${headers})
    if(NOT ARG_TORCH AND NOT ARG_TEST) # as fsdp_add_library does
      target_compile_options(${pch} PRIVATE -fno-exceptions)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  # g++ forgets in a precompiled header the pragmas with which libstdc++ silences what is said of
  # `"text" + std::string` (GCC bugs 64117 and 105651). Other targets and clang keep these warnings.
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
endfunction()
