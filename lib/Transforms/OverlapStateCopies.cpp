//===- OverlapStateCopies.cpp - Copies of state beside updates ------------===//

#include "fsdp/Transforms/OverlapStateCopies.h"

#include "fsdp/Analysis/StateCopies.h"

using namespace mlir;
using namespace fsdp;

void fsdp::overlapStateCopies(Block &body) {
  SmallVector<StateCopy> copies = collectStateCopies(body);
  Operation *terminator = body.getTerminator();
  for (auto [index, copy] : llvm::enumerate(copies)) {
    if (index == 0)
      copy.fetch->moveBefore(copy.update);
    copy.fetchWait->moveBefore(copy.update);
    // The next group's state may reuse the bytes of the previous group's.
    if (index > 0)
      copies[index - 1].storeWait->moveBefore(copy.update);
    if (index + 1 < copies.size())
      copies[index + 1].fetch->moveBefore(copy.update);
    copy.store->moveAfter(copy.update);
  }
  if (!copies.empty())
    copies.back().storeWait->moveBefore(terminator);
}
