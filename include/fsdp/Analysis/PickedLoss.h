//===- PickedLoss.h - A loss of one number of each row ------------*- C++ -*-===//
//
// nll_loss(rows, targets) is nll_loss(picked, ignored) with
//
//   picked  = gather(rows, 1, unsqueeze(clamp_min(targets, 0), 1))
//   ignored = clamp_max(targets, 0)
//
// if what is ignored is negative: of each row whose target is a class both add the same number, in
// the same order.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_PICKEDLOSS_H
#define FSDP_ANALYSIS_PICKEDLOSS_H

#include "fsdp/IR/Aten.h"

namespace fsdp {

/// True for an nll_loss of classes in the last of two dimensions, without weights of classes,
/// averaged or added up, that ignores a negative target.
bool isPlainLoss(aten::CallOp call);

/// What of `picked` and `ignored` a call makes.
enum class PickPart { Classes, Indices, Picked, Ignored };
std::optional<PickPart> getPickPart(aten::CallOp call);

} // namespace fsdp

#endif // FSDP_ANALYSIS_PICKEDLOSS_H
