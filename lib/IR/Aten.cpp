//===- Aten.cpp - The aten dialect ----------------------------------------===//

#include "fsdp/IR/Aten.h"

#include "PlainNumbers.h"
#include "fsdp/IR/AtenSemantics.h"
#include "fsdp/IR/ModelCollectives.h"
#include "fsdp/IR/TensorLayout.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

//===----------------------------------------------------------------------===//
// Arguments of a call
//===----------------------------------------------------------------------===//

/// The list attribute with the most compact form: integers, floats and bools are dense arrays.
static Attribute getListAttr(MLIRContext *context, ArrayRef<Attribute> elements) {
  auto all = [&](auto isKind) { return !elements.empty() && llvm::all_of(elements, isKind); };
  if (all([](Attribute a) {
        auto integer = dyn_cast<IntegerAttr>(a);
        return integer && integer.getType().isSignlessInteger(64);
      }))
    return DenseI64ArrayAttr::get(context, llvm::map_to_vector(elements, [](Attribute a) {
                                    return cast<IntegerAttr>(a).getInt();
                                  }));
  if (all([](Attribute a) {
        auto real = dyn_cast<FloatAttr>(a);
        return real && real.getType().isF64();
      }))
    return DenseF64ArrayAttr::get(context, llvm::map_to_vector(elements, [](Attribute a) {
                                    return cast<FloatAttr>(a).getValueAsDouble();
                                  }));
  if (all([](Attribute a) { return isa<BoolAttr>(a); }))
    return DenseBoolArrayAttr::get(context, llvm::map_to_vector(elements, [](Attribute a) {
                                     return cast<BoolAttr>(a).getValue();
                                   }));
  return ArrayAttr::get(context, elements);
}

/// Parses one argument: an SSA operand, a bracketed list, `none` or a literal.
static ParseResult parseArgument(OpAsmParser &parser,
                                 SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
                                 Attribute &arg) {
  MLIRContext *context = parser.getContext();
  OpAsmParser::UnresolvedOperand operand;
  OptionalParseResult hasOperand = parser.parseOptionalOperand(operand);
  if (hasOperand.has_value()) {
    if (failed(*hasOperand))
      return failure();
    operands.push_back(operand);
    arg = OperandAttr::get(context);
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword("none"))) {
    arg = UnitAttr::get(context);
    return success();
  }
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<Attribute> elements;
    if (failed(parser.parseOptionalRSquare())) {
      if (parser.parseCommaSeparatedList(
              [&] { return parseArgument(parser, operands, elements.emplace_back()); }) ||
          parser.parseRSquare())
        return failure();
    }
    arg = getListAttr(context, elements);
    return success();
  }
  return parser.parseAttribute(arg);
}

static ParseResult parseCallArguments(OpAsmParser &parser,
                                      SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
                                      ArrayAttr &args) {
  SmallVector<Attribute> elements;
  // The enclosing format parses the parentheses, so an empty list would end at `)`. No captured
  // operator has an empty argument list.
  if (parser.parseCommaSeparatedList(
          [&] { return parseArgument(parser, operands, elements.emplace_back()); }))
    return failure();
  args = parser.getBuilder().getArrayAttr(elements);
  return success();
}

static void printReal(OpAsmPrinter &printer, MLIRContext *context, double value) {
  APFloat real(value);
  // MLIR prints values that are not finite in hexadecimal, which is parsed only with a type.
  if (real.isFinite())
    printer.printFloat(real);
  else
    printer << FloatAttr::get(Float64Type::get(context), real);
}

static void printArgument(OpAsmPrinter &printer, Attribute arg, OperandRange::iterator &operand) {
  auto list = [&](auto elements, auto print) {
    printer << '[';
    llvm::interleaveComma(elements, printer, print);
    printer << ']';
  };
  TypeSwitch<Attribute>(arg)
      .Case([&](OperandAttr) { printer << *operand++; })
      .Case([&](UnitAttr) { printer << "none"; })
      .Case([&](ArrayAttr array) {
        list(array, [&](Attribute element) { printArgument(printer, element, operand); });
      })
      .Case([&](DenseI64ArrayAttr array) {
        list(array.asArrayRef(), [&](int64_t element) { printer << element; });
      })
      .Case([&](DenseF64ArrayAttr array) {
        list(array.asArrayRef(),
             [&](double element) { printReal(printer, arg.getContext(), element); });
      })
      .Case([&](DenseBoolArrayAttr array) {
        list(array.asArrayRef(), [&](bool element) { printer << (element ? "true" : "false"); });
      })
      .Default([&](Attribute literal) {
        auto integer = dyn_cast<IntegerAttr>(literal);
        auto real = dyn_cast<FloatAttr>(literal);
        if (integer && integer.getType().isSignlessInteger(64))
          printer << integer.getInt();
        else if (real && real.getType().isF64())
          printReal(printer, arg.getContext(), real.getValueAsDouble());
        else
          printer << literal;
      });
}

static void printCallArguments(OpAsmPrinter &printer, Operation *, OperandRange operands,
                               ArrayAttr args) {
  OperandRange::iterator operand = operands.begin();
  llvm::interleaveComma(args, printer,
                        [&](Attribute arg) { printArgument(printer, arg, operand); });
}

//===----------------------------------------------------------------------===//
// ScopeAttr
//===----------------------------------------------------------------------===//

ScopeAttr ScopeAttr::get(MLIRContext *context, StringRef module, ArrayRef<int64_t> calls) {
  return get(context, StringAttr::get(context, module), calls, /*microbatch=*/0);
}

std::string ScopeAttr::getPath() {
  StringRef module = getModule();
  if (getCalls().empty())
    return module.str();
  std::string path;
  for (int64_t call : getCalls()) {
    auto [component, rest] = module.split('.');
    path += (path.empty() ? "" : ".") + component.str();
    if (call != 0)
      path += '@' + std::to_string(call);
    module = rest;
  }
  return path;
}

static ParseResult parseScope(AsmParser &parser, ScopeAttr &scope) {
  SMLoc loc = parser.getCurrentLocation();
  std::string path;
  int64_t microbatch = 0;
  if (parser.parseString(&path) || (succeeded(parser.parseOptionalKeyword("microbatch")) &&
                                    failed(parser.parseInteger(microbatch))))
    return failure();
  std::string module;
  SmallVector<int64_t> calls;
  for (StringRef component : llvm::split(StringRef(path), '.')) {
    auto [name, number] = component.split('@');
    int64_t call = 0;
    if ((component.contains('@') && number.getAsInteger(10, call)) || call < 0)
      return parser.emitError(loc, "the call in '") << component << "' is no number from 0";
    module += (calls.empty() ? "" : ".") + name.str();
    calls.push_back(call);
  }
  if (llvm::all_of(calls, [](int64_t call) { return call == 0; }))
    calls.clear();
  if (microbatch < 0)
    return parser.emitError(loc, "the microbatch is ") << microbatch << ", expected at least 0";
  MLIRContext *context = parser.getContext();
  scope = ScopeAttr::get(context, StringAttr::get(context, module), calls, microbatch);
  return success();
}

static void printScope(AsmPrinter &printer, ScopeAttr scope) {
  printer.printString(scope.getPath());
  if (scope.getMicrobatch() != 0)
    printer << " microbatch " << scope.getMicrobatch();
}
static void printScope(OpAsmPrinter &printer, Operation *, ScopeAttr scope) {
  printScope(printer, scope);
}

Attribute ScopeAttr::parse(AsmParser &parser, Type) {
  ScopeAttr scope;
  if (parser.parseLess() || parseScope(parser, scope) || parser.parseGreater())
    return {};
  return scope;
}

void ScopeAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printScope(printer, *this);
  printer << '>';
}

static unsigned countOperandMarks(ArrayAttr args) {
  unsigned count = 0;
  for (Attribute arg : args) {
    if (isa<OperandAttr>(arg))
      ++count;
    else if (auto list = dyn_cast<ArrayAttr>(arg))
      count += countOperandMarks(list);
  }
  return count;
}

//===----------------------------------------------------------------------===//
// CallOp
//===----------------------------------------------------------------------===//

/// torch refuses negative sizes and strides only when it runs.
static LogicalResult checkStrides(CallOp call) {
  StringRef name = call.getBaseName();
  if (!name.ends_with("as_strided") && !name.ends_with("empty_strided"))
    return success();
  for (Attribute argument : call.getArgs())
    if (auto numbers = dyn_cast<DenseI64ArrayAttr>(argument))
      for (int64_t number : numbers.asArrayRef())
        if (number < 0)
          return call.emitOpError("'") << call.getCallee() << "' has a size or stride of " << number
                                       << ", expected at least 0";
  return success();
}

/// Each element of a new tensor has an address of its own; else writing one element would change
/// another one. Not checked: calls that take strides, and results that torch expands.
static LogicalResult checkNewResults(CallOp call) {
  if (call.isView() || call.getBaseName().ends_with("empty_strided"))
    return success();
  for (Value result : call.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || !type.getEncoding() || !overlapsItself(type) ||
        llvm::is_contained(getTensorLayout(type).strides, 0))
      continue;
    return call.emitOpError("'") << call.getCallee()
                                 << "' returns a new tensor, but the strides of " << type
                                 << " give two elements one address";
  }
  return success();
}

LogicalResult CallOp::verify() {
  if (!getCallee().contains('.'))
    return emitOpError("callee must name an overload, as in 'mm.default', got '")
           << getCallee() << "'";
  if (std::optional<std::string> problem = checkOperator(getCallee()))
    return emitOpError() << *problem;
  if (failed(checkStrides(*this)) || failed(checkNewResults(*this)))
    return failure();
  unsigned marks = countOperandMarks(getArgs());
  if (marks != getOperands().size())
    return emitOpError("has ") << getOperands().size() << " operands but its arguments name "
                               << marks;
  if (isRandom() != getRng().has_value())
    return emitOpError() << "'" << getCallee() << "' "
                         << (isRandom() ? "draws random numbers: it needs 'rng'"
                                        : "draws no random numbers: it has no 'rng'");
  if (failed(verifyModelCollective(*this)))
    return failure();
  if (getOffsets() && getOffsets()->size() != getNumResults())
    return emitOpError("has ") << getNumResults() << " results but " << getOffsets()->size()
                               << " offsets";
  return success();
}

bool CallOp::isView() { return lookupSemantics(getBaseName()).isView; }

bool CallOp::isRandom() { return lookupSemantics(getBaseName()).isRandom; }

bool CallOp::isCheap() { return lookupSemantics(getBaseName()).isCheap; }

void CallOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  // One name for all results: %native_dropout:2. Without a namespace, as names have no colons.
  if (getNumResults() != 0)
    setName(getResult(0), getBaseName().substr(getBaseName().rfind(':') + 1));
}

//===----------------------------------------------------------------------===//
// ConstantOp
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

void ConstantOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "constant");
}

//===----------------------------------------------------------------------===//
// StridesAttr
//===----------------------------------------------------------------------===//

LogicalResult StridesAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                          function_ref<InFlightDiagnostic()> emitError) const {
  if (getStrides().size() != shape.size())
    return emitError() << "a tensor of " << shape.size() << " dimensions has "
                       << getStrides().size() << " strides";
  for (int64_t stride : getStrides())
    if (stride < 0)
      return emitError() << "a stride is " << stride << ", expected at least 0";
  if (getOffset() < 0)
    return emitError() << "the offset is " << getOffset() << ", expected at least 0";
  return success();
}

//===----------------------------------------------------------------------===//
// Dialect
//===----------------------------------------------------------------------===//

#include "fsdp/IR/AtenDialect.cpp.inc"
#include "fsdp/IR/AtenEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/IR/AtenAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "fsdp/IR/AtenOps.cpp.inc"

void AtenDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fsdp/IR/AtenAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fsdp/IR/AtenOps.cpp.inc"
      >();
}
