//===- RandomKernel.h - Kernels that are drawn -------------------*- C++ -*-===//

#ifndef FSDP_TEST_CODEGEN_RANDOMKERNEL_H
#define FSDP_TEST_CODEGEN_RANDOMKERNEL_H

#include "fsdp/IR/Fsdp.h"

#include <ATen/core/Tensor.h>

#include <random>

namespace fsdp::test {

/// A kernel of random operators on random tensors, and what torch's operators make of these.
struct RandomKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module; // holds the kernel alone
  KernelOp kernel;
  std::vector<at::Tensor> inputs, expected;
  /// Of a fast one: what is expected, computed in fp32 and in fp64 throughout.
  std::vector<at::Tensor> single, precise;
};

RandomKernel drawKernel(mlir::MLIRContext &context, Rounding rounding, std::mt19937 &random);

/// Twenty, exact and fast in turn, always the same.
std::vector<RandomKernel> drawKernels(mlir::MLIRContext &context);

} // namespace fsdp::test

#endif // FSDP_TEST_CODEGEN_RANDOMKERNEL_H
