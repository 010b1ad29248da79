//===- OutsideOfCapture.h - Operators that are not recorded -----*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_OUTSIDEOFCAPTURE_H
#define FSDP_LIB_FRONTEND_OUTSIDEOFCAPTURE_H

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace fsdp::frontend {

/// Operators are not recorded while this object lives.
struct OutsideOfCapture {
  c10::impl::ExcludeDispatchKeyGuard keys{
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Functionalize})};
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_OUTSIDEOFCAPTURE_H
