//===- Fsdp.cpp - The fsdp dialect ----------------------------------------===//

#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/OptimizerOptions.h"

#include "PlainNumbers.h"
#include "SymbolChecks.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

LogicalResult ParamOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  Type element = type.getElementType();
  if (getFrozen() ? !isa<FloatType, IntegerType>(element)
                  : !isa<FloatType>(element) || element.getIntOrFloatBitWidth() < 16)
    return emitOpError("parameter @")
           << getSymName() << " has element type " << element
           << (getFrozen() ? ", expected a real type"
                           : ", expected a floating-point type of at least 16 bits; parameters of "
                             "other types must be frozen");
  return success();
}

SmallVector<StringRef> ParamOp::getNames() {
  SmallVector<StringRef> names = {getSymName()};
  if (getAliases())
    llvm::append_range(names, getAliases()->getAsValueRange<StringAttr>());
  return names;
}

LogicalResult BufferOp::verify() {
  if (getInit() && getInit()->getShapedType() != getType())
    return emitOpError("buffer @")
           << getSymName() << " is " << getType() << ", its init is " << getInit()->getShapedType();
  return success();
}

static std::optional<double> getDouble(std::optional<APFloat> value) {
  return value ? std::optional(value->convertToDouble()) : std::nullopt;
}

static LogicalResult verifyValue(Operation *op, StringRef name, std::optional<double> value,
                                 std::optional<std::string> (*check)(double)) {
  if (value)
    if (std::optional<std::string> problem = check(*value))
      return op->emitOpError("'") << name << "' " << *problem;
  return success();
}

static LogicalResult verifyOptions(Operation *op) {
  if (std::optional<WrongOption> wrong = findWrongOption(readOptions(op)))
    return op->emitOpError("'") << wrong->name << "' " << wrong->problem;
  return success();
}

static LogicalResult verifyStateDtype(OptimizerOp op) {
  if (!op.getStateDtypeAttr())
    return success();
  for (NamedAttribute state : op.getStateDtypeAttr()) {
    if (std::optional<std::string> wrong =
            explainForeignState(state.getName(), op.getKind(), getStateNames(op)))
      return op.emitOpError("'state_dtype': ") << *wrong;
    auto dtype = dyn_cast<TypeAttr>(state.getValue());
    if (!dtype || !(dtype.getValue().isF32() || dtype.getValue().isBF16()))
      return op.emitOpError("'state_dtype' of ") << state.getName().getValue() << " is "
                                                 << state.getValue() << ", expected f32 or bf16";
  }
  return success();
}

static LogicalResult verifyLossScale(OptimizerOp op) {
  std::optional<LossScaling> scaling = readLossScaling(op);
  const std::pair<StringRef, Attribute> others[] = {
      {"growth_factor", op.getGrowthFactorAttr()},
      {"backoff_factor", op.getBackoffFactorAttr()},
      {"growth_interval", op.getGrowthIntervalAttr()}};
  for (auto [name, value] : others)
    if (bool(value) != scaling.has_value())
      return op.emitOpError("has ") << (value ? "" : "no ") << "'" << name << "' but "
                                    << (value ? "no " : "a ") << "'loss_scale'";
  if (!scaling)
    return success();
  if (std::optional<WrongOption> wrong = findWrongScaling(*scaling))
    return op.emitOpError("'") << wrong->name << "' " << wrong->problem;
  return success();
}

LogicalResult OptimizerOp::verify() {
  StringRef kind = stringifyOptimizerKind(getKind());
  OptimizerOptions options = readOptions(*this);
  for (const plan::OptimizerDefault &known : plan::defaultsOf(getKindEntry(getKind())))
    if (!plan::findOption(known.option)->isOptional && !options.contains(known.option))
      return emitOpError("'") << kind << "' needs '" << StringRef(known.option) << "'";
  if (std::optional<StringRef> name = findForeignOption(getKind(), options))
    return emitOpError("'") << kind << "' has no '" << *name << "'";
  if (std::optional<std::string> problem = checkNesterov(options))
    return emitOpError() << *problem;
  if (std::optional<std::string> problem = checkClipping(options, getClipGradNorm().has_value()))
    return emitOpError() << *problem;
  if (getClipNormType() != NormType::Two && !getClipGradNorm())
    return emitOpError("has 'clip_norm_type' ")
           << stringifyNormType(getClipNormType()) << " but no 'clip_grad_norm' to clip to";
  if (failed(verifyStateDtype(*this)) || failed(verifyOptions(*this)))
    return failure();
  if (failed(verifyLossScale(*this)))
    return failure();
  return verifyValue(*this, "clip_grad_norm", getDouble(getClipGradNorm()), checkClipLimit);
}

LogicalResult OptimizerGroupOp::verify() {
  if (getParams().empty())
    return emitOpError("has no parameters");
  return verifyOptions(*this);
}

LogicalResult OptimizerGroupOp::verifySymbolUses(SymbolTableCollection &tables) {
  for (auto param : getParams().getAsRange<FlatSymbolRefAttr>())
    if (failed(resolve<ParamOp>(*this, param, tables, "parameter")))
      return failure();
  return success();
}

LogicalResult RecomputeRegionOp::verify() {
  RecomputePolicy policy = getPolicy();
  if (policy != RecomputePolicy::Selected && policy != RecomputePolicy::Full)
    return emitOpError("recomputes '")
           << stringifyRecomputePolicy(policy) << "', expected selected or full";
  if (getKeep() && policy != RecomputePolicy::Selected)
    return emitOpError("has 'keep', which is of 'selected'");
  return success();
}

static ParseResult parseNormType(OpAsmParser &parser, NormType &type) {
  SMLoc loc = parser.getCurrentLocation();
  int64_t number;
  OptionalParseResult parsed = parser.parseOptionalInteger(number);
  if (parsed.has_value() && failed(*parsed))
    return failure();
  std::string text = parsed.has_value() ? std::to_string(number) : "";
  if (!parsed.has_value() && failed(parser.parseKeywordOrString(&text)))
    return failure();
  std::optional<NormType> known = symbolizeNormType(text);
  if (!known)
    return parser.emitError(loc) << "the norm is '" << text << "', expected 1, 2 or inf";
  type = *known;
  return success();
}

static void printNormType(OpAsmPrinter &printer, Operation *, NormType type) {
  printer << stringifyNormType(type);
}

static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &axes, DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> names;
  SmallVector<int64_t> numbers;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::LessGreater, [&]() -> ParseResult {
        std::string name;
        if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
            parser.parseInteger(numbers.emplace_back()))
          return failure();
        names.push_back(parser.getBuilder().getStringAttr(name));
        return success();
      }))
    return failure();
  axes = parser.getBuilder().getArrayAttr(names);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, Operation *, ArrayAttr axes,
                          DenseI64ArrayAttr sizes) {
  printer << '<';
  llvm::interleaveComma(llvm::zip_equal(axes, sizes.asArrayRef()), printer, [&](auto axis) {
    printer.printKeywordOrString(cast<StringAttr>(std::get<0>(axis)).getValue());
    printer << " = " << std::get<1>(axis);
  });
  printer << '>';
}

LogicalResult MeshOp::verify() {
  if (getAxes().size() != getSizes().size() || getAxes().empty())
    return emitOpError("has ") << getAxes().size() << " axes and " << getSizes().size()
                               << " sizes, expected as many, and at least one";
  llvm::StringSet<> seen;
  for (auto [axis, size] : llvm::zip_equal(getAxes(), getSizes())) {
    StringRef name = cast<StringAttr>(axis).getValue();
    if (std::optional<std::string> problem = checkAxisSize(size))
      return emitOpError("axis '") << name << "' " << *problem;
    if (!seen.insert(name).second)
      return emitOpError("has two axes '") << name << "'";
  }
  if (std::optional<std::string> problem = checkRanks(getSizes()))
    return emitOpError() << *problem;
  return success();
}

//===----------------------------------------------------------------------===//
// Inputs, reads, writes, gradients and updates
//===----------------------------------------------------------------------===//

void InputOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), getName()); }

void LossScaleOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "loss_scale");
}

/// The type that `type` should be for `param`: the parameter's, or with the narrower dtype of its
/// group's gathers. ShardingChecks compares the dtype with the group's.
static Type getTravelType(Type type, ParamOp param) {
  auto expected = cast<RankedTensorType>(param.getType());
  auto element = cast<RankedTensorType>(type).getElementType();
  bool isNarrower = expected.getElementType().isF32() && (element.isBF16() || element.isF16());
  return isNarrower ? expected.clone(element) : expected;
}

/// A parameter is also read as an 8-bit float, as its group casts it (GroupOp::getFloat8Cast).
static Type getReadType(Type type, ParamOp param) {
  auto own = cast<RankedTensorType>(param.getType());
  Type element = cast<RankedTensorType>(type).getElementType();
  if (own.getElementType().isF32() && isa<Float8E4M3FNType, Float8E5M2Type>(element))
    return own.clone(element);
  return getTravelType(type, param);
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *source = symbols.lookupNearestSymbolFrom(*this, getSourceAttr());
  Type expected;
  if (auto param = dyn_cast_or_null<ParamOp>(source))
    expected = getReadType(getResult().getType(), param);
  else if (auto buffer = dyn_cast_or_null<BufferOp>(source))
    expected = buffer.getType();
  else
    return emitOpError("reads ") << getSourceAttr() << ", which is no parameter and no buffer";
  return checkType(*this, getResult().getType(), expected,
                   isa<ParamOp>(source) ? "parameter" : "buffer", getSourceAttr(), source);
}

void ReadOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), getSource()); }

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<BufferOp> buffer = resolve<BufferOp>(*this, getBufferAttr(), symbols, "buffer");
  if (failed(buffer))
    return failure();
  return checkType(*this, cast<RankedTensorType>(getValue().getType()).cloneWithEncoding({}),
                   cast<RankedTensorType>(buffer->getType()).cloneWithEncoding({}), "buffer",
                   getBufferAttr(), *buffer);
}

LogicalResult GradOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<ParamOp> param = resolve<ParamOp>(*this, getParamAttr(), symbols, "parameter");
  if (failed(param))
    return failure();
  // A gradient has its parameter's sizes and its own strides.
  auto expected = cast<RankedTensorType>(getTravelType(getValue().getType(), *param));
  return checkType(*this, cast<RankedTensorType>(getValue().getType()).cloneWithEncoding({}),
                   expected.cloneWithEncoding({}), "the gradient of parameter", getParamAttr(),
                   *param);
}

LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *target = symbols.lookupNearestSymbolFrom(*this, getTargetAttr());
  if (!isa_and_nonnull<ParamOp, GroupOp>(target))
    return emitOpError("updates ") << getTargetAttr() << ", which is no parameter and no group";
  return success();
}

LogicalResult UpdateOp::verify() {
  auto check = [&](Value value, FlatSymbolRefAttr group, StringRef what) -> LogicalResult {
    if (!value || group == getTargetAttr())
      return success();
    InFlightDiagnostic diag = emitOpError("of ")
                              << getTargetAttr() << " takes the " << what << " of " << group;
    diag.attachNote(value.getLoc()) << "made here";
    return diag;
  };
  if (getGradient() && failed(check(getGradient(), getGradient().getType().getGroup(), "gradient")))
    return failure();
  return getState() ? check(getState(), getState().getType().getGroup(), "optimizer state")
                    : success();
}

//===----------------------------------------------------------------------===//
// Dialect
//===----------------------------------------------------------------------===//

#include "fsdp/IR/FsdpDialect.cpp.inc"
#include "fsdp/IR/FsdpEnums.cpp.inc"
#include "fsdp/IR/FsdpInterfaces.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/IR/FsdpTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/IR/FsdpAttrs.cpp.inc"

/// Names in a kernel's body mean values of this body alone: MLIR would take one that the body does
/// not define for a value of the next kernel, and frees that first where the text has an error.
static ParseResult parseKernelBody(OpAsmParser &parser, Region &body) {
  return parser.parseRegion(body, /*arguments=*/{}, /*enableNameShadowing=*/true);
}

static void printKernelBody(OpAsmPrinter &printer, KernelOp, Region &body) {
  printer.printRegion(body);
}

#define GET_OP_CLASSES
#include "fsdp/IR/FsdpOps.cpp.inc"

void FsdpDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "fsdp/IR/FsdpTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fsdp/IR/FsdpAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fsdp/IR/FsdpOps.cpp.inc"
      >();
}

/// Verifies the operations first: MLIR verifies a module's attributes before its contents, which
/// the phase verifiers expect to be valid.
LogicalResult FsdpDialect::verifyPhaseOf(Operation *module) {
  {
    ScopedDiagnosticHandler quiet(getContext(), [](Diagnostic &) { return success(); });
    for (Operation &op : module->getRegion(0).getOps())
      if (failed(mlir::verify(&op)))
        return success(); // MLIR diagnoses it
  }
  return phaseVerifier(cast<ModuleOp>(module));
}

/// True for sizes that fit an address space.
static bool isBytes(Attribute attribute) {
  auto bytes = dyn_cast<IntegerAttr>(attribute);
  return bytes && bytes.getType().isSignlessInteger(64) && bytes.getInt() >= 0 &&
         bytes.getInt() < int64_t{1} << 47;
}

LogicalResult FsdpDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  auto expect = [&](bool ok, StringRef what) -> LogicalResult {
    if (isa<ModuleOp>(op) && ok)
      return success();
    return op->emitError("attribute '") << name << "' must be " << what << " on the module";
  };
  if (name == getPhaseAttrName()) {
    if (failed(expect(isa<ModulePhaseAttr>(attribute.getValue()), "a #fsdp.module_phase")))
      return failure();
    return phaseVerifier ? verifyPhaseOf(op) : success();
  }
  if (name == getArenaAttrName() || name == getPeakAttrName() || name == getHostArenaAttrName())
    return expect(isBytes(attribute.getValue()), "an i64 of at least 0 and less than 2^47 (bytes)");
  if (name == getBoundAttrName() || name == getRecomputedFlopsAttrName()) {
    auto number = dyn_cast<IntegerAttr>(attribute.getValue());
    return expect(number && number.getType().isInteger(64) && number.getInt() >= 0,
                  "an i64 of at least 0");
  }
  if (name == getRanksAttrName()) {
    auto number = dyn_cast<IntegerAttr>(attribute.getValue());
    return expect(number && number.getType().isInteger(64) && number.getInt() >= 1,
                  "an i64 of at least 1");
  }
  if (name == getPrefetchAttrName())
    return expect(isa<PrefetchAttr>(attribute.getValue()), "a #fsdp.prefetch");
  if (name == getTransportAttrName())
    return expect(isa<TransportAttr>(attribute.getValue()), "a #fsdp.transport");
  if (name == getTargetAttrName())
    return expect(isa<TargetAttr>(attribute.getValue()), "a #fsdp.target");
  if (name == getRecomputeAttrName())
    return expect(isa<RecomputeAttr>(attribute.getValue()), "a #fsdp.recompute");
  if (name == getAccumulationAttrName())
    return expect(isa<AccumulationAttr>(attribute.getValue()), "a #fsdp.accumulation");
  if (name == getModelAttrName() || name == getProvenanceAttrName())
    return expect(isa<StringAttr>(attribute.getValue()), "a string");
  return op->emitError("unknown attribute '") << name << "'";
}
