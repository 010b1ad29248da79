//===- StepOp.cpp - The interface of a step's operations ------------------===//

#include "fsdp/IR/StepOp.h"

#include "fsdp/IR/Fsdp.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;
using Category = std::optional<BufferCategory>;

#include "fsdp/IR/StepOp.cpp.inc"
#include "fsdp/IR/StepOpEnums.cpp.inc"

/// The category for a result that is a tensor; none for other results.
static Category ofTensor(OpResult result, BufferCategory category) {
  return isa<RankedTensorType>(result.getType()) ? Category(category) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

StepRole aten::CallOp::getRole() { return isView() ? StepRole::Free : StepRole::Compute; }
std::string aten::CallOp::getTitle() { return getCallee().str(); }
bool aten::CallOp::isOfGroups() { return false; }
Category aten::CallOp::getMadeCategory(OpResult result) {
  return isView() ? std::nullopt : ofTensor(result, BufferCategory::Activation);
}
Value aten::CallOp::getAlias(OpResult) {
  return isView() && !getOperands().empty() ? getOperand(0) : Value();
}

StepRole LaunchOp::getRole() { return StepRole::Compute; }
std::string LaunchOp::getTitle() { return "kernel " + getKernel().str(); }
bool LaunchOp::isOfGroups() { return false; }
Category LaunchOp::getMadeCategory(OpResult result) {
  return ofTensor(result, BufferCategory::Activation);
}

StepRole aten::ConstantOp::getRole() { return StepRole::Free; }
bool aten::ConstantOp::isOfGroups() { return false; }
Category aten::ConstantOp::getMadeCategory(OpResult) { return BufferCategory::Constant; }

StepRole InputOp::getRole() { return StepRole::Begin; }
bool InputOp::isOfGroups() { return false; }
Category InputOp::getMadeCategory(OpResult result) {
  return ofTensor(result, BufferCategory::Input);
}

StepRole LossScaleOp::getRole() { return StepRole::Begin; }
bool LossScaleOp::isOfGroups() { return false; }
Category LossScaleOp::getMadeCategory(OpResult) { return BufferCategory::Input; }

StepRole ReadOp::getRole() { return StepRole::Free; }
bool ReadOp::isOfGroups() { return false; }

StepRole WriteOp::getRole() { return StepRole::Compute; }
std::string WriteOp::getTitle() { return "write of " + getBuffer().str(); }
bool WriteOp::isOfGroups() { return false; }
Value WriteOp::getMoved() { return getValue(); }
FlatSymbolRefAttr WriteOp::getOverwritten() { return getBufferAttr(); }

StepRole UpdateOp::getRole() { return StepRole::Reader; }
bool UpdateOp::isOfGroups() { return false; }
FlatSymbolRefAttr UpdateOp::getOverwritten() { return getTargetAttr(); }

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

StepRole ShardOp::getRole() { return StepRole::Begin; }

StepRole EncodeOp::getRole() { return StepRole::Begin; }
Category EncodeOp::getMadeCategory(OpResult) { return BufferCategory::EncodedShard; }

StepRole PartialAmaxOp::getRole() { return StepRole::Begin; }
std::string PartialAmaxOp::getTitle() { return "amax of parameters"; }
Category PartialAmaxOp::getMadeCategory(OpResult) { return BufferCategory::Activation; }

StepRole AmaxOp::getRole() { return StepRole::Free; }
bool AmaxOp::isOfGroups() { return false; }
Value AmaxOp::getAlias(OpResult) { return getTotal(); }

StepRole ChunkOp::getRole() { return StepRole::Compute; }
Category ChunkOp::getMadeCategory(OpResult) { return BufferCategory::Chunk; }

StepRole PackOp::getRole() { return StepRole::Free; }
std::string PackOp::getTitle() { return "copy of gradients"; }
Category PackOp::getMadeCategory(OpResult) { return BufferCategory::Gradient; }
OperandRange PackOp::getPacked() { return getGrads(); }

StepRole CastOp::getRole() { return StepRole::Reader; }
std::string CastOp::getTitle() { return "accumulation of gradients"; }
Category CastOp::getMadeCategory(OpResult) { return BufferCategory::ReducedShard; }

StepRole AccumulateOp::getRole() {
  return isa<ShardType>(getSum().getType()) ? StepRole::Reader : StepRole::Compute;
}
std::string AccumulateOp::getTitle() { return "accumulation of gradients"; }
Value AccumulateOp::getAlias(OpResult) { return getSum(); }

StepRole AllReduceHookOp::getRole() { return StepRole::Reader; }
Value AllReduceHookOp::getAlias(OpResult) { return getSource(); }

//===----------------------------------------------------------------------===//
// Collectives and norms
//===----------------------------------------------------------------------===//

StepRole AllGatherStartOp::getRole() { return StepRole::CollectiveStart; }
Category AllGatherStartOp::getMadeCategory(OpResult) { return BufferCategory::Gathered; }
StepRole AllGatherWaitOp::getRole() { return StepRole::CollectiveWait; }
std::string AllGatherWaitOp::getTitle() { return "copy of parameters"; }
Category AllGatherWaitOp::getMadeCategory(OpResult) { return BufferCategory::Gathered; }
Value AllGatherWaitOp::getAlias(OpResult) { return getHandle(); }
StepRole ReshardOp::getRole() { return StepRole::Reshard; }

StepRole ReduceScatterStartOp::getRole() { return StepRole::CollectiveStart; }
std::string ReduceScatterStartOp::getTitle() { return "copy of gradients"; }
Category ReduceScatterStartOp::getMadeCategory(OpResult) { return BufferCategory::ReducedShard; }
OperandRange ReduceScatterStartOp::getPacked() { return getGrads(); }
StepRole ReduceScatterWaitOp::getRole() { return StepRole::CollectiveWait; }
Value ReduceScatterWaitOp::getAlias(OpResult) { return getHandle(); }

StepRole AllReduceStartOp::getRole() { return StepRole::CollectiveStart; }
Value AllReduceStartOp::getAlias(OpResult) { return getSource(); }
StepRole AllReduceWaitOp::getRole() { return StepRole::CollectiveWait; }
Value AllReduceWaitOp::getAlias(OpResult) { return getHandle(); }

StepRole ShardNormOp::getRole() { return StepRole::Compute; }
std::string ShardNormOp::getTitle() { return "norm of gradients"; }
Value ShardNormOp::getMoved() { return getGradient(); }
StepRole PartialNormOp::getRole() { return StepRole::Compute; }
std::string PartialNormOp::getTitle() { return "norm of gradients"; }
Category PartialNormOp::getMadeCategory(OpResult) { return BufferCategory::Activation; }
StepRole ClipFactorOp::getRole() { return StepRole::Free; }

//===----------------------------------------------------------------------===//
// Copies between host and device
//===----------------------------------------------------------------------===//

StepRole FetchStateStartOp::getRole() { return StepRole::FetchStart; }
std::string FetchStateStartOp::getTitle() { return "copy of optimizer state"; }
Category FetchStateStartOp::getMadeCategory(OpResult) { return BufferCategory::OptimizerState; }
StepRole FetchStateWaitOp::getRole() { return StepRole::FetchWait; }
Value FetchStateWaitOp::getAlias(OpResult) { return getHandle(); }
StepRole StoreStateStartOp::getRole() { return StepRole::StoreStart; }
std::string StoreStateStartOp::getTitle() { return "copy of optimizer state"; }
Value StoreStateStartOp::getAlias(OpResult) { return getState(); }
StepRole StoreStateWaitOp::getRole() { return StepRole::StoreWait; }

static std::string nameCopied(Type type) {
  auto shard = dyn_cast<ShardType>(type);
  return !shard                  ? "copy of an activation"
         : shard.getRanks() == 0 ? "copy of a gradient"
                                 : "copy of a chunk";
}

StepRole StoreStartOp::getRole() { return StepRole::StoreStart; }
std::string StoreStartOp::getTitle() { return nameCopied(getValue().getType()); }
StepRole StoreWaitOp::getRole() { return StepRole::StoreWait; }
StepRole FetchStartOp::getRole() { return StepRole::FetchStart; }
std::string FetchStartOp::getTitle() { return nameCopied(getValueType()); }
Category FetchStartOp::getMadeCategory(OpResult) {
  return isa<ShardType>(getValueType()) ? BufferCategory::ReducedShard : BufferCategory::Activation;
}
StepRole FetchWaitOp::getRole() { return StepRole::FetchWait; }
Value FetchWaitOp::getAlias(OpResult) { return getHandle(); }

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

FlatSymbolRefAttr fsdp::getGroupOf(Value value) {
  Type type = value.getType();
  if (isa<HandleType>(type))
    return getGroupOf(value.getDefiningOp());
  return llvm::TypeSwitch<Type, FlatSymbolRefAttr>(type)
      .Case<ShardType, StateType, ShardNormType>([](auto typed) { return typed.getGroup(); })
      .Case([](HostType host) {
        auto shard = dyn_cast<ShardType>(host.getValue());
        return shard ? shard.getGroup() : FlatSymbolRefAttr();
      })
      .Default([](Type) { return FlatSymbolRefAttr(); });
}

FlatSymbolRefAttr fsdp::getGroupOf(Operation *op) {
  if (auto named = op->getAttrOfType<FlatSymbolRefAttr>("group"))
    return named;
  FlatSymbolRefAttr group;
  auto note = [&](Value value) {
    // The group of a handle that the operation itself makes is not known yet.
    FlatSymbolRefAttr own = value.getDefiningOp() == op && isa<HandleType>(value.getType())
                                ? FlatSymbolRefAttr()
                                : getGroupOf(value);
    bool isOther = own && group && own != group;
    group = own ? own : group;
    return !isOther;
  };
  if (llvm::all_of(op->getResults(), note) && llvm::all_of(op->getOperands(), note))
    return group;
  return {};
}

std::string fsdp::describe(Operation *op) {
  auto inStep = dyn_cast<StepOpInterface>(op);
  if (!inStep)
    return "'" + op->getName().getStringRef().str() + "'";
  FlatSymbolRefAttr group = getGroupOf(op);
  return inStep.getTitle() + (group ? " of " + group.getValue().str() : "");
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kPlace = "offset", kPlaces = "offsets";

static bool hasAttribute(Operation *op, StringRef name) {
  return llvm::is_contained(op->getName().getAttributeNames(), name);
}

bool fsdp::hasPlaces(Operation *op) {
  return op->isRegistered() && (hasAttribute(op, kPlace) || hasAttribute(op, kPlaces));
}

std::optional<int64_t> fsdp::getPlace(Operation *op, size_t index, size_t expected) {
  if (auto places = op->getAttrOfType<DenseI64ArrayAttr>(kPlaces);
      places && static_cast<size_t>(places.size()) == expected)
    return places[index];
  if (auto place = op->getAttrOfType<IntegerAttr>(kPlace); place && expected == 1)
    return place.getInt();
  return std::nullopt;
}

void fsdp::setPlaces(Operation *op, ArrayRef<int64_t> places) {
  Builder builder(op->getContext());
  if (hasAttribute(op, kPlaces))
    op->setAttr(kPlaces, builder.getDenseI64ArrayAttr(places));
  else
    op->setAttr(kPlace, builder.getI64IntegerAttr(places.front()));
}
