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

/// A call with accessors for the rules: operands and arguments by their positions in the schema.
class Call {
public:
  explicit Call(aten::CallOp call) : call(call) {}

  size_t numOperands() { return call.getNumOperands(); }
  size_t numResults() { return call.getNumResults(); }
  RankedTensorType operand(unsigned i) {
    return cast<RankedTensorType>(call.getOperand(i).getType());
  }
  /// Null if the result is no tensor.
  RankedTensorType result(unsigned i) {
    return dyn_cast<RankedTensorType>(call.getResult(i).getType());
  }
  bool flag(unsigned argument) {
    auto value = argument < call.getArgs().size() ? dyn_cast<BoolAttr>(call.getArgs()[argument])
                                                  : BoolAttr();
    return value && value.getValue();
  }
  /// An element of a list of booleans; `otherwise` if it is absent.
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

/// The table's entry for an operator. Its function gives the three numbers their meaning.
struct Rule {
  OperatorWork (*count)(Call &call, const Rule &rule);
  unsigned first = 0;  // operand: the first factor, the query, the gradient, the table; or passes
  unsigned second = 0; // argument: whether attention is causal; which gradients are requested
  unsigned third = 0;  // argument: whether the convolution is transposed
};

} // namespace

static double product(ArrayRef<int64_t> sizes) {
  double result = 1;
  for (int64_t size : sizes)
    result *= static_cast<double>(size);
  return result;
}

/// [..., m, k] x [..., k, n]: operands `first` and the next one; operands before them are added.
/// Grouped: each row of [m, k] is multiplied by one matrix of [e, k, n], or the groups divide k.
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

/// The operations of attention's products, `keyProducts` over the head size of keys and
/// `valueProducts` over that of values. Source: Dao, FlashAttention-2 (arXiv 2307.08691), section
/// 4.1: two products forward, five backward (scores are recomputed); a causal mask halves them.
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
  return {Arithmetic::AttentionBackward, attentionFlops(call, rule, 3, 2), call.bytes(),
          call.operand(rule.first).getElementType()};
}

/// Every element of the output (of a transposed convolution: the input) is multiplied by all
/// weights of one of its channels.
static double convolutionFlops(RankedTensorType outer, RankedTensorType weight) {
  return 2 * product(outer.getShape()) * product(weight.getShape().drop_front());
}

static OperatorWork countConvolution(Call &call, const Rule &rule) {
  RankedTensorType outer = call.flag(rule.third) ? call.operand(0) : call.result(0);
  return {Arithmetic::MatrixProduct, convolutionFlops(outer, call.operand(1)), call.bytes(),
          call.operand(0).getElementType()};
}

/// Operands: gradient of the output, input, weight. The same work for each requested gradient.
static OperatorWork countConvolutionBackward(Call &call, const Rule &rule) {
  RankedTensorType outer = call.flag(rule.third) ? call.operand(1) : call.operand(0);
  int gradients = call.flagOf(rule.second, 0, true) + call.flagOf(rule.second, 1, true);
  return {Arithmetic::MatrixProduct, gradients * convolutionFlops(outer, call.operand(2)),
          call.bytes(), outer.getElementType()};
}

/// Reads as many bytes of the table (operand `first`) as it returns.
static OperatorWork countLookup(Call &call, const Rule &rule) {
  int64_t bytes = call.bytes() - getMovedBytes(call.operand(rule.first)) + call.resultBytes();
  OperatorWork work{Arithmetic::None, 0, bytes, Type()};
  work.singleElements = product(call.result(0).getShape());
  return work;
}

/// Zeroes the result, then adds each row of the gradient (operand `first`) to the table's row. GPUs
/// sort the indices and make two passes over sums in fp32.
static OperatorWork countLookupBackward(Call &call, const Rule &rule) {
  int64_t bytes = call.bytes() + 2 * getMovedBytes(call.operand(rule.first));
  OperatorWork work{Arithmetic::None, 0, bytes, Type()};
  work.singleElements = 7 * product(call.operand(rule.first).getShape());
  return work;
}

/// Reads one element of each row of the operand.
static OperatorWork countPick(Call &call, const Rule &) {
  RankedTensorType from = call.operand(0);
  int64_t rowBytes =
      from.getRank() == 0 ? 0 : from.getShape().back() * getElementBytes(from.getElementType());
  int64_t bytes = call.bytes() - getMovedBytes(from);
  if (rowBytes > 0)
    bytes += getMovedBytes(from) / rowBytes * getElementBytes(from.getElementType());
  return {Arithmetic::None, 0, bytes, Type()};
}

/// Reads operands and writes results, in `first` passes over rows.
static OperatorWork countRows(Call &call, const Rule &rule) {
  OperatorWork work{Arithmetic::None, 0, call.bytes(), Type()};
  RankedTensorType rows = call.operand(0);
  if (rows.getRank() > 0)
    work.rowBytes = rows.getShape().back() * getElementBytes(rows.getElementType());
  work.rereadBytes = (rule.first - 1) * (call.bytes() - call.resultBytes());
  return work;
}

/// Writes without reading the operands, or reads only one element per row.
static OperatorWork countFill(Call &call, const Rule &) {
  return {Arithmetic::None, 0, call.resultBytes(), Type()};
}

static OperatorWork countNothing(Call &, const Rule &) {
  OperatorWork work;
  work.runsNothing = true;
  return work;
}

/// True if both have their elements in the same order without gaps.
static bool haveOneLayout(RankedTensorType left, RankedTensorType right) {
  if (left.getShape() != right.getShape())
    return false;
  SmallVector<int64_t, 4> leftStrides = getTensorLayout(left).strides,
                          rightStrides = getTensorLayout(right).strides;
  return llvm::all_of(llvm::enumerate(left.getShape()), [&](auto size) {
    return size.value() == 1 || leftStrides[size.index()] == rightStrides[size.index()];
  });
}

static bool doesBroadcast(RankedTensorType from, RankedTensorType to) {
  if (from.getRank() > to.getRank())
    return false;
  return llvm::all_of(llvm::zip_equal(from.getShape(), to.getShape().take_back(from.getRank())),
                      [](auto sizes) {
                        return std::get<0>(sizes) == 1 || std::get<0>(sizes) == std::get<1>(sizes);
                      });
}

/// True if torch's elementwise kernel loads whole vectors: all tensors have one layout and need no
/// conversion, except from f32 to 16 bits, which has a vectorized kernel.
static bool isVectorized(Call &call, RankedTensorType result) {
  bool hasOneLayout = true, converts = false, narrows = true;
  for (unsigned i = 0; i < call.numOperands(); ++i) {
    RankedTensorType operand = call.operand(i);
    hasOneLayout &= haveOneLayout(operand, result);
    Type from = operand.getElementType(), to = result.getElementType();
    converts |= isa<FloatType>(from) && isa<FloatType>(to) && from != to;
    narrows &= from.isF32() && (to.isBF16() || to.isF16());
  }
  return hasOneLayout && (!converts || (narrows && call.numOperands() == 1));
}

/// Contiguous operands are copied by vectors; otherwise each element's operand is searched.
static OperatorWork countConcatenation(Call &call, const Rule &) {
  OperatorWork work{Arithmetic::None, 0, call.bytes(), Type()};
  for (unsigned i = 0; i < call.numOperands(); ++i)
    if (!isContiguous(call.operand(i)))
      work.singleElements = 1.4 * product(call.result(0).getShape());
  return work;
}

/// The kind of an operator with one result, from its shapes.
enum class Shapes : uint8_t { Elementwise, Reduction, Other };

static double largestOperand(Call &call) {
  double largest = 0;
  for (unsigned i = 0; i < call.numOperands(); ++i)
    largest = std::max(largest, product(call.operand(i).getShape()));
  return largest;
}

static Shapes classify(Call &call) {
  RankedTensorType result = call.numResults() == 1 ? call.result(0) : RankedTensorType();
  if (!result)
    return Shapes::Other;
  bool isElementwise = true;
  for (unsigned i = 0; i < call.numOperands(); ++i)
    isElementwise &= doesBroadcast(call.operand(i), result);
  if (isElementwise)
    return Shapes::Elementwise;
  return largestOperand(call) > product(result.getShape()) ? Shapes::Reduction : Shapes::Other;
}

static OperatorWork countMoves(Call &call, const Rule &) {
  OperatorWork work{Arithmetic::None, 0, call.bytes(), Type()};
  const Shapes shapes = classify(call);
  if (shapes == Shapes::Elementwise && !isVectorized(call, call.result(0)))
    work.singleElements = product(call.result(0).getShape());
  else if (shapes == Shapes::Reduction)
    work.singleElements = largestOperand(call) / 2;
  return work;
}

/// The table. Positions are those of torch 2.11's schemas (native_functions.yaml).
static const Rule &lookupRule(StringRef baseName) {
  static const Rule other{countMoves};
  static const llvm::StringMap<Rule> rules = {
      {"mm", {countProduct}},
      {"bmm", {countProduct}},
      {"mv", {countProduct}},
      {"dot", {countProduct}},
      {"_grouped_mm", {countProduct}},
      {"_scaled_mm", {countProduct}},
      {"_int_mm", {countProduct}},
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
      {"cat", {countConcatenation}},
      {"nll_loss_forward", {countPick}},
      {"nll_loss_backward", {countFill}},
      {"_log_softmax", {countRows, 3}},
      {"_softmax", {countRows, 3}},
      {"_log_softmax_backward_data", {countRows, 2}},
      {"_softmax_backward_data", {countRows, 2}},
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

/// The number of row reductions in a call of a kernel's body.
static unsigned countReductions(aten::CallOp op) {
  if (op.isView())
    return 0;
  const Rule &rule = lookupRule(op.getBaseName());
  if (rule.count == countRows)
    return rule.first - 1;
  Call call(op);
  return rule.count == countMoves && classify(call) == Shapes::Reduction;
}

OperatorWork fsdp::cost::countWork(LaunchOp launch) {
  OperatorWork work{Arithmetic::None, 0, getMovedBytes(launch), Type()};
  unsigned reads = 0;
  for (auto call : launch.getDeclaration().getBody().front().getOps<aten::CallOp>())
    reads += countReductions(call);
  RankedTensorType rows;
  for (Type type : launch.getOperandTypes())
    if (auto tensor = cast<RankedTensorType>(type);
        !rows || product(tensor.getShape()) > product(rows.getShape()))
      rows = tensor;
  if (!rows || rows.getRank() == 0)
    return work;
  // Stored results of whole rows are computed in a further pass after the reductions.
  auto hasRows = [&](Type type) {
    return cast<RankedTensorType>(type).getShape() == rows.getShape();
  };
  reads += llvm::any_of(launch.getResultTypes(), hasRows);
  work.rowBytes = rows.getShape().back() * getElementBytes(rows.getElementType());
  for (Type type : launch.getOperandTypes())
    if (reads > 1 && hasRows(type))
      work.rereadBytes += (reads - 1) * getMovedBytes(cast<RankedTensorType>(type));
  return work;
}
