//===- AlignReads.h - Parameters at aligned addresses -----------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_ALIGNREADS_H
#define FSDP_TRANSFORMS_ALIGNREADS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// Copies parameters that operators would read at unaligned addresses. Where a rank holds a group
/// whole, operators read the parameters in the rank's shard, and in the per-param layout nothing is
/// between one parameter and the next. BLAS libraries add up products in another order at unaligned
/// addresses, so that bits would differ from those of FSDP2, whose parameters are tensors of their
/// own.
void alignReads(Step &step);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_ALIGNREADS_H
