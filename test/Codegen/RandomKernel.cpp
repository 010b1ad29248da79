//===- RandomKernel.cpp - Kernels that are drawn --------------------------===//

#include "RandomKernel.h"

#include "Operators.h"
#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/Rearrangement.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "fsdp/IR/TensorLayout.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <gtest/gtest.h>

#include <deque>
#include <numeric>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::test;

namespace {
class Drawer {
public:
  Drawer(MLIRContext &context, Rounding rounding, std::mt19937 &random)
      : context(context), builder(&context), rounding(rounding), random(random) {}
  RandomKernel run();

private:
  /// A value of the kernel, torch's tensor of it, and the same computed in fp32 and fp64
  /// throughout.
  struct Known {
    Value value;
    at::Tensor tensor, single, precise;
  };

  unsigned below(unsigned count) { return random() % count; }
  bool chance(unsigned percent) { return below(100) < percent; }
  void drawDomain();
  const Known &addInput(ArrayRef<int64_t> shape, Type element);
  const Known &addTarget(ArrayRef<int64_t> shape, int64_t classes);
  const Known *findKnown(ArrayRef<int64_t> shape, Type element);
  /// A value of this shape, or one that broadcasts to it.
  const Known &pickWhole(ArrayRef<int64_t> shape, Type element);
  const Known &pick(ArrayRef<int64_t> shape, Type element);
  RankedTensorType drawLayout(ArrayRef<int64_t> shape, Type element);
  aten::CallOp makeCall(StringRef callee, ArrayRef<Attribute> arguments, ValueRange values,
                        RankedTensorType type);
  at::Tensor evaluate(StringRef callee, ArrayRef<Attribute> arguments, ValueRange values,
                      ArrayRef<at::Tensor> tensors, RankedTensorType type);
  bool addCall(StringRef callee, ArrayRef<const Known *> operands, ArrayRef<Attribute> arguments,
               RankedTensorType type);
  void drawCall(ArrayRef<int64_t> shape);
  void drawReduction();
  void drawConcatenation();
  void drawExpansion();
  void drawRegrouping();
  void drawSoftmax(ArrayRef<int64_t> shape);

  MLIRContext &context;
  OpBuilder builder;
  Rounding rounding;
  std::mt19937 &random;
  RandomKernel result;
  SmallVector<int64_t> domain;
  Type main; // the dtype of most
  std::deque<Known> known;
  unsigned numCalls = 0;
  bool isFlat = false; // rows are counted by one dimension in some calls
};
} // namespace

static at::ScalarType toTorch(Type element) {
  return element.isF32()    ? at::kFloat
         : element.isBF16() ? at::kBFloat16
         : element.isF16()  ? at::kHalf
                            : at::kBool;
}

void Drawer::drawDomain() {
  static constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 16, 33, 64, 96, 128};
  for (unsigned rank = 1 + below(4); domain.size() < rank;)
    domain.push_back(kSizes[below(std::size(kSizes))]);
  if (chance(10))
    domain = {5000};
  // Rows in which torch's sums have further levels, and such that are not added up at once.
  static constexpr int64_t kLong[] = {512, 544, 1600, 4096, 8192, 16384, 20011};
  if (chance(15))
    domain = {1 + below(4), kLong[below(std::size(kLong))]};
  while (std::accumulate(domain.begin(), domain.end(), int64_t(1), std::multiplies<>()) > 200000)
    domain.erase(domain.begin());
}

const Drawer::Known &Drawer::addInput(ArrayRef<int64_t> shape, Type element) {
  // Sometimes the dimensions lie in another order, or every second number is left out.
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  if (chance(20))
    std::shuffle(order.begin(), order.end(), random);
  SmallVector<int64_t> sizes;
  for (int64_t dimension : order)
    sizes.push_back(shape[dimension]);
  bool isSparse = !sizes.empty() && chance(10);
  if (isSparse)
    sizes.back() *= 2;
  at::Tensor tensor = at::randn(sizes, at::kFloat);
  if (rounding == Rounding::Exact && chance(20)) // also zeros, infinities and NaN
    tensor = tensor / (at::rand(sizes, at::kFloat) * 4 - 2).to(at::kInt).to(at::kFloat);
  tensor = element.isInteger(1) ? tensor > 0 : tensor.to(toTorch(element));
  if (isSparse)
    tensor = tensor.slice(-1, 0, sizes.back(), 2);
  SmallVector<int64_t> back(order.size());
  for (auto [i, dimension] : llvm::enumerate(order))
    back[dimension] = i;
  tensor = tensor.permute(at::IntArrayRef(back.data(), back.size()));
  if (!shape.empty() && chance(10)) // one number for each row, in every column
    tensor = tensor.slice(-1, 0, 1).expand(at::IntArrayRef(shape.data(), shape.size()));
  auto type = getStridedTensorType(
      shape, element, {tensor.strides().data(), tensor.strides().size()}, /*offset=*/0);
  Value argument = result.kernel.getBody().front().addArgument(type, builder.getUnknownLoc());
  result.inputs.push_back(tensor);
  bool isBool = element.isInteger(1);
  known.push_back({argument, tensor, isBool ? tensor : tensor.to(at::kFloat),
                   isBool ? tensor : tensor.to(at::kDouble)});
  return known.back();
}

/// Classes of samples.
const Drawer::Known &Drawer::addTarget(ArrayRef<int64_t> shape, int64_t classes) {
  at::Tensor tensor = at::randint(classes, at::IntArrayRef(shape.data(), shape.size()), at::kLong);
  Value argument = result.kernel.getBody().front().addArgument(
      RankedTensorType::get(shape, builder.getI64Type()), builder.getUnknownLoc());
  result.inputs.push_back(tensor);
  known.push_back({argument, tensor, tensor, tensor});
  return known.back();
}

const Drawer::Known *Drawer::findKnown(ArrayRef<int64_t> shape, Type element) {
  SmallVector<const Known *> found;
  for (const Known &item : known)
    if (auto type = cast<RankedTensorType>(item.value.getType());
        type.getElementType() == element && type.getShape() == shape)
      found.push_back(&item);
  if (found.empty() || chance(20))
    return nullptr;
  return found[found.size() - 1 - below(std::min<size_t>(found.size(), 4))];
}

const Drawer::Known &Drawer::pickWhole(ArrayRef<int64_t> shape, Type element) {
  const Known *found = findKnown(shape, element);
  return found ? *found : addInput(shape, element);
}

const Drawer::Known &Drawer::pick(ArrayRef<int64_t> shape, Type element) {
  // One number for each row may be there from a sum.
  const SmallVector<int64_t> rows = codegen::getRowShape(shape);
  if (const Known *found = findKnown(chance(30) ? ArrayRef<int64_t>(rows) : shape, element))
    return *found;
  SmallVector<int64_t> own(shape);
  for (int64_t &size : own)
    if (chance(10))
      size = 1;
  if (chance(20))
    own.erase(own.begin(), own.begin() + below(own.size() + 1));
  return addInput(own, element);
}

/// What torch's operator makes of these tensors, in a tensor of this type.
at::Tensor Drawer::evaluate(StringRef callee, ArrayRef<Attribute> arguments, ValueRange values,
                            ArrayRef<at::Tensor> tensors, RankedTensorType type) {
  OwningOpRef<aten::CallOp> call = makeCall(callee, arguments, values, type);
  return interpreter::callOperator(*call, tensors)[0];
}

aten::CallOp Drawer::makeCall(StringRef callee, ArrayRef<Attribute> arguments, ValueRange values,
                              RankedTensorType type) {
  auto scope = aten::ScopeAttr::get(&context, builder.getStringAttr(""), {});
  return aten::CallOp::create(builder, builder.getUnknownLoc(), TypeRange{type}, values,
                              builder.getStringAttr(callee), builder.getArrayAttr(arguments),
                              aten::Phase::Forward, scope, /*rng=*/nullptr, /*offsets=*/nullptr);
}

/// Dense, in some order of the dimensions.
RankedTensorType Drawer::drawLayout(ArrayRef<int64_t> shape, Type element) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  if (chance(10))
    std::shuffle(order.begin(), order.end(), random);
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t dimension : llvm::reverse(order)) {
    strides[dimension] = stride;
    stride *= shape[dimension];
  }
  return getStridedTensorType(shape, element, strides, 0);
}

/// Adds the call if a kernel of this rounding may hold it.
bool Drawer::addCall(StringRef callee, ArrayRef<const Known *> operands,
                     ArrayRef<Attribute> arguments, RankedTensorType type) {
  SmallVector<Value> values;
  SmallVector<at::Tensor> tensors, single, precise;
  for (const Known *item : operands) {
    values.push_back(item->value);
    tensors.push_back(item->tensor);
    single.push_back(item->single);
    precise.push_back(item->precise);
  }
  aten::CallOp call = makeCall(callee, arguments, values, type);
  bool isKnown = true;
  if (!codegen::isElementwise(call, rounding) && !codegen::isRowReduction(call, rounding) &&
      !codegen::isRowOperator(call, rounding) && !codegen::isRearrangement(call))
    isKnown = false;
  if (!isKnown ||
      (isFlat && !codegen::isKernelView(call) && !codegen::canFlatten(call, rounding))) {
    call.erase();
    return false;
  }
  Known made{call.getResult(0), interpreter::callOperator(call, tensors)[0], {}, {}};
  if (rounding == Rounding::Fast) {
    auto as = [&](Type element, ArrayRef<at::Tensor> operands) {
      SmallVector<Attribute> own(arguments);
      if (callee == "_to_copy.default")
        own[1] = TypeAttr::get(element);
      if (callee == "_log_softmax_backward_data.default")
        own[3] = TypeAttr::get(element);
      auto made = type.clone(element);
      if (codegen::isKernelView(call) &&
          !codegen::isRowRegrouping(call)) { // of a tensor whose strides are others
        SmallVector<int64_t> strides(operands[0].strides().begin(), operands[0].strides().end());
        int64_t first = codegen::findColumn(call->getOpResult(0), 0)->column;
        int64_t offset = operands[0].storage_offset() + first * strides.back();
        if (codegen::isRowExpansion(call))
          strides.back() = 0;
        made = getStridedTensorType(type.getShape(), element, strides, offset);
      }
      return evaluate(callee, own, values, operands, made);
    };
    made.single = as(builder.getF32Type(), single);
    made.precise = as(builder.getF64Type(), precise);
  }
  known.push_back(made);
  ++numCalls;
  return true;
}

static constexpr llvm::StringLiteral kExactUnary[] = {
    "neg.default",   "abs.default", "relu.default",    "rsqrt.default", "reciprocal.default",
    "clone.default", "exp.default", "sigmoid.default", "tanh.default",  "silu.default"};
static constexpr llvm::StringLiteral kFastUnary[] = {
    "neg.default",  "abs.default",  "relu.default", "exp.default",  "sigmoid.default",
    "tanh.default", "silu.default", "gelu.default", "clone.default"};
static constexpr llvm::StringLiteral kFastBackward[] = {
    "sigmoid_backward.default", "tanh_backward.default", "silu_backward.default",
    "gelu_backward.default"};
static constexpr llvm::StringLiteral kComparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};
static constexpr double kNumbers[] = {0, 1, -1, 0.5, 2, 3, -0.25, 0.1, 1e-5, 7.3};

void Drawer::drawCall(ArrayRef<int64_t> shape) {
  const bool isFast = rounding == Rounding::Fast;
  Type element = chance(85) ? main : Type(builder.getF32Type());
  RankedTensorType type = drawLayout(shape, element);
  auto whole = [&](Type dtype) { return &pickWhole(shape, dtype); };
  auto other = [&](Type dtype) { return &pick(shape, dtype); };
  Attribute mark = aten::OperandAttr::get(&context), none = builder.getUnitAttr();
  Attribute one = builder.getI64IntegerAttr(1);
  Attribute number = builder.getF64FloatAttr(kNumbers[below(std::size(kNumbers))]);
  Type boolean = builder.getI1Type();
  switch (below(isFast ? 8 : 12)) {
  case 0:
  case 1: {
    StringRef name = chance(50) ? "mul.Tensor" : "div.Tensor";
    if (isFast)
      name = "mul.Tensor";
    if (chance(30))
      addCall(name, {whole(element)}, {mark, number}, type);
    else
      addCall(name, {whole(element), other(element)}, {mark, mark}, type);
    return;
  }
  case 2:
  case 3: {
    Attribute scale = chance(70) ? one : number;
    StringRef name = chance(50) ? "add.Tensor" : "sub.Tensor";
    addCall(name, {whole(element), other(element)}, {mark, mark, scale}, type);
    return;
  }
  case 4:
    addCall(chance(50) ? "add.Scalar" : "rsub.Scalar", {whole(element)}, {mark, number, one}, type);
    return;
  case 5: { // casts
    Type from = chance(50) ? main : Type(builder.getF32Type());
    addCall("_to_copy.default", {whole(from)},
            {mark, TypeAttr::get(element), none, none, none, builder.getBoolAttr(false), none},
            type);
    return;
  }
  case 6:
    if (chance(40)) {
      StringRef name = kFastBackward[below(std::size(kFastBackward))];
      SmallVector<Attribute> arguments{mark, mark};
      if (name.starts_with("gelu"))
        arguments.push_back(builder.getStringAttr(chance(50) ? "none" : "tanh"));
      addCall(name, {whole(element), whole(element)}, arguments, type);
      return;
    }
    [[fallthrough]];
  case 7: {
    StringRef name = isFast ? kFastUnary[below(std::size(kFastUnary))]
                            : kExactUnary[below(std::size(kExactUnary))];
    SmallVector<Attribute> arguments{mark};
    if (name.starts_with("gelu"))
      arguments.push_back(builder.getStringAttr(chance(50) ? "none" : "tanh"));
    if (name.starts_with("clone"))
      arguments.push_back(none);
    addCall(name, {whole(element)}, arguments, type);
    return;
  }
  case 8:
    addCall("pow.Tensor_Scalar", {whole(element)}, {mark, builder.getI64IntegerAttr(1 + below(3))},
            type);
    return;
  case 9: {
    std::string name = kComparisons[below(std::size(kComparisons))].str();
    RankedTensorType result = drawLayout(shape, boolean);
    if (chance(50))
      addCall(name + ".Scalar", {whole(element)}, {mark, number}, result);
    else
      addCall(name + ".Tensor", {whole(element), other(element)}, {mark, mark}, result);
    return;
  }
  case 10:
    if (chance(50))
      addCall("where.self", {whole(boolean), other(element), other(element)}, {mark, mark, mark},
              type);
    else
      addCall("masked_fill.Scalar", {whole(element), other(boolean)}, {mark, mark, number}, type);
    return;
  case 11:
    if (chance(50))
      addCall("threshold_backward.default", {whole(element), whole(element)},
              {mark, mark, builder.getI64IntegerAttr(0)}, type);
    else
      addCall("native_dropout_backward.default", {whole(element), whole(boolean)},
              {mark, mark, builder.getF64FloatAttr(1 / 0.9)}, type);
    return;
  }
}

/// A sum or mean of the rows of something, and then calls on one number for each row.
void Drawer::drawReduction() {
  Type element = chance(70) ? Type(builder.getF32Type()) : main;
  SmallVector<int64_t> rows = codegen::getRowShape(domain);
  Attribute mark = aten::OperandAttr::get(&context);
  auto type = RankedTensorType::get(rows, element);
  if (domain.size() < 2 ||
      !addCall(chance(50) ? "sum.dim_IntList" : "mean.dim", {&pickWhole(domain, element)},
               {mark, builder.getDenseI64ArrayAttr({-1}), builder.getBoolAttr(true),
                builder.getUnitAttr()},
               type))
    return;
  for (unsigned count = below(3); count > 0; --count)
    drawCall(rows);
}

/// Columns of something, computed with, and put side by side in another order.
void Drawer::drawConcatenation() {
  const int64_t columns = domain.back();
  if (columns < 4 || columns > 8192)
    return;
  Attribute mark = aten::OperandAttr::get(&context), none = builder.getUnitAttr();
  auto integer = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  const int64_t last = domain.size() - 1, cut = 2 + below(columns - 3);
  SmallVector<int64_t> left(domain), right(domain);
  left.back() = cut;
  right.back() = columns - cut;
  auto drawPart = [&](ArrayRef<int64_t> shape, int64_t first) {
    const Known &whole = pickWhole(domain, main);
    TensorLayout layout = getTensorLayout(cast<RankedTensorType>(whole.value.getType()));
    auto type = getStridedTensorType(shape, main, layout.strides,
                                     layout.offset + first * layout.strides.back());
    Attribute begin = first == 0 ? none : integer(first - (chance(50) ? columns : 0));
    addCall(
        "slice.Tensor", {&whole},
        {mark, integer(chance(50) ? -1 : last), begin, integer(first + shape.back()), integer(1)},
        type);
    for (unsigned count = below(3); count > 0; --count)
      drawCall(shape);
    return &pickWhole(shape, main);
  };
  const Known *a = drawPart(left, below(columns - left.back() + 1));
  const Known *b = drawPart(right, below(columns - right.back() + 1));
  if (chance(50))
    std::swap(a, b);
  addCall("cat.default", {a, b}, {builder.getArrayAttr({mark, mark}), integer(last)},
          RankedTensorType::get(domain, main));
}

/// One number for each row, in every column.
void Drawer::drawExpansion() {
  const Known *found = findKnown(codegen::getRowShape(domain), main);
  if (!found || domain.size() < 2 || domain.back() == 1)
    return;
  TensorLayout layout = getTensorLayout(cast<RankedTensorType>(found->value.getType()));
  layout.strides.back() = 0;
  Attribute mark = aten::OperandAttr::get(&context);
  addCall("expand.default", {found},
          {mark, builder.getDenseI64ArrayAttr(domain), builder.getBoolAttr(false)},
          getStridedTensorType(domain, main, layout.strides, layout.offset));
}

/// Rows that are counted by one dimension, computed with, and counted by all again.
void Drawer::drawRegrouping() {
  Attribute mark = aten::OperandAttr::get(&context);
  auto addView = [&](const Known &from, ArrayRef<int64_t> shape) {
    return isContiguous(cast<RankedTensorType>(from.value.getType())) &&
           addCall("view.default", {&from}, {mark, builder.getDenseI64ArrayAttr(shape)},
                   RankedTensorType::get(shape, main));
  };
  const SmallVector<int64_t> flat = codegen::flattenRows(domain);
  if (!addView(pickWhole(domain, main), flat))
    return;
  for (unsigned count = 1 + below(3); count > 0; --count)
    drawCall(flat);
  drawSoftmax(flat);
  addView(pickWhole(flat, main), domain);
}

/// A softmax, its backward, a number of each row, or the backward of a loss.
void Drawer::drawSoftmax(ArrayRef<int64_t> shape) {
  if (shape.size() < 2 || shape.back() == 1)
    return;
  Attribute mark = aten::OperandAttr::get(&context), none = builder.getUnitAttr();
  auto integer = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  const int64_t last = chance(50) ? -1 : shape.size() - 1;
  auto type = RankedTensorType::get(shape, main);
  if (chance(70)) {
    const Known *gradient = &pickWhole(shape, main);
    addCall("_log_softmax.default", {&pickWhole(shape, main)},
            {mark, integer(last), builder.getBoolAttr(false)}, type);
    // Of anything but logarithms of probabilities, small errors would be large in the backward.
    const Known *logarithms = &known.back();
    if (chance(60))
      addCall("_log_softmax_backward_data.default", {gradient, logarithms},
              {mark, mark, integer(last), TypeAttr::get(main)}, type);
  } else if (chance(60)) {
    const SmallVector<int64_t> rows = codegen::getRowShape(shape);
    const Known *known = &pickWhole(shape, main), *index = &addTarget(rows, shape.back());
    auto ofRows = RankedTensorType::get(rows, main);
    if (chance(30)) {
      addCall("logsumexp.default", {known},
              {mark, builder.getDenseI64ArrayAttr({last}), builder.getBoolAttr(true)}, ofRows);
    } else if (chance(50)) {
      addCall("gather.default", {known, index},
              {mark, integer(last), mark, builder.getBoolAttr(false)}, ofRows);
    } else {
      const Known *added = &pickWhole(rows, main);
      if (chance(50)) {
        addCall("new_zeros.default", {added},
                {mark, builder.getDenseI64ArrayAttr(shape), none, none, none, none}, type);
        known = &this->known.back();
      }
      addCall("scatter_add.default", {known, index, added}, {mark, integer(last), mark, mark},
              type);
    }
  } else if (shape.size() == 2) {
    const unsigned reduction = below(3);
    const Known *self = &pickWhole(shape, main), *target = &addTarget({shape[0]}, shape[1]);
    SmallVector<int64_t> samples;
    if (reduction == 0)
      samples.push_back(shape[0]);
    SmallVector<const Known *> operands{&addInput(samples, main), self, target};
    const bool hasWeights = chance(50);
    if (hasWeights)
      operands.push_back(&addInput(shape[1], main));
    operands.push_back(&addInput({}, main));
    addCall("nll_loss_backward.default", operands,
            {mark, mark, mark, hasWeights ? mark : none, integer(reduction),
             integer(chance(50) ? 1 : -100), mark},
            type);
  }
}

RandomKernel Drawer::run() {
  const Type dtypes[] = {builder.getF32Type(), builder.getF32Type(), builder.getBF16Type(),
                         builder.getF16Type()};
  main = dtypes[below(std::size(dtypes))];
  drawDomain();
  isFlat = domain.size() >= 3 && chance(30);
  result.module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToStart(result.module->getBody());
  result.kernel = KernelOp::create(builder, builder.getUnknownLoc(), "kernel", rounding);
  builder.setInsertionPointToEnd(&result.kernel.getBody().emplaceBlock());
  const unsigned wanted = 2 + below(12);
  for (unsigned attempts = 0; numCalls < wanted && attempts < 200; ++attempts) {
    if (chance(10))
      drawReduction();
    else if (!isFlat && chance(10))
      drawConcatenation();
    else if (chance(10))
      drawExpansion();
    else if (isFlat && chance(20))
      drawRegrouping();
    else if (rounding == Rounding::Fast && chance(8))
      drawSoftmax(domain);
    else
      drawCall(domain);
  }
  // What nothing reads, and some of the rest.
  SmallVector<Value> yielded;
  auto isResult = [&](Value value) {
    auto call = value.getDefiningOp<aten::CallOp>();
    ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
    return call && !codegen::isKernelView(call) &&
           (shape == ArrayRef<int64_t>(domain) ||
            shape == ArrayRef<int64_t>(codegen::getRowShape(domain)) ||
            (isFlat && shape == ArrayRef<int64_t>(codegen::flattenRows(domain))));
  };
  auto isRead = [](Operation *user) { return !codegen::isRowRegrouping(cast<aten::CallOp>(user)); };
  for (const Known &item : known)
    if (isResult(item.value) && (llvm::none_of(item.value.getUsers(), isRead) || chance(10))) {
      yielded.push_back(item.value);
      result.expected.push_back(item.tensor);
      result.single.push_back(item.single);
      result.precise.push_back(item.precise);
    }
  YieldOp::create(builder, builder.getUnknownLoc(), yielded);
  // Inputs of calls that no kernel may hold.
  Block &body = result.kernel.getBody().front();
  for (unsigned i = body.getNumArguments(); i-- > 0;)
    if (body.getArgument(i).use_empty()) {
      body.eraseArgument(i);
      result.inputs.erase(result.inputs.begin() + i);
    }
  return std::move(result);
}

RandomKernel fsdp::test::drawKernel(MLIRContext &context, Rounding rounding, std::mt19937 &random) {
  return Drawer(context, rounding, random).run();
}

std::vector<RandomKernel> fsdp::test::drawKernels(MLIRContext &context) {
  std::vector<RandomKernel> drawn;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    drawn.push_back(drawKernel(context, seed % 2 ? Rounding::Exact : Rounding::Fast, random));
  }
  return drawn;
}

void fsdp::test::checkBound(const at::Tensor &got, const at::Tensor &single,
                            const at::Tensor &precise) {
  double unit = got.scalar_type() == at::kBFloat16 ? 0x1p-8
                : got.scalar_type() == at::kHalf   ? 0x1p-11
                                                   : 0x1p-24;
  at::Tensor isKnown = precise.abs().lt(3e4);
  auto largest = [&](const at::Tensor &tensor) {
    return tensor.abs().masked_fill(isKnown.logical_not(), 0).max().item<double>();
  };
  double error = largest(got.to(at::kDouble) - precise);
  double ofSingle = largest(single.to(at::kDouble) - precise);
  EXPECT_LE(error, 4 * ofSingle + (unit + 0x1p-21) * largest(precise) + 1e-7);
}
