//===- Overrides.h - Which form of fused operators is recorded ---*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_OVERRIDES_H
#define FSDP_LIB_FRONTEND_OVERRIDES_H

#include <torch/library.h>

namespace fsdp::frontend {

struct CaptureOptions;

/// While one lives, dropout, attention, norms and recurrent layers on meta tensors keep the form
/// that they have on the target: torch would decompose them on meta, or lose a mutation. Other
/// devices are not touched.
class Overrides {
public:
  explicit Overrides(const CaptureOptions &options);

private:
  void addRecurrentLayers();
  /// `architecture` as CaptureOptions::cudaArchitecture.
  void addCudaKernels(unsigned architecture);

  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__,
                         __LINE__};
};

/// As eager attention: a boolean mask becomes one to add.
std::optional<at::Tensor> makeAdditiveMask(const std::optional<at::Tensor> &mask,
                                           at::ScalarType dtype);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_OVERRIDES_H
