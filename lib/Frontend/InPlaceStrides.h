//===- InPlaceStrides.h - Layouts of in-place results -----------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_INPLACESTRIDES_H
#define FSDP_LIB_FRONTEND_INPLACESTRIDES_H

#include <torch/library.h>

namespace fsdp::frontend {

/// torch's functionalization turns `x.op_(...)` into `op(x, ...)`, whose result is contiguous for
/// some operators, whatever the strides of x. While an InPlaceStrides lives, these results are
/// copied to the layout of x, so that later readers of x have eager's order of elements.
class InPlaceStrides {
public:
  InPlaceStrides();

private:
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::Functionalize, __FILE__,
                         __LINE__};
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_INPLACESTRIDES_H
