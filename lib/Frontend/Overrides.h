//===- Overrides.h - Which form of fused operators is recorded ---*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_OVERRIDES_H
#define FSDP_LIB_FRONTEND_OVERRIDES_H

#include <torch/library.h>

namespace fsdp::frontend {

struct CaptureOptions;

/// While an Overrides lives, dropout, attention, norms, recurrent layers and the CTC loss on meta
/// tensors keep the form they have on the target: torch would decompose them on meta, or lose a
/// mutation. The model's collectives have derivatives.
class Overrides {
public:
  explicit Overrides(const CaptureOptions &options);

private:
  void addCheckedOperators();
  void addCtcLoss();
  void addModelCollectives();
  void addRecurrentLayers();
  /// `architecture`: CaptureOptions::cudaArchitecture.
  void addCudaKernels(unsigned architecture);

  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__,
                         __LINE__};
  // Complex numbers of the program keep their device.
  torch::Library onCpu{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__,
                       __LINE__};
  torch::Library collectives{torch::Library::IMPL, "fsdpc", c10::DispatchKey::AutogradMeta,
                             __FILE__, __LINE__};
};

/// Turns a boolean mask into an additive one, as eager attention does.
std::optional<at::Tensor> makeAdditiveMask(const std::optional<at::Tensor> &mask,
                                           at::ScalarType dtype);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_OVERRIDES_H
