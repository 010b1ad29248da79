# Precompiled headers of MLIR, which most translation units spend more time on than on their own
# text. Only for g++: what clang precompiles names the folder that it was made in, so that builds in
# two folders could not share it through ccache.
#
# fsdp_precompile_headers(TARGET): for static libraries of the compiler most of whose sources include
# these headers; the others pay for reading them. They are compiled once, in a library of its own
# with the flags that its users share. A header of the project does not belong here: each change of
# it would recompile every user. Headers are named as sources include them, since CMake writes what
# it is given into a generated header, and an absolute path would be another one in each work tree.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  function(fsdp_precompile_headers)
  endfunction()
  return()
endif()

function(fsdp_precompile_headers target)
  if(NOT TARGET fsdp_pch_mlir)
    # CMake wants a source of it.
    add_library(fsdp_pch_mlir OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/Empty.cpp")
    target_link_libraries(fsdp_pch_mlir PRIVATE fsdp_compiler_flags)
    # Of include/fsdp/IR/Fsdp.h, and of most sources of lib/ and passes/.
    target_precompile_headers(fsdp_pch_mlir PRIVATE
      <mlir/Bytecode/BytecodeOpInterface.h>
      <mlir/IR/Builders.h>
      <mlir/IR/BuiltinOps.h>
      <mlir/IR/OpImplementation.h>
      <mlir/IR/SymbolTable.h>
      <mlir/Interfaces/SideEffectInterfaces.h>)
    target_compile_options(fsdp_pch_mlir PRIVATE -fno-exceptions)
  endif()
  target_precompile_headers(${target} REUSE_FROM fsdp_pch_mlir)
  # g++ forgets in a precompiled header the pragmas with which libstdc++ silences what is said of
  # `"text" + std::string` (GCC bugs 64117 and 105651). Other targets and clang keep these warnings.
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
endfunction()
