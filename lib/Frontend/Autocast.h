//===- Autocast.h - The casts of torch.autocast on meta tensors --*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_AUTOCAST_H
#define FSDP_LIB_FRONTEND_AUTOCAST_H

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <map>
#include <optional>
#include <string>

namespace fsdp {
enum class Target : uint32_t;
} // namespace fsdp

namespace fsdp::frontend {

/// torch's autocast checks the device of tensors and ignores meta. While an Autocast lives, a
/// Region casts as torch does for the target: the same operators, under autograd. Casts of fp32
/// parameters are cached until the outermost region ends. At most one Autocast lives at a time.
class Autocast {
public:
  explicit Autocast(Target target);
  ~Autocast();
  Autocast(const Autocast &) = delete;
  Autocast &operator=(const Autocast &) = delete;

  /// `with torch.autocast(device, dtype, enabled)`; a device other than the target's has no effect.
  class Region {
  public:
    Region(Autocast &autocast, const std::string &device, std::optional<at::ScalarType> dtype,
           bool enabled);
    ~Region();

  private:
    Autocast *autocast = nullptr; // null: the region has no effect
    bool wasEnabled = false;
    at::ScalarType previous = at::kFloat;
  };

  /// `tensor` as an operator's argument, for an operator that autocast runs in `dtype`.
  at::Tensor cast(const at::Tensor &tensor, at::ScalarType dtype);
  at::ScalarType getDtype() const { return dtype; }

private:
  bool isForCpu;
  torch::Library kernels;
  torch::Library fallback;
  at::ScalarType dtype;
  int depth = 0;
  /// By the original tensor, which is kept so that its address is not reused.
  std::map<const at::TensorImpl *, std::pair<at::Tensor, at::Tensor>> casts;
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_AUTOCAST_H
