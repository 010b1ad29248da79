//===- MetaKernels.h - Shapes of operators that torch lacks ------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_METAKERNELS_H
#define FSDP_LIB_FRONTEND_METAKERNELS_H

#include "fsdp/Frontend/Capture.h"

#include <torch/library.h>

namespace fsdp::frontend {

/// While a MetaKernels lives, the meta device has kernels for operators that LibTorch implements
/// there only in Python, or not at all. Results have the sizes, dtypes and strides of the target's
/// real kernel.
class MetaKernels {
public:
  explicit MetaKernels(Target target);

private:
  template <typename Function> void add(const char *name, Function *function) {
    if (isMissing(name))
      replace(name, function);
  }
  /// Adds a kernel even if torch has one (which throws).
  template <typename Function> void replace(const char *name, Function *function) {
    library.impl(name, function);
  }
  /// True if torch has the operator, but not for the meta device.
  static bool isMissing(const char *name);

  void addElementwise(Target target);
  void addRandom();
  void addSpecialized();
  void addReductions();
  void addLosses(Target target);
  void addNormalization(Target target);
  void addCudaNormalization();
  void addConvolution(Target target);
  void addPooling();
  void addAttention();
  void addCudaAttention();
  void addCudaBags();
  void addGroupedProduct();
  void addCudaScaledProduct();
  void addRecurrent();
  void addWeightNorm();
  void addPixelShuffles();

  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__};
};

/// Contiguous, or channels-last if `like` is.
at::Tensor makeSuggested(const at::Tensor &like);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_METAKERNELS_H
