//===- RefitCurve.h - A curve of durations through measured points *- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_REFITCURVE_H
#define FSDP_TOOLS_PROFILE_REFITCURVE_H

#include "fsdp/CostModel/SizedDuration.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fsdp::profile {

/// A curve through the measured durations. A point of another size is scaled: by the factor by
/// which `before`, the duration by size so far, was wrong at the nearest measured sizes. Between
/// two of these the factor is linear in the logarithm of the size. Sizes are positive and increase;
/// `measured` is not empty.
std::vector<cost::SizedDuration> refitCurve(llvm::ArrayRef<cost::SizedDuration> curve,
                                            llvm::ArrayRef<cost::SizedDuration> measured,
                                            llvm::function_ref<double(int64_t)> before);

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_REFITCURVE_H
