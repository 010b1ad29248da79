//===- RandomKernel.cpp - Kernels that are drawn --------------------------===//

#include "RandomKernel.h"

#include "KernelDrawer.h"
#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/Rearrangement.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <numeric>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::test;

static at::ScalarType toTorch(Type element) {
  return element.isF32()    ? at::kFloat
         : element.isBF16() ? at::kBFloat16
         : element.isF16()  ? at::kHalf
                            : at::kBool;
}

void KernelDrawer::drawDomain() {
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

/// Sometimes columns are added up, in chunks of rows.
void KernelDrawer::drawChunks() {
  const SmallVector<int64_t> flat = codegen::flattenRows(domain);
  if (rounding != Rounding::Fast || flat[0] < 2 || flat[1] < 2 || !(isFlat || chance(30)))
    return;
  isFlat = true;
  do
    chunkRows = 1 + below(std::min<int64_t>(flat[0], 128));
  while (flat[0] % chunkRows != 0);
}

const KernelDrawer::Known &KernelDrawer::addInput(ArrayRef<int64_t> shape, Type element) {
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
  known.push_back(makeKnown(argument, tensor));
  return known.back();
}

/// Classes of samples.
const KernelDrawer::Known &KernelDrawer::addTarget(ArrayRef<int64_t> shape, int64_t classes) {
  at::Tensor tensor = at::randint(classes, at::IntArrayRef(shape.data(), shape.size()), at::kLong);
  Value argument = result.kernel.getBody().front().addArgument(
      RankedTensorType::get(shape, builder.getI64Type()), builder.getUnknownLoc());
  result.inputs.push_back(tensor);
  known.push_back(makeKnown(argument, tensor));
  return known.back();
}

const KernelDrawer::Known *KernelDrawer::findKnown(ArrayRef<int64_t> shape, Type element) {
  SmallVector<const Known *> found;
  for (const Known &item : known)
    if (auto type = cast<RankedTensorType>(item.value.getType());
        type.getElementType() == element && type.getShape() == shape)
      found.push_back(&item);
  if (found.empty() || chance(20))
    return nullptr;
  return found[found.size() - 1 - below(std::min<size_t>(found.size(), 4))];
}

const KernelDrawer::Known &KernelDrawer::pickWhole(ArrayRef<int64_t> shape, Type element) {
  const Known *found = findKnown(shape, element);
  return found ? *found : addInput(shape, element);
}

const KernelDrawer::Known &KernelDrawer::pick(ArrayRef<int64_t> shape, Type element) {
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

aten::CallOp KernelDrawer::makeCall(StringRef callee, ArrayRef<Attribute> arguments,
                                    ValueRange values, RankedTensorType type) {
  auto scope = aten::ScopeAttr::get(&context, builder.getStringAttr(""), {});
  return aten::CallOp::create(builder, builder.getUnknownLoc(), TypeRange{type}, values,
                              builder.getStringAttr(callee), builder.getArrayAttr(arguments),
                              aten::Phase::Forward, scope, /*rng=*/nullptr, /*offsets=*/nullptr);
}

/// Dense, in some order of the dimensions.
RankedTensorType KernelDrawer::drawLayout(ArrayRef<int64_t> shape, Type element) {
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
bool KernelDrawer::addCall(StringRef callee, ArrayRef<const Known *> operands,
                           ArrayRef<Attribute> arguments, RankedTensorType type) {
  auto values = llvm::map_to_vector(operands, [](const Known *item) { return item->value; });
  aten::CallOp call = makeCall(callee, arguments, values, type);
  const bool isHeld = codegen::isElementwise(call, rounding) ||
                      codegen::isRowReduction(call, rounding) ||
                      codegen::isRowOperator(call, rounding) ||
                      codegen::isColumnSum(call, rounding) || codegen::isRearrangement(call);
  if (!isHeld || (isFlat && !codegen::isKernelView(call) && !codegen::canFlatten(call, rounding))) {
    call.erase();
    return false;
  }
  known.push_back(computeResult(call, operands, rounding));
  ++numCalls;
  return true;
}

RandomKernel KernelDrawer::run() {
  const Type dtypes[] = {builder.getF32Type(), builder.getF32Type(), builder.getBF16Type(),
                         builder.getF16Type()};
  main = dtypes[below(std::size(dtypes))];
  drawDomain();
  isFlat = domain.size() >= 3 && chance(30);
  drawChunks();
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
    else if (chunkRows > 0 && chance(15))
      drawColumnSum();
    else if (isFlat && domain.size() >= 3 && chance(20))
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
           (codegen::isColumnSum(call, rounding) || shape == ArrayRef<int64_t>(domain) ||
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
  return KernelDrawer(context, rounding, random).run();
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
