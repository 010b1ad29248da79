//===- StepStorage.cpp - Storages of a step's values ----------------------===//

#include "fsdp/Analysis/StepStorage.h"

#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;

class StepStorage::Builder {
public:
  Builder(StepStorage &result, const GroupTable &groups) : result(result), groups(groups) {}
  LogicalResult add(Operation &op);

private:
  void add(Value value, Storage storage) {
    if (storage.bytes == 0)
      return;
    result.storageOf[value] = result.storages.size();
    result.storages.push_back(storage);
  }
  LogicalResult addAlias(Operation *op, Value value, Value source);
  LogicalResult addRead(ReadOp read);
  void addMade(OpResult value, BufferCategory category, Value whole);

  StepStorage &result;
  const GroupTable &groups;
};

/// False for results of the model's operators (the bulk of a step), for inputs and for constants.
static bool isOfGroup(BufferCategory category) {
  return category != BufferCategory::Activation && category != BufferCategory::Input &&
         category != BufferCategory::Constant;
}

/// The size of an operation's result that belongs to a group and is no tensor.
static int64_t getGroupBytes(const GroupInfo &group, BufferCategory category) {
  switch (category) {
  case BufferCategory::Gathered:
    return group.gathered.wholeBytes;
  case BufferCategory::Gradient:
    return group.gradients.wholeBytes;
  case BufferCategory::ReducedShard:
    return group.gradients.shardBytes;
  case BufferCategory::EncodedShard:
    return group.gathered.shardBytes;
  case BufferCategory::Chunk:
    return group.getChunkBytes();
  default:
    return group.getFetchedBytes(); // that updates read from the host
  }
}

/// The dtype of a shard that an operation yields, or that a copy fetches from the host; null for
/// other values.
static Type getOwnDtype(OpResult value) {
  Operation *op = value.getOwner();
  if (auto shard = dyn_cast<ShardType>(value.getType()))
    return shard.getElementType();
  auto fetch = dyn_cast<FetchStartOp>(op);
  auto shard = fetch ? dyn_cast<ShardType>(fetch.getValueType()) : ShardType();
  return shard ? shard.getElementType() : Type();
}

/// The tensor that an operation yields, or that a copy fetches from the host; null for other
/// values.
static RankedTensorType getMadeTensor(OpResult value) {
  auto fetch = dyn_cast<FetchStartOp>(value.getOwner());
  return dyn_cast<RankedTensorType>(fetch ? fetch.getValueType() : value.getType());
}

/// With `whole` the value is a part of that storage: of a flat gather. In the per-param layout the
/// parameters are copied out.
void StepStorage::Builder::addMade(OpResult value, BufferCategory category, Value whole) {
  Storage storage{
      .category = category, .owner = value.getOwner(), .index = value.getResultNumber()};
  if (isOfGroup(category))
    storage.group = &groups.lookup(getGroupOf(value.getOwner()));
  if (RankedTensorType type = getMadeTensor(value))
    storage.bytes = getStorageBytes(type);
  else if (Type own = getOwnDtype(value); own && category == BufferCategory::ReducedShard)
    storage.bytes = storage.group->getGradientBytes(own);
  else
    storage.bytes = getGroupBytes(*storage.group, category);
  if (whole && storage.group->isFlat())
    storage.whole = result.lookup(whole);
  add(value, storage);
}

LogicalResult StepStorage::Builder::addAlias(Operation *op, Value value, Value source) {
  int64_t root = result.lookup(source);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  int64_t bytes = type ? getStorageBytes(type) : 0;
  if (isa<NoneType>(value.getType()) || (type && bytes == 0))
    return success();
  int64_t rootBytes = root == kNone ? 0 : result.storages[root].bytes;
  if (bytes > rootBytes) {
    InFlightDiagnostic diag = op->emitOpError("P3: ");
    if (auto call = dyn_cast<aten::CallOp>(op))
      diag << "'" << call.getCallee() << "' ";
    diag << "is a view that ends at byte " << bytes << " of a storage of " << rootBytes << " bytes";
    if (root != kNone)
      diag.attachNote(result.storages[root].owner->getLoc()) << "the storage is made here";
    return diag;
  }
  if (root != kNone)
    result.storageOf[value] = root;
  return success();
}

LogicalResult StepStorage::Builder::addRead(ReadOp read) {
  auto type = cast<RankedTensorType>(read.getResult().getType());
  auto [group, index] = groups.lookupParam(read.getSourceAttr());
  if (group && group->getShards() > 1)
    return read.emitOpError("reads parameter ")
           << read.getSourceAttr() << ", of which a rank holds a shard only; expected "
           << AllGatherWaitOp::getOperationName() << " on " << group->getShards() << " ranks";
  if (group && GroupOp(group->op).areParametersOnHost())
    return read.emitOpError("reads parameter ")
           << read.getSourceAttr() << ", which lies on the host; expected "
           << AllGatherWaitOp::getOperationName();
  add(read.getResult(), {.category = group ? BufferCategory::Shard : BufferCategory::Buffer,
                         .owner = read,
                         .index = index,
                         .bytes = getStorageBytes(type),
                         .group = group,
                         .isDeclared = true});
  return success();
}

LogicalResult StepStorage::Builder::add(Operation &op) {
  if (op.hasTrait<OpTrait::IsTerminator>())
    return success();
  auto uses = dyn_cast<StepOpInterface>(op);
  if (!uses)
    return op.emitOpError("is not part of a step");
  if (auto read = dyn_cast<ReadOp>(op))
    return addRead(read);
  if (auto shard = dyn_cast<ShardOp>(op)) {
    const GroupInfo &group = groups.lookup(shard.getResult().getType());
    bool isCopy = shard.getResult().getType().getElementType() != group.master.elementType;
    add(shard.getResult(), {.category = BufferCategory::Shard,
                            .owner = shard,
                            .bytes = (isCopy ? group.gathered : group.master).shardBytes,
                            .group = &group,
                            .isDeclared = true});
    return success();
  }
  for (OpResult value : op.getResults()) {
    Value alias = uses.getAlias(value);
    if (std::optional<BufferCategory> category = uses.getMadeCategory(value))
      addMade(value, *category, alias);
    else if (alias && failed(addAlias(&op, value, alias)))
      return failure();
  }
  return success();
}

FailureOr<StepStorage> StepStorage::build(func::FuncOp step, const GroupTable &groups) {
  StepStorage result;
  Builder builder(result, groups);
  for (Operation &op : step.getBody().front())
    if (failed(builder.add(op)))
      return failure();
  return result;
}

void StepStorage::forEachTouched(Operation &op, llvm::function_ref<void(int64_t)> visit) const {
  auto touch = [&](Value value) {
    for (int64_t index = lookup(value); index != kNone; index = storages[index].whole)
      visit(index);
  };
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    if (AllGatherWaitOp wait = reshard.getStart().getWait())
      llvm::for_each(wait.getResults(), touch);
    return;
  }
  llvm::for_each(op.getOperands(), touch);
  llvm::for_each(op.getResults(), touch);
}

std::string fsdp::describe(const Storage &storage) {
  std::string text;
  llvm::raw_string_ostream os(text);
  std::string group;
  if (storage.group)
    group = "@" + storage.group->getName().getValue().str();
  llvm::TypeSwitch<Operation *>(storage.owner)
      .Case([&](aten::CallOp call) {
        os << "result #" << storage.index << " of '" << call.getCallee() << "' in \""
           << call.getModule() << '"';
      })
      .Case([&](LaunchOp launch) {
        os << "result #" << storage.index << " of kernel @" << launch.getKernel() << " in \""
           << launch.getScope().getModule().getValue() << '"';
      })
      .Case([&](InputOp input) { os << "input \"" << input.getName() << '"'; })
      .Case([&](LossScaleOp) { os << "the loss scale"; })
      .Case([&](ReadOp read) {
        os << (storage.group ? "parameter @" : "buffer @") << read.getSource();
      })
      .Case([&](AllGatherWaitOp) {
        ParamOp param = storage.group->params[storage.index];
        os << "gathered parameter @" << param.getSymName();
      })
      .Case([&](AllGatherStartOp) { os << "the gathered group " << group; })
      .Case([&](FetchStartOp fetch) {
        if (aten::ScopeAttr scope = getScopeOf(fetch.getSource()))
          os << "the fetched activation of \"" << scope.getModule().getValue() << '"';
        else
          os << "the " << stringifyBufferCategory(storage.category) << " of " << group;
      })
      .Case([&](PartialNormOp) { os << "the gradients' norm"; })
      .Case([&](PartialAmaxOp) { os << "the parameters' amax"; })
      .Case([&](aten::ConstantOp) { os << "a constant"; })
      .Default([&](Operation *) {
        os << "the " << stringifyBufferCategory(storage.category) << " of " << group;
      });
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
  if (isProgram(module))
    return module.emitError("the module is a program of several steps, expected one of them: fsdpc "
                            "--save-temps keeps each as scheduled.mlir beside it");
  auto steps = module.getOps<func::FuncOp>();
  if (!llvm::hasSingleElement(steps) || !llvm::hasSingleElement((*steps.begin()).getBody()))
    return module.emitError("has ") << std::distance(steps.begin(), steps.end())
                                    << " functions, expected one, the step, with one block";
  return *steps.begin();
}
