//===- Provenance.h - Digests of a step's computation -----------*- C++ -*-===//
//
// A digest of what a step computes: of its loss, of each parameter's gradient and of each buffer's
// new value, followed through operators down to parameters, inputs and constants. The digest
// depends neither on when a value is computed, gathered or reduced, nor on values that are computed
// twice, so that every pass between captured and planned preserves it. fsdp-insert-collectives
// writes it into the module; the verifiers of later phases compare.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_PROVENANCE_H
#define FSDP_ANALYSIS_PROVENANCE_H

#include "fsdp/Analysis/Step.h"

#include <string>

namespace fsdp {

/// The digest of a step of any phase, 32 hexadecimal digits. Linear in the number of operations.
std::string computeProvenance(Step &step);

/// S9: the digest of the step equals the module's `fsdp.provenance`. A module without this
/// attribute is not compared. Diagnoses the difference.
mlir::LogicalResult checkProvenance(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_PROVENANCE_H
