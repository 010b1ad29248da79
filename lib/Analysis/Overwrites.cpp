//===- Overwrites.cpp - What is read keeps its value ----------------------===//

#include "fsdp/Analysis/Overwrites.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Checker {
public:
  Checker(func::FuncOp step, const GroupTable &groups, const StepStorage &storage);

  LogicalResult run();

private:
  /// What was read from `symbol` is not used after `writer`, which stands at `position`.
  LogicalResult checkReads(Operation *writer, StringAttr symbol, int64_t position);
  LogicalResult checkWrite(WriteOp write, int64_t position);
  LogicalResult checkUpdate(UpdateOp update, int64_t position);

  struct Read {
    ReadOp op;
    int64_t position;
    int64_t storage;
  };

  func::FuncOp step;
  const GroupTable &groups;
  const StepStorage &storage;
  std::vector<int64_t> lastUse;                    // by storage: position
  std::vector<Operation *> lastUser;               // by storage
  DenseMap<StringAttr, SmallVector<Read>> readsOf; // by buffer or parameter
};

} // namespace

Checker::Checker(func::FuncOp step, const GroupTable &groups, const StepStorage &storage)
    : step(step), groups(groups), storage(storage), lastUse(storage.getStorages().size(), -1),
      lastUser(storage.getStorages().size(), nullptr) {
  for (auto [position, op] : llvm::enumerate(step.getBody().front())) {
    for (Value operand : op.getOperands())
      if (int64_t index = storage.lookup(operand); index != StepStorage::kNone) {
        lastUse[index] = position;
        lastUser[index] = &op;
      }
    if (auto read = dyn_cast<ReadOp>(op))
      if (int64_t index = storage.lookup(read.getResult()); index != StepStorage::kNone)
        readsOf[read.getSourceAttr().getAttr()].push_back(
            {read, static_cast<int64_t>(position), index});
  }
}

LogicalResult Checker::checkReads(Operation *writer, StringAttr symbol, int64_t position) {
  auto reads = readsOf.find(symbol);
  if (reads == readsOf.end())
    return success();
  for (const Read &read : reads->second) {
    if (read.position > position || lastUse[read.storage] <= position)
      continue;
    InFlightDiagnostic diag = writer->emitOpError("P4: overwrites @")
                              << symbol.getValue() << " before the last use of what was read";
    ReadOp op = read.op;
    diag.attachNote(op.getLoc()) << "read here";
    diag.attachNote(lastUser[read.storage]->getLoc()) << "last used here";
    return diag;
  }
  return success();
}

LogicalResult Checker::checkWrite(WriteOp write, int64_t position) {
  // Elements that change places within the buffer would overwrite each other.
  int64_t index = storage.lookup(write.getValue());
  if (index != StepStorage::kNone) {
    auto read = dyn_cast<ReadOp>(storage.getStorages()[index].owner);
    if (read && read.getSource() == write.getBuffer() && read.getResult() != write.getValue()) {
      InFlightDiagnostic diag = write.emitOpError("P4: overwrites @")
                                << write.getBuffer() << " with a view of itself";
      diag.attachNote(read.getLoc()) << "read here";
      return diag;
    }
  }
  return checkReads(write, write.getBufferAttr().getAttr(), position);
}

LogicalResult Checker::checkUpdate(UpdateOp update, int64_t position) {
  for (ParamOp param : groups.lookup(update.getTargetAttr()).params)
    if (failed(checkReads(update, param.getSymNameAttr(), position)))
      return failure();
  return success();
}

LogicalResult Checker::run() {
  for (auto [position, op] : llvm::enumerate(step.getBody().front())) {
    LogicalResult result = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                               .Case([&](UpdateOp update) { return checkUpdate(update, position); })
                               .Case([&](WriteOp write) { return checkWrite(write, position); })
                               .Default([](Operation *) { return success(); });
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult fsdp::checkOverwrites(func::FuncOp step, const GroupTable &groups,
                                    const StepStorage &storage) {
  return Checker(step, groups, storage).run();
}
