//===- MathLibraries.cpp - The first calls of MKL -------------------------===//

#include "cpu/MathLibraries.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>

void fsdp::rt::startMathLibraries() {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor matrix = at::ones({16, 16}, dtype);
    at::mm(matrix, matrix); // its linear algebra
    at::tanh(matrix);       // its vector functions
  }
}
