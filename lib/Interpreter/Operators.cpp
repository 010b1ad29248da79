//===- Operators.cpp - Calls of torch's operators -------------------------===//

#include "Operators.h"

#include "Arguments.h"
#include "fsdp/Frontend/Operators.h"
#include "fsdp/IR/TensorLayout.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <stdexcept>

using namespace mlir;
using namespace fsdp;

/// Products with a result dtype, which torch only has for CUDA.
TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("mm.dtype", [](const at::Tensor &left, const at::Tensor &right, at::ScalarType out) {
    return at::mm(left.to(out), right.to(out));
  });
  library.impl("bmm.dtype",
               [](const at::Tensor &left, const at::Tensor &right, at::ScalarType out) {
                 return at::bmm(left.to(out), right.to(out));
               });
}

at::Tensor fsdp::interpreter::makeLossScale(OptimizerOp optimizer) {
  std::optional<APFloat> scale = optimizer ? optimizer.getLossScale() : std::nullopt;
  if (!scale)
    throw std::runtime_error("the loss is scaled, but the optimizer has no 'loss_scale'");
  return at::full({}, static_cast<float>(scale->convertToDouble()), at::kFloat);
}

std::string fsdp::interpreter::getInputName(InputOp input) {
  std::string name = input.getName().str();
  return input.getMicrobatch() == 0 ? name : name + '@' + std::to_string(input.getMicrobatch());
}

at::Tensor fsdp::interpreter::findTensor(const std::map<std::string, at::Tensor> &tensors,
                                         const char *what, StringRef name) {
  auto found = tensors.find(name.str());
  if (found == tensors.end())
    throw std::runtime_error(std::string("no ") + what + " '" + name.str() + "'");
  return found->second.detach();
}

void fsdp::interpreter::checkTensor(RankedTensorType type, const at::Tensor &tensor, StringRef op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto list = [&](ArrayRef<int64_t> numbers) {
    os << '[';
    llvm::interleaveComma(numbers, os);
    os << ']';
  };
  TensorLayout layout = getTensorLayout(type);
  bool sameLayout = tensor.numel() == 0 || (tensor.strides() == at::IntArrayRef(layout.strides) &&
                                            tensor.storage_offset() == layout.offset);
  if (tensor.sizes() == at::IntArrayRef(type.getShape()) && sameLayout &&
      tensor.scalar_type() == convertElementType(type.getElementType()))
    return;
  os << "'" << op << "' yields " << toString(tensor.scalar_type()) << " of sizes ";
  list({tensor.sizes().data(), tensor.sizes().size()});
  os << ", strides ";
  list({tensor.strides().data(), tensor.strides().size()});
  os << ", offset " << tensor.storage_offset() << ", but its type is " << type;
  throw std::runtime_error(text);
}

at::Tensor fsdp::interpreter::makeConstant(aten::ConstantOp constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  auto dense = cast<DenseElementsAttr>(constant.getValue());
  at::TensorOptions options(convertElementType(type.getElementType()));
  // MLIR packs the elements of an i1 literal into bits.
  if (type.getElementType().isInteger(1)) {
    at::Tensor data = at::empty(type.getShape(), options);
    llvm::copy(dense.getValues<bool>(), data.mutable_data_ptr<bool>());
    checkTensor(type, data, constant->getName().getStringRef());
    return data;
  }
  ArrayRef<char> raw = dense.getRawData();
  // A splat stores its element once.
  SmallVector<int64_t> strides = llvm::to_vector(getTensorLayout(type).strides);
  if (dense.isSplat())
    strides.assign(strides.size(), 0);
  at::Tensor data =
      at::from_blob(const_cast<char *>(raw.data()), type.getShape(), strides, options);
  at::Tensor tensor = data.clone(at::MemoryFormat::Contiguous);
  checkTensor(type, tensor, constant->getName().getStringRef());
  return tensor;
}

static void checkAliasing(aten::CallOp call, ArrayRef<at::Tensor> operands,
                          const at::Tensor &tensor) {
  if (tensor.numel() == 0)
    return;
  bool isView = !operands.empty() && tensor.is_alias_of(operands.front());
  bool isAlias = llvm::any_of(operands, [&](const at::Tensor &o) { return tensor.is_alias_of(o); });
  if (isView != call.isView() || isAlias != isView)
    throw std::runtime_error(
        "'" + call.getCallee().str() + "' " +
        (isAlias ? "shares the storage of an operand" : "shares no storage of its first operand") +
        ", against the table of operators");
}

static bool hasStridesOf(RankedTensorType type, const at::Tensor &tensor) {
  return tensor.numel() == 0 || tensor.sizes() != at::IntArrayRef(type.getShape()) ||
         tensor.strides() == at::IntArrayRef(getTensorLayout(type).strides);
}

SmallVector<at::Tensor> fsdp::interpreter::callOperator(aten::CallOp call,
                                                        ArrayRef<at::Tensor> operands,
                                                        std::vector<std::string> *relaid) {
  registerOperators();
  auto [base, overload] = call.getCallee().rsplit('.');
  std::string name = base.contains("::") ? base.str() : "aten::" + base.str();
  auto op =
      c10::Dispatcher::singleton().findSchema({name, overload == "default" ? "" : overload.str()});
  if (!op)
    throw std::runtime_error("unknown operator '" + call.getCallee().str() + "'");
  ArrayRef<at::Tensor> rest = operands;
  torch::jit::Stack stack;
  for (auto [attribute, formal] : llvm::zip_equal(call.getArgs(), op->schema().arguments()))
    stack.push_back(makeArgument(attribute, formal, rest));
  at::AutoGradMode gradMode(!base.ends_with("_backward")); // as in eager training
  op->callBoxed(&stack);

  SmallVector<at::Tensor> results;
  if (stack.size() == 1 && stack[0].isTensorList()) {
    for (const at::Tensor &tensor : stack[0].toTensorList())
      results.push_back(tensor);
  } else {
    for (const c10::IValue &value : stack)
      results.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
  }
  if (results.size() != call.getNumResults())
    throw std::runtime_error("'" + call.getCallee().str() + "' yields " +
                             std::to_string(results.size()) + " values, but has " +
                             std::to_string(call.getNumResults()) + " results");
  for (auto &&[value, tensor] : llvm::zip_equal(call.getResults(), results)) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (static_cast<bool>(type) != tensor.defined())
      throw std::runtime_error("'" + call.getCallee().str() + "' yields " +
                               (type ? "no tensor" : "a tensor") + " against its type");
    if (!type)
      continue;
    if (!call.isView() && !hasStridesOf(type, tensor)) {
      if (relaid)
        relaid->push_back(call.getCallee().str());
      TensorLayout layout = getTensorLayout(type);
      tensor = at::empty_strided(tensor.sizes(), layout.strides, tensor.options()).copy_(tensor);
    }
    checkTensor(type, tensor, call.getCallee());
    checkAliasing(call, operands, tensor);
  }
  return results;
}

void fsdp::interpreter::seedGenerator(uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(seed);
}
