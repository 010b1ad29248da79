//===- OperatorWork.cpp - Arithmetic and bytes of aten operators -----------===//

#include "fsdp/CostModel/OperatorWork.h"

#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::cost;

int64_t fsdp::cost::getMovedBytes(RankedTensorType type) {
  TensorLayout layout = getTensorLayout(type);
  int64_t distinct = 1;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), layout.strides))
    if (stride != 0 || size == 0)
      distinct *= size;
  return distinct * getElementBytes(type.getElementType());
}

int64_t fsdp::cost::getMovedBytes(Operation *op) {
  int64_t bytes = 0;
  for (auto types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        bytes += getMovedBytes(tensor);
  return bytes;
}

namespace {

/// A call under its rule: the tensors at the places of the schema.
class Call {
public:
  explicit Call(aten::CallOp call) : call(call) {}

  size_t numOperands() { return call.getNumOperands(); }
  RankedTensorType operand(unsigned i) {
    return cast<RankedTensorType>(call.getOperand(i).getType());
  }
  /// Null: the result is no tensor.
  RankedTensorType result(unsigned i) {
    return dyn_cast<RankedTensorType>(call.getResult(i).getType());
  }
  bool flag(unsigned argument) {
    auto value = argument < call.getArgs().size() ? dyn_cast<BoolAttr>(call.getArgs()[argument])
                                                  : BoolAttr();
    return value && value.getValue();
  }
  /// The elements of a list of booleans; `otherwise` where it is absent.
  bool flagOf(unsigned argument, unsigned element, bool otherwise) {
    auto list = argument < call.getArgs().size()
                    ? dyn_cast<DenseBoolArrayAttr>(call.getArgs()[argument])
                    : DenseBoolArrayAttr();
    return list && element < list.size() ? list[element] : otherwise;
  }
  int64_t resultBytes() {
    int64_t bytes = 0;
    for (Value value : call.getResults())
      if (auto type = dyn_cast<RankedTensorType>(value.getType()))
        bytes += getMovedBytes(type);
    return bytes;
  }
  int64_t bytes() {
    int64_t bytes = resultBytes();
    for (Value value : call.getOperands())
      bytes += getMovedBytes(cast<RankedTensorType>(value.getType()));
    return bytes;
  }

private:
  aten::CallOp call;
};

/// What the table knows of an operator. The three numbers mean what their rule says.
struct Rule {
  OperatorWork (*count)(Call &call, const Rule &rule);
  unsigned first = 0;  // operand: the first factor, the query, the gradient, the table
  unsigned second = 0; // argument: whether attention is causal; which gradients are wanted
  unsigned third = 0;  // argument: whether the convolution is transposed
};

} // namespace

static double product(ArrayRef<int64_t> sizes) {
  double result = 1;
  for (int64_t size : sizes)
    result *= static_cast<double>(size);
  return result;
}

/// [..., m, k] x [..., k, n], the factors at `first` and the place after it; whatever comes before
/// them is added. Grouped: each row of [m, k] meets one of the [e, k, n], or the groups share k.
static OperatorWork countProduct(Call &call, const Rule &rule) {
  RankedTensorType left = call.operand(rule.first), right = call.operand(rule.first + 1);
  double columns = right.getRank() >= 2 ? static_cast<double>(right.getShape().back()) : 1;
  double outputs = product(left.getShape().drop_back()) * columns;
  double flops = 2 * outputs * static_cast<double>(left.getShape().back());
  if (rule.first > 0)
    flops += outputs;
  return {Arithmetic::MatrixProduct, flops, call.bytes(), left.getElementType()};
}

/// x [..., k] times weight [n, k].
static OperatorWork countLinear(Call &call, const Rule &) {
  RankedTensorType input = call.operand(0), weight = call.operand(1);
  double outputs =
      product(input.getShape().drop_back()) * static_cast<double>(weight.getDimSize(0));
  double flops = 2 * outputs * static_cast<double>(input.getShape().back());
  if (call.numOperands() > 2)
    flops += outputs;
  return {Arithmetic::MatrixProduct, flops, call.bytes(), input.getElementType()};
}

/// Multiply-adds times two of the products of attention, `keyProducts` over the size of a key and
/// `valueProducts` over that of a value. Source: Dao, FlashAttention-2 (arXiv 2307.08691), section
/// 4.1: two products forward, five backward (scores are computed again); a causal mask halves them.
static double attentionFlops(Call &call, const Rule &rule, int keyProducts, int valueProducts) {
  RankedTensorType query = call.operand(rule.first), key = call.operand(rule.first + 1),
                   value = call.operand(rule.first + 2);
  double scores = product(query.getShape().drop_back()) *
                  static_cast<double>(key.getDimSize(key.getRank() - 2));
  double flops = 2 * scores *
                 static_cast<double>(keyProducts * query.getShape().back() +
                                     valueProducts * value.getShape().back());
  return call.flag(rule.second) ? flops / 2 : flops;
}

static OperatorWork countAttention(Call &call, const Rule &rule) {
  return {Arithmetic::Attention, attentionFlops(call, rule, 1, 1), call.bytes(),
          call.operand(rule.first).getElementType()};
}

static OperatorWork countAttentionBackward(Call &call, const Rule &rule) {
  return {Arithmetic::Attention, attentionFlops(call, rule, 3, 2), call.bytes(),
          call.operand(rule.first).getElementType()};
}

/// Every element of the smaller side of the correlation (the output, or the input if transposed)
/// meets all weights of one of its channels.
static double convolutionFlops(RankedTensorType outer, RankedTensorType weight) {
  return 2 * product(outer.getShape()) * product(weight.getShape().drop_front());
}

static OperatorWork countConvolution(Call &call, const Rule &rule) {
  RankedTensorType outer = call.flag(rule.third) ? call.operand(0) : call.result(0);
  return {Arithmetic::MatrixProduct, convolutionFlops(outer, call.operand(1)), call.bytes(),
          call.operand(0).getElementType()};
}

/// Operands: gradient of the output, input, weight. As much again for each gradient that is wanted.
static OperatorWork countConvolutionBackward(Call &call, const Rule &rule) {
  RankedTensorType outer = call.flag(rule.third) ? call.operand(1) : call.operand(0);
  int gradients = call.flagOf(rule.second, 0, true) + call.flagOf(rule.second, 1, true);
  return {Arithmetic::MatrixProduct, gradients * convolutionFlops(outer, call.operand(2)),
          call.bytes(), outer.getElementType()};
}

/// Reads of the table (operand `first`) what it yields.
static OperatorWork countLookup(Call &call, const Rule &rule) {
  int64_t bytes = call.bytes() - getMovedBytes(call.operand(rule.first)) + call.resultBytes();
  return {Arithmetic::None, 0, bytes, Type()};
}

/// Zeroes the result, then adds each row of the gradient (operand `first`) to its place.
static OperatorWork countLookupBackward(Call &call, const Rule &rule) {
  int64_t bytes = call.bytes() + 2 * getMovedBytes(call.operand(rule.first));
  return {Arithmetic::None, 0, bytes, Type()};
}

/// Writes without reading the operand, whose shape alone matters.
static OperatorWork countFill(Call &call, const Rule &) {
  return {Arithmetic::None, 0, call.resultBytes(), Type()};
}

static OperatorWork countNothing(Call &, const Rule &) {
  OperatorWork work;
  work.runsNothing = true;
  return work;
}

static OperatorWork countMoves(Call &call, const Rule &) {
  return {Arithmetic::None, 0, call.bytes(), Type()};
}

/// The table: places are those of torch 2.11's schemas (native_functions.yaml).
static const Rule &lookupRule(StringRef baseName) {
  static const Rule other{countMoves};
  static const llvm::StringMap<Rule> rules = {
      {"mm", {countProduct}},
      {"bmm", {countProduct}},
      {"mv", {countProduct}},
      {"dot", {countProduct}},
      {"_grouped_mm", {countProduct}},
      {"addmm", {countProduct, 1}},
      {"addmv", {countProduct, 1}},
      {"baddbmm", {countProduct, 1}},
      {"linear", {countLinear}},
      {"_scaled_dot_product_flash_attention", {countAttention, 0, 4}},
      {"_scaled_dot_product_flash_attention_for_cpu", {countAttention, 0, 4}},
      {"_scaled_dot_product_efficient_attention", {countAttention, 0, 6}},
      {"_scaled_dot_product_cudnn_attention", {countAttention, 0, 6}},
      {"_scaled_dot_product_fused_attention_overrideable", {countAttention, 0, 5}},
      {"_scaled_dot_product_fused_attention_overrideable_backward",
       {countAttentionBackward, 1, 13}},
      {"_scaled_dot_product_flash_attention_backward", {countAttentionBackward, 1, 11}},
      {"_scaled_dot_product_flash_attention_for_cpu_backward", {countAttentionBackward, 1, 7}},
      {"_scaled_dot_product_efficient_attention_backward", {countAttentionBackward, 1, 11}},
      {"_scaled_dot_product_cudnn_attention_backward", {countAttentionBackward, 1, 14}},
      {"convolution", {countConvolution, 0, 0, 6}},
      {"convolution_overrideable", {countConvolution, 0, 0, 6}},
      {"convolution_backward", {countConvolutionBackward, 0, 10, 7}},
      {"convolution_backward_overrideable", {countConvolutionBackward, 0, 9, 6}},
      {"embedding", {countLookup}},
      {"gather", {countLookup}},
      {"index", {countLookup}},
      {"_unsafe_index", {countLookup}},
      {"index_select", {countLookup}},
      {"take", {countLookup}},
      {"embedding_dense_backward", {countLookupBackward}},
      {"empty", {countNothing}},
      {"empty_like", {countNothing}},
      {"empty_strided", {countNothing}},
      {"new_empty", {countNothing}},
      {"new_empty_strided", {countNothing}},
      {"zeros_like", {countFill}},
      {"ones_like", {countFill}},
      {"full_like", {countFill}},
      {"rand_like", {countFill}},
      {"randn_like", {countFill}},
      {"randint_like", {countFill}},
      {"new_zeros", {countFill}},
      {"new_ones", {countFill}},
      {"new_full", {countFill}},
  };
  auto found = rules.find(baseName);
  return found == rules.end() ? other : found->second;
}

OperatorWork fsdp::cost::countWork(aten::CallOp op) {
  const Rule &rule = op.isView() ? Rule{countNothing} : lookupRule(op.getBaseName());
  Call call(op);
  return rule.count(call, rule);
}
