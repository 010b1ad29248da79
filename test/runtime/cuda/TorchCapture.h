//===- TorchCapture.h - Torch's operators as nodes of a graph ---*- C++ -*-===//
//
// Lets tests replay CPU operators as a GPU's graph would: each operator that is called meanwhile
// becomes a node, which runs it again on the same arguments and puts its results to where they were.
// Operators that write their arguments do not run before that; others do, for their results' sake.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_RUNTIME_CUDA_TORCHCAPTURE_H
#define FSDP_TEST_RUNTIME_CUDA_TORCHCAPTURE_H

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>

namespace fsdp::rt {

/// Takes the operators of the thread that makes it, as long as it lives. One per thread.
class TorchCapture {
public:
  using Take = std::function<void(std::function<void()>)>;
  explicit TorchCapture(Take take);
  ~TorchCapture();

private:
  Take take;
  c10::impl::IncludeDispatchKeyGuard guard;
};

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_CUDA_TORCHCAPTURE_H
