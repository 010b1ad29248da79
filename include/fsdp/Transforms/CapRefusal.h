//===- CapRefusal.h - The figures of a refused memory cap -------*- C++ -*-===//
//
// The error of a cap that is too small has its figures as metadata, so that programs need not read
// its text.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TRANSFORMS_CAPREFUSAL_H
#define FSDP_TRANSFORMS_CAPREFUSAL_H

#include "mlir/IR/Diagnostics.h"

#include <optional>
#include <string>

namespace fsdp {

/// Sizes are bytes, with the temporaries inside operators.
struct CapRefusal {
  int64_t leastBytes = 0;                  // no schedule needs less
  std::optional<int64_t> enoughBytes = {}; // a schedule was placed in as many
  std::string place = {};                  // where a schedule needs leastBytes; may be empty
};

void attachRefusal(mlir::Diagnostic &diag, const CapRefusal &refusal);

/// None if `diag` is another error.
std::optional<CapRefusal> getRefusal(mlir::Diagnostic &diag);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_CAPREFUSAL_H
