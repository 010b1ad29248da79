//===- Interpreter.cpp - Evaluates a captured step on real tensors --------===//

#include "fsdp/Interpreter/Interpreter.h"

#include "Arguments.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/TensorLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::interpreter;

namespace {

class Interpreter {
public:
  Interpreter(const NamedTensors &state, const NamedTensors &inputs)
      : state(state), inputs(inputs) {}

  StepValues run(func::FuncOp function) {
    at::AutoDispatchBelowADInplaceOrView belowAutograd;
    for (Operation &op : function.getBody().front()) {
      TypeSwitch<Operation *>(&op)
          .Case([&](InputOp input) {
            if (isa<RankedTensorType>(input.getType()))
              set(input.getResult(), find(inputs, "input", input.getName()));
          })
          .Case([&](ReadOp read) {
            set(read.getResult(), find(state, "parameter or buffer", read.getSource()));
          })
          .Case([&](aten::ConstantOp constant) { runConstant(constant); })
          .Case([&](aten::CallOp call) { runCall(call); })
          .Case([&](GradOp grad) {
            result.gradients[grad.getParam().str()] = values.lookup(grad.getValue());
          })
          .Case([&](WriteOp write) {
            result.buffers[write.getBuffer().str()] = values.lookup(write.getValue());
          })
          .Case([&](func::ReturnOp ret) { result.loss = values.lookup(ret.getOperand(0)); })
          .Case([&](UpdateOp) {})
          .Default([&](Operation *other) {
            throw std::runtime_error("operation '" + other->getName().getStringRef().str() +
                                     "' is not part of a captured step");
          });
    }
    return std::move(result);
  }

private:
  static at::Tensor find(const NamedTensors &tensors, const char *what, StringRef name) {
    auto found = tensors.find(name.str());
    if (found == tensors.end())
      throw std::runtime_error(std::string("no ") + what + " '" + name.str() + "'");
    return found->second.detach();
  }

  void set(mlir::Value value, const at::Tensor &tensor) {
    check(cast<RankedTensorType>(value.getType()), tensor, value.getDefiningOp()->getName());
    values[value] = tensor;
  }

  template <typename Name>
  static void check(RankedTensorType type, const at::Tensor &tensor, const Name &op);
  at::Tensor relay(RankedTensorType type, const at::Tensor &tensor, StringRef callee);
  void runConstant(aten::ConstantOp constant);
  void runCall(aten::CallOp call);
  void checkAliasing(aten::CallOp call, ArrayRef<at::Tensor> operands, const at::Tensor &tensor);

  const NamedTensors &state, &inputs;
  llvm::DenseMap<mlir::Value, at::Tensor> values;
  StepValues result;
};

} // namespace

template <typename Name>
void Interpreter::check(RankedTensorType type, const at::Tensor &tensor, const Name &op) {
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

/// As the runtime does: what has other strides than the plan is copied.
at::Tensor Interpreter::relay(RankedTensorType type, const at::Tensor &tensor, StringRef callee) {
  TensorLayout layout = getTensorLayout(type);
  if (tensor.numel() == 0 || tensor.sizes() != at::IntArrayRef(type.getShape()) ||
      tensor.strides() == at::IntArrayRef(layout.strides))
    return tensor;
  result.relaid.push_back(callee.str());
  return at::empty_strided(tensor.sizes(), layout.strides, tensor.options()).copy_(tensor);
}

void Interpreter::runConstant(aten::ConstantOp constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  auto dense = cast<DenseElementsAttr>(constant.getValue());
  at::TensorOptions options(convertElementType(type.getElementType()));
  ArrayRef<char> raw = dense.getRawData();
  // A splat stores its element once.
  SmallVector<int64_t> strides = llvm::to_vector(getTensorLayout(type).strides);
  if (dense.isSplat())
    strides.assign(strides.size(), 0);
  at::Tensor data =
      at::from_blob(const_cast<char *>(raw.data()), type.getShape(), strides, options);
  set(constant.getResult(), data.clone(at::MemoryFormat::Contiguous));
}

void Interpreter::checkAliasing(aten::CallOp call, ArrayRef<at::Tensor> operands,
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

void Interpreter::runCall(aten::CallOp call) {
  auto [base, overload] = call.getCallee().rsplit('.');
  std::string name = base.contains("::") ? base.str() : "aten::" + base.str();
  auto op =
      c10::Dispatcher::singleton().findSchema({name, overload == "default" ? "" : overload.str()});
  if (!op)
    throw std::runtime_error("unknown operator '" + call.getCallee().str() + "'");
  SmallVector<at::Tensor> operands;
  for (mlir::Value operand : call.getOperands())
    operands.push_back(values.lookup(operand));
  ArrayRef<at::Tensor> rest = operands;
  torch::jit::Stack stack;
  for (auto [attribute, formal] : llvm::zip_equal(call.getArgs(), op->schema().arguments()))
    stack.push_back(makeArgument(attribute, formal, rest));
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
  for (auto [value, given] : llvm::zip_equal(call.getResults(), results)) {
    at::Tensor tensor = given;
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (static_cast<bool>(type) != tensor.defined())
      throw std::runtime_error("'" + call.getCallee().str() + "' yields " +
                               (type ? "no tensor" : "a tensor") + " against its type");
    if (!type)
      continue;
    if (!call.isView())
      tensor = relay(type, tensor, call.getCallee());
    check(type, tensor, call.getCallee());
    checkAliasing(call, operands, tensor);
    values[value] = tensor;
  }
}

llvm::Expected<StepValues> fsdp::interpreter::interpretStep(ModuleOp module,
                                                            const NamedTensors &state,
                                                            const NamedTensors &inputs) {
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (!function)
    return llvm::createStringError("the module has no function @step");
  try {
    return Interpreter(state, inputs).run(function);
  } catch (const std::exception &exception) {
    return llvm::createStringError(exception.what());
  }
}
