//===- LowerToPlan.cpp - From a planned module to the plan's tables -------===//

#include "fsdp/Export/LowerToPlan.h"

#include "PlanBuilder.h"
#include "fsdp/Export/GroupTable.h"
#include "fsdp/Export/StepStorage.h"
#include "fsdp/IR/TensorLayout.h"
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Lowering {
public:
  Lowering(ModuleOp module, func::FuncOp step, GroupTable groups)
      : module(module), step(step), groups(std::move(groups)),
        names(module, OpPrintingFlags().assumeVerified()) {}

  FailureOr<PlanTables> run();

private:
  // Declarations.
  LogicalResult lowerHeader();
  LogicalResult lowerGroup(const GroupInfo &group);
  LogicalResult lowerBuffer(BufferOp buffer);

  // Operations of the step.
  LogicalResult lower(InputOp input);
  LogicalResult lower(aten::ConstantOp constant);
  LogicalResult lower(ReadOp read);
  LogicalResult lower(aten::CallOp call);
  LogicalResult lower(AllGatherStartOp start);
  LogicalResult lower(AllGatherWaitOp wait);
  LogicalResult lower(ReleaseOp release);
  LogicalResult lower(ReduceScatterStartOp start);
  LogicalResult lower(ReduceScatterWaitOp wait);
  LogicalResult lower(GradOp grad);
  LogicalResult lower(WriteOp write);
  LogicalResult lower(UpdateOp update);
  LogicalResult lower(func::ReturnOp ret);

  LogicalResult lowerArgument(aten::CallOp call, Attribute argument,
                              OperandRange::iterator &operand, fsdp_argument &lowered);
  LogicalResult lowerList(aten::CallOp call, Attribute list, OperandRange::iterator &operand,
                          fsdp_argument &lowered);

  /// Defines the plan's value of `value`, whose storage begins at `base`.
  LogicalResult define(Value value, int64_t base);
  /// The offset that memory planning should have written; an error if it did not.
  FailureOr<int64_t> getOffset(Operation *op, std::optional<int64_t> offset);
  void addCopy(fsdp_phase phase, uint32_t source, uint32_t destination, StringRef module,
               Location location);
  void addZero(int64_t begin, int64_t end);
  void addWait(Operation *wait, Value handle, fsdp_phase phase);
  /// Brings a gradient to its place in the group's gradients at `base`, if it is not there.
  void placeGradient(const GroupInfo &group, unsigned param, Value gradient, int64_t base,
                     Location location);
  void zeroPadding(const GroupInfo &group, int64_t base);
  /// The parameter's parts in the gathered group at `base`: a value for the evenly filled ranks,
  /// one for the partly filled last; and the parts of the parameter's full tensor that go there.
  void forEachRankPart(const GroupInfo &group, unsigned param, RankedTensorType fullType,
                       int64_t fullOffset, int64_t base,
                       llvm::function_ref<void(uint32_t full, uint32_t inRanks)> action);

  ModuleOp module;
  func::FuncOp step;
  GroupTable groups;
  AsmState names;
  PlanBuilder builder;
  DenseMap<Value, uint32_t> valueOf;
  DenseMap<Value, int64_t> baseOf; // arena offset of the storage
  DenseMap<Value, uint32_t> handleOf;
  DenseMap<StringAttr, uint32_t> bufferValue;
  DenseMap<StringAttr, UpdateOp> updateOf; // by group
};

} // namespace

static fsdp_phase getPlanPhase(aten::Phase phase) {
  return phase == aten::Phase::Forward ? FSDP_FORWARD : FSDP_BACKWARD;
}

static fsdp_stream getPlanStream(Stream stream) {
  switch (stream) {
  case Stream::Compute:
    return FSDP_COMPUTE;
  case Stream::Gather:
    return FSDP_GATHER;
  case Stream::Reduce:
    return FSDP_REDUCE;
  }
  llvm_unreachable("all streams are listed");
}

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

LogicalResult Lowering::lowerHeader() {
  fsdp_plan &header = builder.tables.header;
  auto integer = [&](StringRef name) {
    auto attribute = module->getAttrOfType<IntegerAttr>(name);
    return attribute ? std::optional(attribute.getInt()) : std::nullopt;
  };
  std::optional<int64_t> arena = integer(FsdpDialect::getArenaAttrName());
  std::optional<int64_t> peak = integer(FsdpDialect::getPeakAttrName());
  if (!arena || !peak)
    return module.emitError("a planned module needs the attributes '")
           << FsdpDialect::getArenaAttrName() << "' and '" << FsdpDialect::getPeakAttrName() << "'";
  header.arena_bytes = *arena;
  header.peak_live_bytes = *peak;
  if (auto model = module->getAttrOfType<StringAttr>(FsdpDialect::getModelAttrName()))
    header.model = builder.addString(model);
  header.world_size = groups.getRanks();
  if (!groups.getGroups().empty()) {
    GroupOp first = groups.getGroups().front().op;
    header.axis = builder.addString(first.getAxis());
  }
  auto optimizers = module.getOps<OptimizerOp>();
  if (!llvm::hasSingleElement(optimizers))
    return module.emitError("has ")
           << std::distance(optimizers.begin(), optimizers.end()) << " optimizers, expected one";
  OptimizerOp optimizer = *optimizers.begin();
  fsdp_optimizer &lowered = header.optimizer;
  switch (optimizer.getKind()) {
  case OptimizerKind::SGD:
    lowered.kind = FSDP_SGD;
    break;
  case OptimizerKind::Adam:
    lowered.kind = FSDP_ADAM;
    break;
  case OptimizerKind::AdamW:
    lowered.kind = FSDP_ADAMW;
    break;
  }
  lowered.lr = optimizer.getLr().convertToDouble();
  lowered.weight_decay = optimizer.getWeightDecay().convertToDouble();
  if (optimizer.getMomentum())
    lowered.momentum = optimizer.getMomentum()->convertToDouble();
  if (optimizer.getBetas()) {
    lowered.beta1 = (*optimizer.getBetas())[0];
    lowered.beta2 = (*optimizer.getBetas())[1];
  }
  if (optimizer.getEps())
    lowered.eps = optimizer.getEps()->convertToDouble();

  for (const GroupInfo &group : groups.getGroups())
    if (failed(lowerGroup(group)))
      return failure();
  for (auto buffer : module.getOps<BufferOp>())
    if (failed(lowerBuffer(buffer)))
      return failure();
  return success();
}

LogicalResult Lowering::lowerGroup(const GroupInfo &info) {
  PlanTables &tables = builder.tables;
  GroupOp op = info.op;
  OptimizerOp optimizer = *module.getOps<OptimizerOp>().begin();
  size_t expected = 1 + getNumOptimizerStates(optimizer);
  if (!op.getOffsets() || op.getOffsets()->size() != expected)
    return op.emitOpError("@") << op.getSymName() << " has "
                               << (op.getOffsets() ? op.getOffsets()->size() : 0)
                               << " offsets, expected " << expected
                               << ": the shard's and the optimizer's";
  ArrayRef<int64_t> offsets = *op.getOffsets();

  fsdp_group &group = tables.groups.emplace_back();
  group.name = builder.addString(op.getSymName());
  group.dtype = *getPlanDType(info.elementType);
  group.layout = info.isFlat() ? FSDP_LAYOUT_FLAT : FSDP_LAYOUT_PER_PARAM;
  group.first_parameter = tables.parameters.size();
  group.num_parameters = info.params.size();
  group.shard_elements = info.layout.shardElements;
  group.shard = offsets[0];
  group.state[0] = offsets.size() > 1 ? offsets[1] : -1;
  group.state[1] = offsets.size() > 2 ? offsets[2] : -1;

  for (unsigned i = 0; i < info.params.size(); ++i) {
    ParamOp param = info.params[i];
    RankedTensorType type = info.getParamType(i);
    fsdp_parameter &parameter = tables.parameters.emplace_back();
    parameter.name = builder.addString(param.getSymName());
    parameter.group = info.index;
    parameter.dtype = *getPlanDType(type.getElementType());
    parameter.num_dims = type.getRank();
    parameter.first_size = builder.addIntegers(type.getShape());
    SmallVector<int64_t> aliases;
    if (param.getAliases())
      for (auto alias : param.getAliases()->getAsRange<StringAttr>())
        aliases.push_back(builder.addString(alias));
    parameter.first_alias = builder.addIntegers(aliases);
    parameter.num_aliases = aliases.size();
    parameter.first_piece = tables.pieces.size();
    for (const plan::Piece &piece : info.layout.parameters[i].pieces) {
      fsdp_piece &lowered = tables.pieces.emplace_back();
      lowered.rank = piece.rank;
      lowered.parameter = tables.parameters.size() - 1;
      lowered.first = piece.first;
      lowered.count = piece.count;
      lowered.shard_offset = piece.shardOffset;
    }
    parameter.num_pieces = tables.pieces.size() - parameter.first_piece;
  }
  return success();
}

LogicalResult Lowering::lowerBuffer(BufferOp buffer) {
  FailureOr<int64_t> offset = getOffset(buffer, buffer.getOffset());
  auto type = cast<RankedTensorType>(buffer.getType());
  if (failed(offset))
    return failure();
  if (!getPlanDType(type.getElementType()))
    return buffer.emitOpError("@") << buffer.getSymName() << " has element type "
                                   << type.getElementType() << ", which plans cannot hold";
  uint32_t value = builder.addValue(type, *offset, buffer.getSymName());
  bufferValue[buffer.getSymNameAttr()] = value;
  builder.tables.buffers.push_back({builder.addString(buffer.getSymName()), value});
  return success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

LogicalResult Lowering::define(Value value, int64_t base) {
  auto type = cast<RankedTensorType>(value.getType());
  if (!getPlanDType(type.getElementType()))
    return value.getDefiningOp()->emitOpError("yields element type ")
           << type.getElementType() << ", which plans cannot hold";
  std::string name;
  llvm::raw_string_ostream os(name);
  value.printAsOperand(os, names);
  valueOf[value] = builder.addValue(type, base, name);
  baseOf[value] = base;
  return success();
}

FailureOr<int64_t> Lowering::getOffset(Operation *op, std::optional<int64_t> offset) {
  if (!offset || *offset < 0)
    return op->emitOpError("has no arena offset; run fsdp-plan-memory");
  return *offset;
}

LogicalResult Lowering::lower(InputOp input) {
  if (!isa<RankedTensorType>(input.getType()))
    return success(); // step and lr: the runtime knows them
  FailureOr<int64_t> offset = getOffset(input, input.getOffset());
  if (failed(offset) || failed(define(input.getResult(), *offset)))
    return failure();
  builder.tables.inputs.push_back({builder.addString(input.getName()), valueOf[input.getResult()]});
  return success();
}

LogicalResult Lowering::lower(aten::ConstantOp constant) {
  FailureOr<int64_t> offset = getOffset(constant, constant.getOffset());
  if (failed(offset) || failed(define(constant.getResult(), *offset)))
    return failure();
  FailureOr<std::vector<unsigned char>> bytes = getConstantBytes(constant.getValue());
  if (failed(bytes))
    return constant.emitOpError("holds no data");
  fsdp_constant &lowered = builder.tables.constants.emplace_back();
  lowered.value = valueOf[constant.getResult()];
  lowered.first_byte = builder.tables.data.size();
  lowered.bytes = bytes->size();
  builder.tables.data.insert(builder.tables.data.end(), bytes->begin(), bytes->end());
  return success();
}

LogicalResult Lowering::lower(ReadOp read) {
  if (auto [group, param] = groups.lookupParam(read.getSourceAttr()); group)
    return define(read.getResult(),
                  builder.tables.groups[group->index].shard + group->getParamBegin(param));
  uint32_t value = bufferValue.lookup(read.getSourceAttr().getAttr());
  valueOf[read.getResult()] = value;
  baseOf[read.getResult()] = builder.tables.values[value].offset;
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

LogicalResult Lowering::lower(aten::CallOp call) {
  bool isView = call.isView();
  SmallVector<int64_t> results;
  for (auto [i, value] : llvm::enumerate(call.getResults())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type) {
      results.push_back(-1);
      continue;
    }
    int64_t base = 0; // of an empty tensor: any place
    if (isView) {
      base = baseOf.lookup(call.getOperand(0));
    } else if (getStorageBytes(type) != 0) {
      FailureOr<int64_t> offset = getOffset(
          call, call.getOffsets() ? std::optional((*call.getOffsets())[i]) : std::nullopt);
      if (failed(offset))
        return failure();
      base = *offset;
    }
    if (failed(define(value, base)))
      return failure();
    results.push_back(valueOf[value]);
  }

  SmallVector<fsdp_argument> arguments;
  OperandRange::iterator operand = call.getOperands().begin();
  for (Attribute argument : call.getArgs())
    if (failed(lowerArgument(call, argument, operand, arguments.emplace_back())))
      return failure();

  // `mm.default` is the unnamed overload of aten's mm; another namespace is spelled out.
  auto [base, overload] = call.getCallee().split('.');
  std::string name = base.contains("::") ? base.str() : ("aten::" + base).str();
  PlanTables &tables = builder.tables;
  uint32_t firstArgument = tables.arguments.size();
  tables.arguments.insert(tables.arguments.end(), arguments.begin(), arguments.end());
  uint32_t firstResult = builder.addIntegers(results);

  fsdp_entry &entry =
      builder.addEntry(isView ? FSDP_VIEW : FSDP_CALL, getPlanPhase(call.getPhase()));
  entry.callee = builder.addString(name);
  entry.overload = overload == "default" ? 0 : builder.addString(overload);
  entry.first_argument = firstArgument;
  entry.num_arguments = arguments.size();
  entry.first_result = firstResult;
  entry.num_results = results.size();
  entry.rng = call.getRng().value_or(-1);
  entry.module = builder.addString(call.getModule());
  entry.location = builder.addLocation(call.getLoc());
  return success();
}

LogicalResult Lowering::lowerArgument(aten::CallOp call, Attribute argument,
                                      OperandRange::iterator &operand, fsdp_argument &lowered) {
  return llvm::TypeSwitch<Attribute, LogicalResult>(argument)
      .Case([&](aten::OperandAttr) {
        lowered.kind = FSDP_ARG_VALUE;
        lowered.index = valueOf.lookup(*operand++);
        return success();
      })
      .Case([&](BoolAttr boolean) {
        lowered.kind = FSDP_ARG_BOOL;
        lowered.payload.integer = boolean.getValue();
        return success();
      })
      .Case([&](UnitAttr) {
        lowered.kind = FSDP_ARG_NONE;
        return success();
      })
      .Case([&](IntegerAttr integer) {
        lowered.kind = FSDP_ARG_INT;
        lowered.payload.integer = integer.getInt();
        return success();
      })
      .Case([&](FloatAttr real) {
        lowered.kind = FSDP_ARG_FLOAT;
        lowered.payload.real = real.getValueAsDouble();
        return success();
      })
      .Case([&](StringAttr text) {
        lowered.kind = FSDP_ARG_STRING;
        lowered.index = builder.addString(text);
        return success();
      })
      .Case([&](TypeAttr type) -> LogicalResult {
        std::optional<fsdp_dtype> dtype = getPlanDType(type.getValue());
        if (!dtype)
          return call.emitOpError("'") << call.getCallee() << "' takes dtype " << type.getValue()
                                       << ", which plans cannot hold";
        lowered.kind = FSDP_ARG_DTYPE;
        lowered.payload.integer = *dtype;
        return success();
      })
      .Case([&](aten::DeviceAttr) {
        lowered.kind = FSDP_ARG_DEVICE;
        return success();
      })
      .Case([&](aten::MemoryFormatAttr format) {
        lowered.kind = FSDP_ARG_MEMORY_FORMAT;
        lowered.payload.integer = static_cast<int64_t>(format.getValue());
        return success();
      })
      .Case([&](aten::StridedAttr) {
        lowered.kind = FSDP_ARG_LAYOUT;
        return success();
      })
      .Default([&](Attribute list) { return lowerList(call, list, operand, lowered); });
}

LogicalResult Lowering::lowerList(aten::CallOp call, Attribute list,
                                  OperandRange::iterator &operand, fsdp_argument &lowered) {
  SmallVector<int64_t> numbers;
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(list)) {
    lowered.kind = FSDP_ARG_INT_LIST;
    numbers.assign(integers.asArrayRef().begin(), integers.asArrayRef().end());
  } else if (auto reals = dyn_cast<DenseF64ArrayAttr>(list)) {
    lowered.kind = FSDP_ARG_FLOAT_LIST;
    for (double real : reals.asArrayRef())
      numbers.push_back(llvm::bit_cast<int64_t>(real));
  } else if (auto booleans = dyn_cast<DenseBoolArrayAttr>(list)) {
    lowered.kind = FSDP_ARG_BOOL_LIST;
    for (bool boolean : booleans.asArrayRef())
      numbers.push_back(boolean);
  } else if (auto elements = dyn_cast<ArrayAttr>(list)) {
    // Without elements the schema alone says of what the list is; an empty list of integers then
    // stands for any.
    lowered.kind = elements.empty() ? FSDP_ARG_INT_LIST : FSDP_ARG_VALUE_LIST;
    for (Attribute element : elements) {
      if (isa<aten::OperandAttr>(element))
        numbers.push_back(valueOf.lookup(*operand++));
      else if (isa<UnitAttr>(element))
        numbers.push_back(-1);
      else
        return call.emitOpError("'") << call.getCallee() << "' has a list that holds " << element
                                     << ", expected tensors or numbers of one kind";
    }
  } else {
    return call.emitOpError("'") << call.getCallee() << "' has the argument " << list
                                 << ", which plans cannot hold";
  }
  lowered.index = builder.addIntegers(numbers);
  lowered.count = numbers.size();
  return success();
}

//===----------------------------------------------------------------------===//
// Copies and padding
//===----------------------------------------------------------------------===//

void Lowering::addCopy(fsdp_phase phase, uint32_t source, uint32_t destination, StringRef module,
                       Location location) {
  fsdp_entry &entry = builder.addEntry(FSDP_COPY, phase);
  entry.source_value = source;
  entry.destination_value = destination;
  entry.module = builder.addString(module);
  entry.location = builder.addLocation(location);
}

void Lowering::addZero(int64_t begin, int64_t end) {
  if (begin == end)
    return;
  fsdp_entry &entry = builder.addEntry(FSDP_ZERO, FSDP_BACKWARD);
  entry.destination = begin;
  entry.bytes = end - begin;
}

void Lowering::forEachRankPart(const GroupInfo &group, unsigned param, RankedTensorType fullType,
                               int64_t fullOffset, int64_t base,
                               llvm::function_ref<void(uint32_t, uint32_t)> action) {
  const plan::ParameterPlace &place = group.layout.parameters[param];
  if (place.chunkElements == 0)
    return;
  // A scalar is one row.
  SmallVector<int64_t> sizes = llvm::to_vector(fullType.getShape());
  SmallVector<int64_t, 4> strides = getTensorLayout(fullType).strides;
  if (sizes.empty()) {
    sizes = {1};
    strides = {1};
  }
  int64_t rows = sizes[0];
  int64_t rowElements = fullType.getNumElements() / rows;
  int64_t chunkRows = place.chunkElements / rowElements;
  int64_t evenRanks = rows / chunkRows, lastRows = rows % chunkRows;
  SmallVector<int64_t> rowMajor(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i-- > 0;)
    rowMajor[i] = rowMajor[i + 1] * sizes[i + 1];

  fsdp_dtype dtype = *getPlanDType(group.elementType);
  ParamOp op = group.params[param];
  StringRef name = op.getSymName();
  int64_t inRanks = base + place.offset * group.elementBytes;
  auto withRanks = [](ArrayRef<int64_t> dims, int64_t first, int64_t second) {
    SmallVector<int64_t> result = {first, second};
    llvm::append_range(result, dims.drop_front());
    return result;
  };
  if (evenRanks > 0) {
    SmallVector<int64_t> partSizes = withRanks(sizes, evenRanks, chunkRows);
    action(builder.addStridedValue(dtype, partSizes,
                                   withRanks(strides, chunkRows * strides[0], strides[0]),
                                   fullOffset, name),
           builder.addStridedValue(dtype, partSizes,
                                   withRanks(rowMajor, group.layout.shardElements, rowMajor[0]),
                                   inRanks, name));
  }
  if (lastRows > 0) {
    sizes[0] = lastRows;
    action(builder.addStridedValue(
               dtype, sizes, strides,
               fullOffset + evenRanks * chunkRows * strides[0] * group.elementBytes, name),
           builder.addStridedValue(dtype, sizes, rowMajor, inRanks + evenRanks * group.shardBytes(),
                                   name));
  }
}

void Lowering::placeGradient(const GroupInfo &group, unsigned param, Value gradient, int64_t base,
                             Location location) {
  ParamOp op = group.params[param];
  auto type = cast<RankedTensorType>(gradient.getType());
  uint32_t source = valueOf.lookup(gradient);
  int64_t offset = builder.tables.values[source].offset;
  if (type.getNumElements() == 0)
    return;
  if (!group.isFlat() && group.layout.ranks > 1) {
    forEachRankPart(group, param, type, offset, base, [&](uint32_t full, uint32_t inRanks) {
      addCopy(FSDP_BACKWARD, full, inRanks, op.getSymName(), location);
    });
    return;
  }
  int64_t place = base + group.getParamBegin(param);
  if (offset == place && isContiguous(type))
    return;
  addCopy(FSDP_BACKWARD, source,
          builder.addValue(group.getParamType(param), place, op.getSymName()), op.getSymName(),
          location);
}

void Lowering::zeroPadding(const GroupInfo &group, int64_t base) {
  // What each rank's part of the group holds, in order of place; the rest is padding.
  std::vector<SmallVector<const plan::Piece *>> held(group.layout.ranks);
  for (const plan::ParameterPlace &place : group.layout.parameters)
    for (const plan::Piece &piece : place.pieces)
      held[piece.rank].push_back(&piece);
  for (auto [rank, pieces] : llvm::enumerate(held)) {
    int64_t begin = base + rank * group.shardBytes(), filled = begin;
    for (const plan::Piece *piece : pieces) {
      addZero(filled, begin + piece->shardOffset * group.elementBytes);
      filled = begin + (piece->shardOffset + piece->count) * group.elementBytes;
    }
    addZero(filled, begin + group.shardBytes());
  }
}

//===----------------------------------------------------------------------===//
// Collectives, gradients and updates
//===----------------------------------------------------------------------===//

LogicalResult Lowering::lower(AllGatherStartOp start) {
  FailureOr<int64_t> offset = getOffset(start, start.getOffset());
  if (failed(offset))
    return failure();
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  fsdp_entry &entry = builder.addEntry(FSDP_ALL_GATHER_START, getPlanPhase(start.getPhase()));
  entry.stream = getPlanStream(start.getStream());
  entry.dtype = *getPlanDType(group.elementType);
  entry.target = group.index;
  entry.handle = handleOf[start.getHandle()] = builder.tables.header.num_handles++;
  entry.source = builder.tables.groups[group.index].shard;
  entry.destination = *offset;
  entry.bytes = group.shardBytes();
  entry.count = group.layout.shardElements;
  entry.location = builder.addLocation(start.getLoc());
  return success();
}

void Lowering::addWait(Operation *wait, Value handle, fsdp_phase phase) {
  fsdp_entry &entry = builder.addEntry(FSDP_WAIT, phase);
  entry.handle = handleOf.lookup(handle);
  entry.location = builder.addLocation(wait->getLoc());
}

LogicalResult Lowering::lower(AllGatherWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<AllGatherStartOp>();
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  int64_t gathered = *start.getOffset();
  fsdp_phase phase = getPlanPhase(start.getPhase());
  addWait(wait, wait.getHandle(), phase);
  if (!group.isFlat() && (!wait.getOffsets() || wait.getOffsets()->size() != group.params.size()))
    return wait.emitOpError("needs one offset per parameter in the per-param layout");
  for (auto [i, value] : llvm::enumerate(wait.getResults())) {
    int64_t base = group.isFlat() ? gathered + group.getParamBegin(i) : (*wait.getOffsets())[i];
    if (failed(define(value, base)))
      return failure();
    if (!group.isFlat())
      forEachRankPart(group, i, group.getParamType(i), base, gathered,
                      [&](uint32_t full, uint32_t inRanks) {
                        ParamOp param = group.params[i];
                        addCopy(phase, inRanks, full, param.getSymName(), wait.getLoc());
                      });
  }
  return success();
}

LogicalResult Lowering::lower(ReleaseOp release) {
  auto start = release.getHandle().getDefiningOp<AllGatherStartOp>();
  fsdp_entry &entry = builder.addEntry(FSDP_RELEASE, getPlanPhase(release.getPhase()));
  entry.target = groups.lookup(start.getGroupAttr()).index;
  entry.location = builder.addLocation(release.getLoc());
  return success();
}

LogicalResult Lowering::lower(ReduceScatterStartOp start) {
  if (!start.getOffsets() || start.getOffsets()->size() != 2)
    return start.emitOpError("needs the offsets of its input and its output");
  const GroupInfo &group = groups.lookup(start.getGroupAttr());
  int64_t input = (*start.getOffsets())[0];
  for (auto [i, gradient] : llvm::enumerate(start.getGrads()))
    placeGradient(group, i, gradient, input, start.getLoc());
  zeroPadding(group, input);
  fsdp_entry &entry = builder.addEntry(FSDP_REDUCE_SCATTER_START, getPlanPhase(start.getPhase()));
  entry.stream = getPlanStream(start.getStream());
  entry.dtype = *getPlanDType(group.elementType);
  entry.target = group.index;
  entry.handle = handleOf[start.getHandle()] = builder.tables.header.num_handles++;
  entry.source = input;
  entry.destination = (*start.getOffsets())[1];
  entry.bytes = group.shardBytes();
  entry.count = group.layout.shardElements;
  entry.location = builder.addLocation(start.getLoc());
  return success();
}

LogicalResult Lowering::lower(ReduceScatterWaitOp wait) {
  auto start = wait.getHandle().getDefiningOp<ReduceScatterStartOp>();
  addWait(wait, wait.getHandle(), getPlanPhase(start.getPhase()));
  return success();
}

LogicalResult Lowering::lower(GradOp grad) {
  auto [group, param] = groups.lookupParam(grad.getParamAttr());
  if (!group || groups.getRanks() > 1)
    return grad.emitOpError("of ")
           << grad.getParamAttr() << " is never reduced over the " << groups.getRanks() << " ranks";
  // The group's gradients lie where its update reads them.
  GroupOp op = group->op;
  UpdateOp update = updateOf.lookup(op.getSymNameAttr());
  if (!update)
    return grad.emitOpError("of ")
           << grad.getParamAttr() << " has no update of its group @" << op.getSymName();
  FailureOr<int64_t> base = getOffset(update, update.getOffset());
  if (failed(base))
    return failure();
  placeGradient(*group, param, grad.getValue(), *base, grad.getLoc());
  return success();
}

LogicalResult Lowering::lower(WriteOp write) {
  uint32_t source = valueOf.lookup(write.getValue());
  uint32_t destination = bufferValue.lookup(write.getBufferAttr().getAttr());
  if (source == destination)
    return success(); // what was read, unchanged
  addCopy(FSDP_FORWARD, source, destination, write.getBuffer(), write.getLoc());
  return success();
}

LogicalResult Lowering::lower(UpdateOp update) {
  FailureOr<int64_t> offset = getOffset(update, update.getOffset());
  if (failed(offset))
    return failure();
  if (!groups.isGroup(update.getTargetAttr()))
    return update.emitOpError("updates ") << update.getTargetAttr() << ", expected a group";
  const GroupInfo &group = groups.lookup(update.getTargetAttr());
  if (groups.getRanks() == 1)
    zeroPadding(group, *offset);
  fsdp_entry &entry = builder.addEntry(FSDP_UPDATE, FSDP_BACKWARD);
  entry.dtype = *getPlanDType(group.elementType);
  entry.target = group.index;
  entry.source = *offset;
  entry.bytes = group.shardBytes();
  entry.count = group.layout.shardElements;
  entry.location = builder.addLocation(update.getLoc());
  return success();
}

LogicalResult Lowering::lower(func::ReturnOp ret) {
  auto type = ret.getNumOperands() == 1 ? dyn_cast<RankedTensorType>(ret.getOperand(0).getType())
                                        : RankedTensorType();
  if (!type || type.getNumElements() != 1)
    return ret.emitOpError("must return the loss alone, one number");
  builder.tables.header.loss_value = valueOf.lookup(ret.getOperand(0));
  return success();
}

FailureOr<PlanTables> Lowering::run() {
  if (failed(lowerHeader()))
    return failure();
  for (auto update : step.getOps<UpdateOp>())
    updateOf[update.getTargetAttr().getAttr()] = update;
  for (Operation &op : step.getBody().front()) {
    LogicalResult lowered =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case<InputOp, aten::ConstantOp, ReadOp, aten::CallOp, AllGatherStartOp,
                  AllGatherWaitOp, ReleaseOp, ReduceScatterStartOp, ReduceScatterWaitOp, GradOp,
                  WriteOp, UpdateOp, func::ReturnOp>([&](auto known) { return lower(known); })
            .Default([](Operation *other) { return other->emitOpError("is not part of a step"); });
    if (failed(lowered))
      return failure();
  }
  return std::move(builder.tables);
}

FailureOr<PlanTables> fsdp::lowerToPlan(ModuleOp module) {
  FailureOr<func::FuncOp> step = getStep(module, ModulePhase::Planned);
  if (failed(step))
    return failure();
  FailureOr<GroupTable> groups = GroupTable::build(module);
  if (failed(groups) || failed(StepStorage::build(*step, *groups)))
    return failure();
  return Lowering(module, *step, std::move(*groups)).run();
}
