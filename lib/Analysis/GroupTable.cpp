//===- GroupTable.cpp - The groups of a module and their layouts ----------===//

#include "fsdp/Analysis/GroupTable.h"

#include "fsdp/IR/OptimizerOptions.h"
#include "fsdp/IR/TensorLayout.h"
#include "fsdp/Plan/ArenaPlanner.h"

using namespace mlir;
using namespace fsdp;

/// The sizes of the mesh's axes. The group's verifier has checked that the group is sharded over
/// the last axis, and that another axis exists if it is replicated.
static ArrayRef<int64_t> getAxisSizes(GroupOp group, const SymbolTable &symbols) {
  return symbols.lookup<MeshOp>(group.getMesh()).getSizes();
}

static Type getDtype(TypeAttr said, Type otherwise) { return said ? said.getValue() : otherwise; }

static GroupForm makeForm(Type elementType) {
  return {.elementType = elementType, .elementBytes = getElementBytes(elementType)};
}

/// Offsets aligned for elements of this size are aligned for the other dtypes as well.
static int64_t getNarrowestBytes(const GroupInfo &info) {
  return std::min(
      {info.master.elementBytes, info.gathered.elementBytes, info.gradients.elementBytes});
}

static void setSizes(GroupForm &form, const plan::GroupLayout &layout) {
  form.numParams = layout.parameters.size();
  form.shardElements = layout.shardElements;
  form.shardBytes = layout.shardElements * form.elementBytes;
  form.wholeBytes = layout.gatheredElements() * form.elementBytes;
}

/// The sizes of the parameters' encoded shards.
static void setEncoding(GroupInfo &info, AllGatherExtensionAttr extension) {
  info.gathered = makeForm(IntegerType::get(extension.getContext(), 8, IntegerType::Unsigned));
  info.gathered.numParams = info.params.size();
  for (const plan::ParameterPlace &place : info.layout.parameters) {
    info.encodedBegins.push_back(info.gathered.shardBytes);
    info.gathered.shardBytes += extension.getEncodedBytes(place.chunkElements);
  }
  info.gathered.shardElements = info.gathered.shardBytes;
  info.gathered.wholeBytes = info.gathered.shardBytes * info.layout.ranks;
}

/// The optimizer states of the trained parameters.
static LogicalResult addStates(GroupInfo &info, OptimizerOp optimizer) {
  DictionaryAttr said = optimizer.getStateDtypeAttr();
  Type param = info.master.elementType;
  for (StringRef name : getStateNames(optimizer)) {
    GroupForm form = makeForm(getDtype(said ? said.getAs<TypeAttr>(name) : TypeAttr(), param));
    if (form.elementType != param && param.isF64()) {
      InFlightDiagnostic diag = info.op.emitOpError("@")
                                << info.op.getSymName() << " has parameters of " << param
                                << ", and their " << name << " is to be kept in "
                                << form.elementType << ": such updates compute in f32";
      diag.attachNote(optimizer.getLoc()) << "the optimizer is declared here";
      return diag;
    }
    setSizes(form, info.trained);
    info.states.push_back(form);
  }
  return success();
}

FailureOr<GroupTable> GroupTable::build(ModuleOp module) {
  GroupTable table;
  SymbolTable symbols(module);
  auto optimizers = module.getOps<OptimizerOp>();
  for (auto group : module.getOps<GroupOp>()) {
    GroupInfo info;
    info.op = group;
    info.index = table.groups.size();
    std::vector<std::vector<int64_t>> shapes;
    size_t numTrained = 0; // the first parameters
    for (auto name : group.getParams().getAsRange<FlatSymbolRefAttr>()) {
      auto param = symbols.lookup<ParamOp>(name.getAttr());
      table.paramOf[name.getAttr()] = {info.index, static_cast<unsigned>(info.params.size())};
      info.params.push_back(param);
      shapes.push_back(cast<RankedTensorType>(param.getType()).getShape().vec());
      numTrained += !param.getFrozen();
    }
    if (info.params.empty())
      return group.emitOpError("@") << group.getSymName() << " has no parameters";
    Type element = info.getParamType(0).getElementType();
    info.master = makeForm(element);
    info.gathered = makeForm(getDtype(group.getGatherDtypeAttr(), element));
    info.gradients = makeForm(getDtype(group.getReduceDtypeAttr(), element));
    ArrayRef<int64_t> sizes = getAxisSizes(group, symbols);
    unsigned ranks = sizes.back();
    info.replicas = sizes.size() > 1 ? sizes.front() : 1;
    auto layOut = [&](ArrayRef<std::vector<int64_t>> shapes) {
      ArrayRef<int64_t> dims = group.getShardDims().value_or(ArrayRef<int64_t>());
      return plan::layOutGroup(
          group.getLayout() == Layout::Flat ? plan::Layout::Flat : plan::Layout::PerParam, shapes,
          ranks, plan::kArenaAlignmentBytes / getNarrowestBytes(info), dims);
    };
    info.layout = layOut(shapes);
    info.trained = layOut(ArrayRef(shapes).take_front(numTrained));
    if (std::optional<int64_t> kept = group.getReshardRanks())
      info.chunk = plan::mergeRanks(info.layout, *kept);
    setSizes(info.master, info.layout);
    if (AllGatherExtensionAttr extension = group.getAllGatherExtensionAttr())
      setEncoding(info, extension);
    else
      setSizes(info.gathered, info.layout);
    setSizes(info.gradients, info.trained);
    info.updated = makeForm(element);
    setSizes(info.updated, info.trained);
    if (!info.isFrozen() && !optimizers.empty() && failed(addStates(info, *optimizers.begin())))
      return failure();
    table.groupOf[group.getSymNameAttr()] = info.index;
    table.groups.push_back(std::move(info));
  }
  for (auto param : module.getOps<ParamOp>())
    if (!table.paramOf.contains(param.getSymNameAttr()))
      return param.emitOpError("@") << param.getSymName() << " belongs to no group";
  return table;
}

std::pair<const GroupInfo *, unsigned> GroupTable::lookupParam(FlatSymbolRefAttr param) const {
  auto found = paramOf.find(param.getAttr());
  if (found == paramOf.end())
    return {nullptr, 0};
  return {&groups[found->second.first], found->second.second};
}

int64_t GroupInfo::getGradientBytes(Type dtype) const {
  return gradients.shardElements * getElementBytes(dtype);
}

int64_t GroupInfo::getStateBytes() const {
  int64_t bytes = 0;
  for (const GroupForm &state : states)
    bytes += state.shardBytes;
  return bytes;
}

std::vector<HostPart> GroupInfo::getHostParts() const {
  GroupOp group = op; // accessors of operations are not const
  std::vector<HostPart> parts;
  if (group.areParametersOnHost())
    parts.push_back({BufferCategory::Shard, 0, "the shard", master.shardBytes, updated.shardBytes});
  if (group.isStateOnHost())
    for (auto [i, state] : llvm::enumerate(states))
      parts.push_back({BufferCategory::OptimizerState, static_cast<unsigned>(i + 1),
                       "optimizer state " + std::to_string(i + 1), state.shardBytes,
                       state.shardBytes});
  if (group.areParametersOnHost() && hasGatherCopy())
    parts.push_back({BufferCategory::Shard, 1, "the copy that is gathered", gathered.shardBytes,
                     updated.shardElements * gathered.elementBytes});
  return parts;
}

SmallVector<int64_t> GroupInfo::getHostPlaces() const {
  GroupOp group = op; // accessors of operations are not const
  SmallVector<int64_t> offsets;
  PlacesAttr places = group.getPlacesAttr();
  if (!places)
    return offsets;
  if (places.getHostShard())
    offsets.push_back(*places.getHostShard());
  llvm::append_range(offsets, places.getHostStates());
  if (places.getHostCopy())
    offsets.push_back(*places.getHostCopy());
  return offsets;
}

int64_t GroupInfo::getFetchedBytes() const {
  int64_t bytes = 0;
  for (const HostPart &part : getHostParts())
    bytes += part.fetchedBytes;
  return bytes;
}

std::optional<std::string> GroupInfo::explainPlaces() const {
  GroupOp group = op; // accessors of operations are not const
  PlacesAttr places = group.getPlacesAttr();
  if (!places)
    return "has no places in the arena";
  const size_t numStates = states.size();
  const bool isStateOnHost = group.isStateOnHost(), isOnHost = group.areParametersOnHost();
  if (isStateOnHost && numStates == 0)
    return "has its optimizer state on the host, but the optimizer keeps none of it";
  auto check = [](ArrayRef<int64_t> found, size_t expected,
                  const char *where) -> std::optional<std::string> {
    if (found.size() == expected)
      return std::nullopt;
    return "has places for " + std::to_string(found.size()) + " optimizer states " + where +
           ", expected " + std::to_string(expected);
  };
  if (auto wrong = check(places.getStates(), isStateOnHost ? 0 : numStates, "in the arena"))
    return wrong;
  if (auto wrong = check(places.getHostStates(), isStateOnHost ? numStates : 0, "on the host"))
    return wrong;
  auto checkOne = [](bool isPlaced, bool isExpected,
                     const std::string &what) -> std::optional<std::string> {
    if (isPlaced == isExpected)
      return std::nullopt;
    return (isPlaced ? "has a place, but expects none, for " : "has no place for ") + what;
  };
  const std::string inArena = " in the arena", onHost = " on the host";
  if (auto wrong = checkOne(places.getShard().has_value(), !isOnHost, "the shard" + inArena))
    return wrong;
  if (auto wrong = checkOne(places.getHostShard().has_value(), isOnHost, "the shard" + onHost))
    return wrong;
  const std::string copy = "the copy that is gathered";
  if (auto wrong =
          checkOne(places.getCopy().has_value(), hasGatherCopy() && !isOnHost, copy + inArena))
    return wrong;
  return checkOne(places.getHostCopy().has_value(), hasGatherCopy() && isOnHost, copy + onHost);
}
