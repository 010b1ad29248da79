//===- InPlaceStrides.h - What is written in place keeps its layout -*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_INPLACESTRIDES_H
#define FSDP_LIB_FRONTEND_INPLACESTRIDES_H

#include <torch/library.h>

namespace fsdp::frontend {

/// torch's functionalization turns `x.op_(...)` into `op(x, ...)`. Of some operators the latter has
/// a contiguous result, whatever the strides of x. While one lives, a copy into the layout of x
/// follows there, so that what reads x next reads it in eager's order.
class InPlaceStrides {
public:
  InPlaceStrides();

private:
  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::Functionalize, __FILE__,
                         __LINE__};
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_INPLACESTRIDES_H
