//===- Overwrites.cpp - Checks of writes to buffers -----------------------===//

#include "fsdp/Analysis/Overwrites.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Checker {
public:
  Checker(func::FuncOp step, const GroupTable &groups, const StepStorage &storage);

  LogicalResult run();

private:
  /// Values read from `symbol` are not used after `writer` at `position`.
  LogicalResult checkReads(Operation *writer, FlatSymbolRefAttr symbol, int64_t position);
  LogicalResult checkWrite(WriteOp write);

  struct Read {
    Operation *op;
    int64_t position;
    int64_t storage;
  };

  func::FuncOp step;
  const StepStorage &storage;
  std::vector<int64_t> lastUse;                   // by storage: position
  std::vector<Operation *> lastUser;              // by storage
  DenseMap<Attribute, SmallVector<Read>> readsOf; // by buffer or group
};

} // namespace

Checker::Checker(func::FuncOp step, const GroupTable &groups, const StepStorage &storage)
    : step(step), storage(storage), lastUse(storage.getStorages().size(), -1),
      lastUser(storage.getStorages().size(), nullptr) {
  for (auto [position, op] : llvm::enumerate(step.getBody().front()))
    storage.forEachTouched(op, [&](int64_t index) {
      const Storage &item = storage.getStorages()[index];
      if (item.isDeclared && item.owner == &op) {
        auto read = dyn_cast<ReadOp>(op);
        readsOf[item.group ? item.group->getName() : read.getSourceAttr()].push_back(
            {&op, static_cast<int64_t>(position), index});
      }
      lastUse[index] = position;
      lastUser[index] = &op;
    });
}

LogicalResult Checker::checkReads(Operation *writer, FlatSymbolRefAttr symbol, int64_t position) {
  for (const Read &read : readsOf.lookup(symbol)) {
    StringRef name = symbol.getValue();
    if (auto source = dyn_cast<ReadOp>(read.op))
      name = source.getSource();
    if (read.position > position) {
      InFlightDiagnostic diag = read.op->emitOpError("P4: reads @")
                                << name << " after it is overwritten";
      diag.attachNote(writer->getLoc()) << "overwritten here";
      return diag;
    }
    if (lastUse[read.storage] <= position)
      continue;
    InFlightDiagnostic diag = writer->emitOpError("P4: overwrites @")
                              << name << " before the last use of what was read";
    diag.attachNote(read.op->getLoc()) << "read here";
    diag.attachNote(lastUser[read.storage]->getLoc()) << "last used here";
    return diag;
  }
  return success();
}

/// A rearrangement of the buffer into itself would overwrite elements before they are read.
LogicalResult Checker::checkWrite(WriteOp write) {
  int64_t index = storage.lookup(write.getValue());
  if (index == StepStorage::kNone)
    return success();
  auto read = dyn_cast<ReadOp>(storage.getStorages()[index].owner);
  if (!read || read.getSource() != write.getBuffer() || read.getResult() == write.getValue())
    return success();
  InFlightDiagnostic diag = write.emitOpError("P4: overwrites @")
                            << write.getBuffer() << " with a view of itself";
  diag.attachNote(read.getLoc()) << "read here";
  return diag;
}

LogicalResult Checker::run() {
  for (auto [position, op] : llvm::enumerate(step.getBody().front())) {
    auto uses = dyn_cast<StepOpInterface>(op);
    FlatSymbolRefAttr symbol = uses ? uses.getOverwritten() : FlatSymbolRefAttr();
    auto write = dyn_cast<WriteOp>(op);
    if ((write && failed(checkWrite(write))) ||
        (symbol && failed(checkReads(&op, symbol, position))))
      return failure();
  }
  return success();
}

LogicalResult fsdp::checkOverwrites(func::FuncOp step, const GroupTable &groups,
                                    const StepStorage &storage) {
  return Checker(step, groups, storage).run();
}
