//===- RandomCalls.cpp - Calls that are drawn for a kernel ----------------===//

#include "KernelDrawer.h"
#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/Rearrangement.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::test;

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

void KernelDrawer::drawCall(ArrayRef<int64_t> shape) {
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
void KernelDrawer::drawReduction() {
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

/// The sum over each chunk's rows.
void KernelDrawer::drawColumnSum() {
  const SmallVector<int64_t> flat = codegen::flattenRows(domain);
  const SmallVector<int64_t> cut{flat[0] / chunkRows, chunkRows, flat[1]};
  Attribute mark = aten::OperandAttr::get(&context);
  Type element = chance(70) ? main : Type(builder.getF32Type());
  const Known &summed = pickWhole(domain, element);
  if (!isContiguous(cast<RankedTensorType>(summed.value.getType())) ||
      !addCall("view.default", {&summed}, {mark, builder.getDenseI64ArrayAttr(cut)},
               RankedTensorType::get(cut, element)))
    return;
  Type f32 = builder.getF32Type();
  addCall("sum.dim_IntList", {&known.back()},
          {mark, builder.getDenseI64ArrayAttr({1}), builder.getBoolAttr(false), TypeAttr::get(f32)},
          RankedTensorType::get({cut[0], cut[2]}, f32));
}

/// Columns of something, computed with, and put side by side in another order.
void KernelDrawer::drawConcatenation() {
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
void KernelDrawer::drawExpansion() {
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
void KernelDrawer::drawRegrouping() {
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
void KernelDrawer::drawSoftmax(ArrayRef<int64_t> shape) {
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
    // Of anything but logarithms of probabilities, small errors would be large in the backward, and
    // of a gradient that is the same in all columns what is left may be 0.
    const Known *logarithms = &known.back();
    if (chance(60) && gradient->tensor.stride(-1) != 0)
      addCall("_log_softmax_backward_data.default", {gradient, logarithms},
              {mark, mark, integer(last), TypeAttr::get(main)}, type);
  } else if (chance(60)) {
    const SmallVector<int64_t> rows = codegen::getRowShape(shape);
    const Known *source = &pickWhole(shape, main), *index = &addTarget(rows, shape.back());
    auto ofRows = RankedTensorType::get(rows, main);
    if (chance(30)) {
      addCall("logsumexp.default", {source},
              {mark, builder.getDenseI64ArrayAttr({last}), builder.getBoolAttr(true)}, ofRows);
    } else if (chance(50)) {
      addCall("gather.default", {source, index},
              {mark, integer(last), mark, builder.getBoolAttr(false)}, ofRows);
    } else {
      const Known *added = &pickWhole(rows, main);
      if (chance(50)) {
        addCall("new_zeros.default", {added},
                {mark, builder.getDenseI64ArrayAttr(shape), none, none, none, none}, type);
        source = &known.back();
      }
      addCall("scatter_add.default", {source, index, added}, {mark, integer(last), mark, mark},
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
