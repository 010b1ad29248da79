//===- Float8Casts.cpp - Parameters that are only cast to float8 ----------===//

#include "fsdp/Analysis/Float8Casts.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

static RankedTensorType getType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static Type getElementType(Value value) {
  RankedTensorType type = getType(value);
  return type ? type.getElementType() : Type();
}

static bool isFloat8(Type type) { return isa_and_nonnull<Float8E4M3FNType, Float8E5M2Type>(type); }

static bool isScalar(Value value) { return getType(value) && getType(value).getRank() == 0; }

/// The call that makes the value, if it is of this operator and has one result.
static CallOp getMaker(Value value, StringRef callee) {
  auto call = value.getDefiningOp<CallOp>();
  return call && call.getCallee() == callee && call.getNumResults() == 1 ? call : CallOp();
}

/// The number at a position of the call's arguments.
static std::optional<double> getNumber(CallOp call, unsigned position) {
  if (position >= call.getArgs().size())
    return std::nullopt;
  if (auto real = dyn_cast<FloatAttr>(call.getArgs()[position]))
    return real.getValueAsDouble();
  if (auto integer = dyn_cast<IntegerAttr>(call.getArgs()[position]))
    return static_cast<double>(integer.getInt());
  return std::nullopt;
}

static bool isAbsent(CallOp call, unsigned position) {
  return position >= call.getArgs().size() || isa<UnitAttr>(call.getArgs()[position]);
}

/// True if the call only changes the dtype.
static bool isMereCast(CallOp call) {
  return call.getCallee() == "_to_copy.default" && call.getNumResults() == 1 &&
         call.getNumOperands() == 1 && getType(call.getResult(0)) &&
         getType(call.getOperand(0)).clone(getElementType(call.getResult(0))) ==
             getType(call.getResult(0));
}

/// True if the call yields all elements of its only operand, in a view or a copy.
static bool keepsElements(CallOp call) {
  return (call.isView() || call.getCallee() == "clone.default") && call.getNumOperands() == 1 &&
         call.getNumResults() == 1 && getType(call.getResult(0)) &&
         getType(call.getResult(0)).getNumElements() ==
             getType(call.getOperand(0)).getNumElements() &&
         getElementType(call.getResult(0)) == getElementType(call.getOperand(0));
}

static double getLargest(Type float8) {
  auto type = cast<FloatType>(float8);
  return APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
}

namespace {

class Tracer {
public:
  explicit Tracer(Float8Casts &found) : found(found) {}
  void run(ArrayRef<ReadOp> reads);

private:
  /// How a value is made of the parameter: rounded to `from` first, unless that is null.
  struct Image {
    Value value;
    Type from;
  };
  /// A product of an image and a scale.
  struct Product {
    CallOp call;
    Type from;
    Value scale;
  };
  void visit(Image image, OpOperand &use);
  void visitAbsolute(Image image, CallOp absolute);
  void visitProduct(Image image, OpOperand &use);
  void addCast(const Product &product, CallOp call, bool isSaturated);
  void fail(Operation *op, const Twine &why);
  void failAtUse(Operation *op);

  Float8Casts &found;
  SmallVector<Image> images;
  DenseMap<Value, Type> amaxOf; // of a scalar: `from`
};

} // namespace

void Tracer::fail(Operation *op, const Twine &why) {
  if (!found.problem.empty())
    return;
  found.problem = why.str();
  found.place = op;
}

void Tracer::failAtUse(Operation *op) {
  auto call = dyn_cast<CallOp>(op);
  fail(op, call ? "it is used by '" + call.getCallee() + "' in " +
                      (call.getModule().empty() ? Twine("the root module").str()
                                                : "module '" + call.getModule().str() + "'")
                : "it is used by '" + op->getName().getStringRef() + "'");
}

/// The largest absolute value of the whole image.
void Tracer::visitAbsolute(Image image, CallOp absolute) {
  for (Operation *user : absolute->getUsers()) {
    auto call = dyn_cast<CallOp>(user);
    const bool isLargest =
        call && call.getNumOperands() == 1 && call.getNumResults() == 1 &&
        (call.getCallee() == "max.default" || call.getCallee() == "amax.default") &&
        isScalar(call.getResult(0)) &&
        getElementType(call.getResult(0)) == getElementType(absolute.getResult(0));
    if (!isLargest)
      return fail(user, "its scale is not of the largest absolute value of the whole parameter");
    found.amaxes.push_back(call);
    amaxOf[call.getResult(0)] = image.from;
  }
}

void Tracer::addCast(const Product &product, CallOp call, bool isSaturated) {
  MLIRContext *context = call.getContext();
  Type dtype = getElementType(call.getResult(0));
  auto odd = [&] { fail(call, "its scale is computed by another formula"); };
  // f32(largest * (1 / max(amax, eps)))
  Value value = product.scale;
  if (CallOp narrowed = getMaker(value, "_to_copy.default");
      narrowed && getElementType(narrowed.getOperand(0)).isF64())
    value = narrowed.getOperand(0);
  Type scale = getElementType(value);
  CallOp times = getMaker(value, "mul.Tensor");
  if (!times || times.getNumOperands() != 1 || getNumber(times, 1) != getLargest(dtype))
    return odd();
  CallOp reciprocal = getMaker(times.getOperand(0), "reciprocal.default");
  CallOp limited = reciprocal ? getMaker(reciprocal.getOperand(0), "clamp.default") : CallOp();
  if (!limited && reciprocal)
    limited = getMaker(reciprocal.getOperand(0), "clamp_min.default");
  std::optional<double> eps = limited ? getNumber(limited, 1) : std::nullopt;
  if (!eps || !(*eps > 0) || !isAbsent(limited, 2))
    return odd();
  value = limited.getOperand(0);
  if (CallOp widened = getMaker(value, "_to_copy.default"))
    value = widened.getOperand(0);
  auto amax = amaxOf.find(value);
  if (amax == amaxOf.end() || (!scale.isF32() && !scale.isF64()) || !isScalar(product.scale))
    return odd();
  if (amax->second != product.from)
    return fail(call, "its scale is of the parameter in another dtype");
  auto cast = Float8CastAttr::get(context, dtype, product.from, scale,
                                  FloatAttr::get(Float64Type::get(context), *eps), isSaturated);
  if (found.cast && found.cast != cast)
    return fail(call, "it is cast to float8 in two ways");
  found.cast = cast;
  found.casts.push_back(call);
}

/// The scaled parameter: limited to the range of float8 and cast, or only cast.
void Tracer::visitProduct(Image image, OpOperand &use) {
  auto product = cast<CallOp>(use.getOwner());
  Value other = product.getOperand(1 - use.getOperandNumber());
  if (!isScalar(other) || !getElementType(image.value).isF32() || !getElementType(other).isF32() ||
      !getElementType(product.getResult(0)).isF32())
    return failAtUse(product);
  const Product scaled{product, image.from, other};
  for (Operation *user : product->getUsers()) {
    auto call = dyn_cast<CallOp>(user);
    if (call && isMereCast(call) && isFloat8(getElementType(call.getResult(0)))) {
      addCast(scaled, call, /*isSaturated=*/false);
      continue;
    }
    if (!call || call.getCallee() != "clamp.default" || call.getNumOperands() != 1)
      return failAtUse(user);
    for (Operation *after : call->getUsers()) {
      auto cast = dyn_cast<CallOp>(after);
      Type dtype = cast && isMereCast(cast) ? getElementType(cast.getResult(0)) : Type();
      if (!isFloat8(dtype) || getNumber(call, 1) != -getLargest(dtype) ||
          getNumber(call, 2) != getLargest(dtype))
        return failAtUse(after);
      addCast(scaled, cast, /*isSaturated=*/true);
    }
  }
}

void Tracer::visit(Image image, OpOperand &use) {
  auto call = dyn_cast<CallOp>(use.getOwner());
  if (!call)
    return failAtUse(use.getOwner());
  if (keepsElements(call)) {
    images.push_back({call.getResult(0), image.from});
    return;
  }
  if (isMereCast(call)) {
    Type from = getElementType(image.value), to = getElementType(call.getResult(0));
    if (isFloat8(to))
      return fail(call, "it is cast to float8 without a scale");
    if (from.isF32() && !image.from && (to.isBF16() || to.isF16()))
      images.push_back({call.getResult(0), to});
    else if (to.isF32())
      images.push_back({call.getResult(0), image.from});
    else
      failAtUse(call);
    return;
  }
  if (call.getCallee() == "abs.default")
    return; // visited before
  if (call.getCallee() == "mul.Tensor" && call.getNumOperands() == 2)
    return visitProduct(image, use);
  failAtUse(call);
}

/// True if an elementwise operator casts the parameter, or something of its size that is made of
/// it, to float8.
static bool reachesFloat8(ArrayRef<ReadOp> reads) {
  SmallVector<Value> values;
  for (ReadOp read : reads)
    values.push_back(read.getResult());
  DenseSet<Value> seen;
  for (size_t i = 0; i < values.size(); ++i)
    for (Operation *user : values[i].getUsers()) {
      auto call = dyn_cast<CallOp>(user);
      if (!call || call.getNumResults() != 1 || !getType(call.getResult(0)) ||
          !(call.isView() ||
            llvm::is_contained({"_to_copy", "clone", "mul", "div", "clamp"}, call.getBaseName())))
        continue;
      if (isFloat8(getElementType(call.getResult(0))))
        return true;
      if (getType(call.getResult(0)).getNumElements() == getType(values[0]).getNumElements() &&
          seen.insert(call.getResult(0)).second)
        values.push_back(call.getResult(0));
    }
  return false;
}

void Tracer::run(ArrayRef<ReadOp> reads) {
  found.reads.assign(reads.begin(), reads.end());
  for (ReadOp read : reads)
    images.push_back({read.getResult(), Type()});
  // All images are known before the scales, which other images may yield.
  for (size_t i = 0; i < images.size(); ++i)
    for (OpOperand &use : images[i].value.getUses())
      if (auto call = dyn_cast<CallOp>(use.getOwner());
          call && (keepsElements(call) || isMereCast(call)))
        visit(images[i], use);
  const SmallVector<Image> all = images;
  for (const Image &image : all)
    for (OpOperand &use : image.value.getUses())
      if (auto call = dyn_cast<CallOp>(use.getOwner()); call && call.getCallee() == "abs.default")
        visitAbsolute(image, call);
  for (const Image &image : all)
    for (OpOperand &use : image.value.getUses())
      if (auto call = dyn_cast<CallOp>(use.getOwner());
          !call || !(keepsElements(call) || isMereCast(call)))
        visit(image, use);
  // A scale is the parameter's even where the step does not cast by it.
  if (!found.cast)
    fail(reads.front(), "it is not cast by a scale of its largest absolute value");
}

Float8CastsByParam fsdp::findFloat8Casts(Step &step) {
  DenseMap<StringAttr, SmallVector<ReadOp>> readsOf;
  for (auto read : step.getBody().getOps<ReadOp>())
    if (step.paramByName.contains(read.getSourceAttr().getAttr()))
      readsOf[read.getSourceAttr().getAttr()].push_back(read);
  Float8CastsByParam found;
  for (auto &[name, reads] : readsOf)
    if (getElementType(reads.front().getResult()).isF32() && reachesFloat8(reads))
      Tracer(found[name]).run(reads);
  return found;
}

Value fsdp::makeViewOf(OpBuilder &builder, Value value, Value parameter, aten::Phase phase) {
  auto call = value.getDefiningOp<CallOp>();
  if (!call)
    return parameter;
  Value source = makeViewOf(builder, call.getOperand(0), parameter, phase);
  if (isMereCast(call))
    return source;
  auto again = cast<CallOp>(builder.clone(*call));
  again.setPhase(phase);
  again->setOperand(0, source);
  again.getResult(0).setType(getType(call.getResult(0)).clone(getElementType(parameter)));
  return again.getResult(0);
}
