//===- ScalarCode.cpp - Scalar code of aten operators ---------------------===//

#include "fsdp/Codegen/ScalarCode.h"

#include "OperatorRules.h"
#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;
using Predicate = arith::CmpFPredicate;

bool fsdp::codegen::isKernelElement(Type element) {
  return element.isF32() || element.isBF16() || element.isF16();
}

/// True if the only result and the operands are floating-point or bool tensors that kernels
/// support.
static bool hasKernelTypes(aten::CallOp call) {
  if (call.getNumResults() != 1 || call.getRng())
    return false;
  auto isKnown = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getNumElements() > 0 &&
           (isKernelElement(tensor.getElementType()) || tensor.getElementType().isInteger(1));
  };
  return isKnown(call.getResult(0).getType()) && llvm::all_of(call.getOperandTypes(), isKnown);
}

/// True if the result's shape is the operands' broadcast shape.
static bool hasBroadcastShape(aten::CallOp call) {
  SmallVector<int64_t> shape;
  for (Type type : call.getOperandTypes()) {
    ArrayRef<int64_t> own = cast<RankedTensorType>(type).getShape();
    if (own.size() > shape.size())
      shape.insert(shape.begin(), own.size() - shape.size(), 1);
    for (auto [whole, size] : llvm::zip_equal(MutableArrayRef(shape).take_back(own.size()), own)) {
      if (size != 1 && whole != 1 && size != whole)
        return false;
      whole = std::max(whole, size);
    }
  }
  return cast<RankedTensorType>(call.getResult(0).getType()).getShape() == ArrayRef(shape);
}

static bool isRepresentable(double value, Type element) {
  llvm::APFloat number(value);
  bool losesDigits = false;
  number.convert(cast<FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                 &losesDigits);
  return !losesDigits;
}

/// True if torch may promote the operands to `result`: it is the dtype of one of them, or they have
/// two 16-bit dtypes, which become f32.
static bool isPromoted(aten::CallOp call, Type result) {
  SmallVector<Type> floats;
  for (Type type : call.getOperandTypes())
    if (Type element = cast<RankedTensorType>(type).getElementType(); isKernelElement(element))
      floats.push_back(element);
  return floats.empty() || llvm::is_contained(floats, result) || !llvm::all_equal(floats);
}

/// True if torch computes in the dtypes of the rule.
static bool hasRuleTypes(aten::CallOp call, const Rule &rule, Rounding rounding) {
  Type result = cast<RankedTensorType>(call.getResult(0).getType()).getElementType();
  const bool isCast = call.getBaseName() == "_to_copy";
  if (rule.isComparison != result.isInteger(1) ||
      (!isCast && !rule.isComparison && !isPromoted(call, result)))
    return false;
  Type computed = result; // of a comparison: the operands'
  const Arguments arguments(call);
  unsigned operand = 0;
  for (unsigned i = 0; i < rule.tensors; ++i) {
    if (!arguments.isOperand(i))
      continue;
    auto type = cast<RankedTensorType>(call.getOperand(operand++).getType());
    Type element = type.getElementType();
    if (result.isInteger(1)) { // a comparison
      if (!isKernelElement(element) || (computed != result && computed != element))
        return false;
      computed = element;
    } else if (!isCast && isKernelElement(element) && element != result && !result.isF32()) {
      return false;
    }
  }
  if (isCast) {
    constexpr size_t kDtype = 1; // none: the operand's
    auto dtype = dyn_cast_if_present<TypeAttr>(arguments.size() > kDtype ? arguments.all()[kDtype]
                                                                         : Attribute());
    return isKernelElement(result) && operand == 1 &&
           result == (dtype
                          ? dtype.getValue()
                          : cast<RankedTensorType>(call.getOperand(0).getType()).getElementType());
  }
  if (!isKernelElement(computed))
    return false;
  if (rounding == Rounding::Exact &&
      !(computed.isF32() ? rule.isExact(arguments) : rule.isExactShort(arguments)))
    return false;
  if (rounding == Rounding::Exact && computed.isF16() && !rule.isExactF16)
    return false;
  for (unsigned i = 0; i < rule.tensors; ++i)
    if (std::optional<double> number = arguments.number(i);
        number && rounding == Rounding::Exact && !computed.isF32() && rule.roundsNumbers &&
        !isRepresentable(*number, computed))
      return false;
  return true;
}

/// True if the operator's bool operand is a condition; other bools are converted to numbers.
static bool takesCondition(aten::CallOp call, unsigned place) {
  return (call.getCallee() == "where.self" && place == 0) ||
         (call.getCallee() == "masked_fill.Scalar" && place == 1);
}

bool fsdp::codegen::isElementwise(aten::CallOp call, Rounding rounding) {
  const Rule *rule = findRule(call);
  if (!rule || !hasKernelTypes(call))
    return false;
  const Arguments arguments(call);
  unsigned operands = 0;
  for (unsigned i = 0; i < rule->tensors; ++i) {
    bool isTensor = arguments.isOperand(i);
    if (!isTensor && !arguments.number(i))
      return false;
    if (takesCondition(call, i) &&
        (!isTensor || !cast<RankedTensorType>(call.getOperand(operands).getType())
                           .getElementType()
                           .isInteger(1)))
      return false;
    operands += isTensor;
  }
  return operands == call.getNumOperands() && rule->accepts(arguments) && hasBroadcastShape(call) &&
         hasRuleTypes(call, *rule, rounding);
}

bool fsdp::codegen::isRowPick(aten::CallOp call, Rounding rounding) {
  if (rounding != Rounding::Fast || call.getCallee() != "gather.default" ||
      call.getNumOperands() != 2 || call.getNumResults() != 1 || call.getRng())
    return false;
  auto source = cast<RankedTensorType>(call.getOperand(0).getType());
  auto index = cast<RankedTensorType>(call.getOperand(1).getType());
  auto result = cast<RankedTensorType>(call.getResult(0).getType());
  const Arguments arguments(call);
  return source.getRank() >= 2 && isKernelElement(source.getElementType()) &&
         source.getNumElements() > 0 && source.getShape().back() > 1 && isContiguous(source) &&
         arguments.isOperand(0) &&
         (arguments.isNumber(1, -1) ||
          arguments.isNumber(1, static_cast<double>(source.getRank() - 1))) &&
         index.getElementType().isInteger(64) && isContiguous(result) &&
         result.getElementType() == source.getElementType() &&
         result.getShape() == index.getShape() &&
         index.getShape() == ArrayRef<int64_t>(getRowShape(source.getShape()));
}

static bool isLogSumExp(aten::CallOp call) { return call.getCallee() == "logsumexp.default"; }

/// torch's fp32 vectors have 8 lanes on all x86-64 processors, but 4 on ARM's without SVE.
#if defined(__x86_64__)
static constexpr bool kAddsByEights = true;
#else
static constexpr bool kAddsByEights = false;
#endif

bool fsdp::codegen::isRowReduction(aten::CallOp call, Rounding rounding) {
  if (isRowPick(call, rounding))
    return true;
  if ((call.getCallee() != "sum.dim_IntList" && call.getCallee() != "mean.dim" &&
       !(isLogSumExp(call) && rounding == Rounding::Fast)) ||
      !hasKernelTypes(call) || call.getNumOperands() != 1)
    return false;
  const Arguments arguments(call);
  auto source = cast<RankedTensorType>(call.getOperand(0).getType());
  auto result = cast<RankedTensorType>(call.getResult(0).getType());
  if (arguments.size() != (isLogSumExp(call) ? 3 : 4) || !arguments.isAbsent(3))
    return false;
  auto dimensions = dyn_cast<DenseI64ArrayAttr>(arguments.all()[1]);
  const int64_t rank = source.getRank();
  if (rank < 2 || !dimensions || dimensions.size() != 1 ||
      (dimensions[0] != -1 && dimensions[0] != rank - 1) ||
      result.getShape() != ArrayRef<int64_t>(getRowShape(source.getShape())) ||
      !isContiguous(source) || !isContiguous(result))
    return false;
  const int64_t columns = source.getShape().back();
  if (!isKernelElement(source.getElementType()) ||
      result.getElementType() != source.getElementType())
    return false;
  // This is the order of torch's sum on x86-64; it differs for short dtypes and for other vector
  // widths. A row is computed before it is summed, so it should fit in the first-level cache.
  return rounding == Rounding::Fast ||
         (kAddsByEights && source.getElementType().isF32() && columns % 32 == 0 && columns <= 8192);
}

/// Rows that are summed one after another: more would lose precision that torch's order keeps.
static constexpr int64_t kMostChunkRows = 128;

bool fsdp::codegen::isColumnSum(aten::CallOp call, Rounding rounding) {
  if (rounding != Rounding::Fast || call.getCallee() != "sum.dim_IntList" ||
      !hasKernelTypes(call) || call.getNumOperands() != 1 || call.getArgs().size() != 4)
    return false;
  auto source = cast<RankedTensorType>(call.getOperand(0).getType());
  auto result = cast<RankedTensorType>(call.getResult(0).getType());
  auto dimensions = dyn_cast<DenseI64ArrayAttr>(call.getArgs()[1]);
  auto keeps = dyn_cast<BoolAttr>(call.getArgs()[2]);
  auto dtype = dyn_cast<TypeAttr>(call.getArgs()[3]);
  return source.getRank() == 3 && isKernelElement(source.getElementType()) && dimensions &&
         source.getDimSize(1) <= kMostChunkRows &&
         dimensions.asArrayRef() == ArrayRef<int64_t>{1} && keeps && !keeps.getValue() && dtype &&
         dtype.getValue().isF32() && result.getElementType().isF32() &&
         result.getShape() == ArrayRef({source.getDimSize(0), source.getDimSize(2)}) &&
         source.getShape().back() > 1 && isContiguous(source) && isContiguous(result);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

Value ScalarCode::number(double value) { return Arithmetic(builder, loc, processor).number(value); }

Type ScalarCode::getMemoryType(Type element) {
  if (element.isBF16() && processor == Processor::Cpu)
    return builder.getI16Type();
  if (element.isInteger(1))
    return builder.getI8Type();
  return element;
}

/// True for a dtype that the processor converts in hardware as torch does.
static bool isNative(Type element, Processor processor) {
  return element.isF16() || (element.isBF16() && processor == Processor::Gpu);
}

Value ScalarCode::fromMemory(Value stored, Type element) {
  Arithmetic m(builder, loc, processor);
  if (isNative(element, processor))
    return m.make<arith::ExtFOp>(builder.getF32Type(), stored);
  if (element.isInteger(1)) {
    Value zero = m.make<arith::ConstantIntOp>(0, 8);
    return m.make<arith::CmpIOp>(arith::CmpIPredicate::ne, stored, zero);
  }
  if (!element.isBF16())
    return stored;
  Value wide = m.make<arith::ExtUIOp>(builder.getI32Type(), stored);
  return m.make<arith::BitcastOp>(builder.getF32Type(), m.make<arith::ShLIOp>(wide, m.integer(16)));
}

/// The upper half, rounded to nearest, ties to even; a NaN stays a NaN. In integer arithmetic: the
/// instruction of some CPUs flushes denormals to 0.
static Value roundToShort(const Arithmetic &m, Value scalar) {
  Type i32 = IntegerType::get(scalar.getContext(), 32);
  Value bits = m.make<arith::BitcastOp>(i32, scalar);
  Value odd = m.make<arith::AndIOp>(m.make<arith::ShRUIOp>(bits, m.integer(16)), m.integer(1));
  Value rounded = m.make<arith::AddIOp>(bits, m.make<arith::AddIOp>(odd, m.integer(0x7fff)));
  Value isNan = m.compare(Predicate::UNO, scalar, scalar);
  rounded = m.select(isNan, m.integer(0x7fc00000), rounded);
  return m.make<arith::ShRUIOp>(rounded, m.integer(16));
}

Value ScalarCode::toMemory(Value scalar, Type element) {
  Arithmetic m(builder, loc, processor);
  if (isNative(element, processor))
    return m.make<arith::TruncFOp>(element, scalar);
  if (element.isInteger(1))
    return m.make<arith::ExtUIOp>(builder.getI8Type(), scalar);
  if (element.isBF16())
    return m.make<arith::TruncIOp>(builder.getI16Type(), roundToShort(m, scalar));
  return scalar;
}

Value ScalarCode::round(Value scalar, Type element) {
  if (rounding == Rounding::Fast || element.isF32() || element.isInteger(1))
    return scalar;
  return fromMemory(toMemory(scalar, element), element);
}

Value ScalarCode::compute(aten::CallOp call, ArrayRef<Value> operands) {
  const Rule &rule = *findRule(call);
  Site site{Arithmetic(builder, loc, processor), Arguments(call), {}};
  SmallVector<Value> scalars(site.arguments.size());
  for (unsigned i = 0; i < rule.tensors; ++i) {
    if (!site.arguments.isOperand(i)) {
      scalars[i] = site.m.number(*site.arguments.number(i));
      continue;
    }
    scalars[i] = operands.front();
    operands = operands.drop_front();
    if (scalars[i].getType().isInteger(1) && !takesCondition(call, i))
      scalars[i] = site.m.make<arith::UIToFPOp>(builder.getF32Type(), scalars[i]);
  }
  site.scalars = scalars;
  return round(rule.write(site),
               cast<RankedTensorType>(call.getResult(0).getType()).getElementType());
}
