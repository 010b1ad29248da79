//===- Overrides.h - Which form of fused operators is recorded ---*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_OVERRIDES_H
#define FSDP_LIB_FRONTEND_OVERRIDES_H

#include <torch/library.h>

namespace fsdp {
enum class Target : uint32_t;
} // namespace fsdp

namespace fsdp::frontend {

/// While one lives, dropout, attention, batch norm and recurrent layers on meta tensors keep the
/// form that they have on the target: torch would decompose them on meta, or lose a mutation. Other
/// devices are not touched.
class Overrides {
public:
  explicit Overrides(Target target);

private:
  void addRecurrentLayers();

  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__,
                         __LINE__};
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_OVERRIDES_H
