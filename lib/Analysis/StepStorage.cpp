//===- StepStorage.cpp - Which tensors of a step share memory -------------===//

#include "fsdp/Analysis/StepStorage.h"

#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;

FailureOr<StepStorage> StepStorage::build(func::FuncOp step, const GroupTable &groups) {
  StepStorage result;
  auto add = [&](Value value, Storage storage) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return;
    storage.bytes = getStorageBytes(type);
    if (storage.bytes == 0)
      return;
    result.storageOf[value] = result.storages.size();
    result.storages.push_back(storage);
  };
  auto addView = [&](aten::CallOp call, Value value) -> LogicalResult {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    int64_t bytes = type ? getStorageBytes(type) : 0;
    if (bytes == 0)
      return success();
    int64_t root = call.getOperands().empty() ? kNone : result.lookup(call.getOperand(0));
    int64_t rootBytes = root == kNone ? 0 : result.storages[root].bytes;
    if (bytes > rootBytes) {
      InFlightDiagnostic diag = call.emitOpError("'")
                                << call.getCallee() << "' is a view that ends at byte " << bytes
                                << " of a storage of " << rootBytes << " bytes";
      if (root != kNone)
        diag.attachNote(result.storages[root].owner->getLoc()) << "the storage is made here";
      return diag;
    }
    result.storageOf[value] = root;
    return success();
  };
  auto addRead = [&](ReadOp read) -> LogicalResult {
    auto [group, index] = groups.lookupParam(read.getSourceAttr());
    if (!group) {
      add(read.getResult(), {.kind = Storage::Kind::Buffer, .owner = read});
      return success();
    }
    if (groups.getRanks() > 1)
      return read.emitOpError("reads parameter ")
             << read.getSourceAttr() << ", of which a rank holds a shard only; expected "
             << AllGatherWaitOp::getOperationName() << " on " << groups.getRanks() << " ranks";
    add(read.getResult(),
        {.kind = Storage::Kind::Shard, .owner = read, .index = index, .group = group});
    return success();
  };

  for (Operation &op : step.getBody().front()) {
    LogicalResult done =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case([&](aten::CallOp call) -> LogicalResult {
              bool isView = call.isView();
              for (auto [i, value] : llvm::enumerate(call.getResults())) {
                if (!isView)
                  add(value, {.kind = Storage::Kind::Fresh,
                              .owner = call,
                              .index = static_cast<unsigned>(i)});
                else if (failed(addView(call, value)))
                  return failure();
              }
              return success();
            })
            .Case([&](aten::ConstantOp constant) {
              add(constant.getResult(), {.kind = Storage::Kind::Constant, .owner = constant});
              return success();
            })
            .Case([&](InputOp input) {
              add(input.getResult(), {.kind = Storage::Kind::Input, .owner = input});
              return success();
            })
            .Case(addRead)
            .Case([&](SquareSumOp sum) {
              add(sum.getResult(), {.kind = Storage::Kind::Fresh, .owner = sum});
              return success();
            })
            .Case([&](SquareSumAllReduceWaitOp wait) {
              // In place.
              auto start = wait.getHandle().getDefiningOp<SquareSumAllReduceStartOp>();
              result.storageOf[wait.getTotal()] = result.lookup(start.getSquares());
              return success();
            })
            .Case([&](AllGatherWaitOp wait) {
              auto start = wait.getHandle().getDefiningOp<AllGatherStartOp>();
              const GroupInfo &group = groups.lookup(start.getGroupAttr());
              for (auto [i, value] : llvm::enumerate(wait.getResults()))
                add(value,
                    {.kind = group.isFlat() ? Storage::Kind::Gathered : Storage::Kind::Parameter,
                     .owner = wait,
                     .index = static_cast<unsigned>(i),
                     .group = &group});
              return success();
            })
            .Case<WriteOp, GradOp, UpdateOp, AllGatherStartOp, ReleaseOp, ReduceScatterStartOp,
                  ReduceScatterWaitOp, AllReduceStartOp, AllReduceWaitOp, FetchStateStartOp,
                  FetchStateWaitOp, StoreStateStartOp, StoreStateWaitOp, SquareSumAllReduceStartOp,
                  ClipFactorOp, func::ReturnOp>([](Operation *) { return success(); })
            .Default([](Operation *other) { return other->emitOpError("is not part of a step"); });
    if (failed(done))
      return failure();
  }
  return result;
}

std::string fsdp::describe(const Storage &storage) {
  std::string text;
  llvm::raw_string_ostream os(text);
  switch (storage.kind) {
  case Storage::Kind::Fresh: {
    auto call = dyn_cast<aten::CallOp>(storage.owner);
    if (!call) {
      os << "the sum of the gradients' squares";
      break;
    }
    os << "result #" << storage.index << " of '" << call.getCallee() << "' in \""
       << call.getModule() << '"';
    break;
  }
  case Storage::Kind::Constant:
    os << "a constant";
    break;
  case Storage::Kind::Input:
    os << "input \"" << cast<InputOp>(storage.owner).getName() << '"';
    break;
  case Storage::Kind::Buffer:
    os << "buffer @" << cast<ReadOp>(storage.owner).getSource();
    break;
  case Storage::Kind::Shard:
    os << "parameter @" << cast<ReadOp>(storage.owner).getSource();
    break;
  case Storage::Kind::Gathered:
  case Storage::Kind::Parameter: {
    ParamOp param = storage.group->params[storage.index];
    os << "gathered parameter @" << param.getSymName();
    break;
  }
  }
  return text;
}

FailureOr<func::FuncOp> fsdp::getStep(ModuleOp module, ArrayRef<ModulePhase> phases) {
  auto phase = module->getAttrOfType<ModulePhaseAttr>(FsdpDialect::getPhaseAttrName());
  if (!phase || !llvm::is_contained(phases, phase.getValue())) {
    InFlightDiagnostic diag = module.emitError("the module is ");
    if (phase)
      diag << "'" << stringifyModulePhase(phase.getValue()) << "'";
    else
      diag << "of no phase (it lacks the attribute '" << FsdpDialect::getPhaseAttrName() << "')";
    diag << ", expected ";
    llvm::interleave(
        phases, [&](ModulePhase p) { diag << "'" << stringifyModulePhase(p) << "'"; },
        [&] { diag << " or "; });
    return diag;
  }
  auto steps = module.getOps<func::FuncOp>();
  if (!llvm::hasSingleElement(steps) || !llvm::hasSingleElement((*steps.begin()).getBody()))
    return module.emitError("has ") << std::distance(steps.begin(), steps.end())
                                    << " functions, expected one, the step, with one block";
  return *steps.begin();
}
