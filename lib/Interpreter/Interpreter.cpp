//===- Interpreter.cpp - Evaluates a captured step on real tensors --------===//

#include "fsdp/Interpreter/Interpreter.h"

#include "Operators.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::interpreter;

namespace {

class Interpreter {
public:
  Interpreter(const NamedTensors &state, const NamedTensors &inputs, const DrawSeed &seed)
      : state(state), inputs(inputs), seed(seed) {}

  StepValues run(func::FuncOp function) {
    at::AutoDispatchBelowADInplaceOrView belowAutograd;
    for (Operation &op : function.getBody().front()) {
      TypeSwitch<Operation *>(&op)
          .Case([&](InputOp input) {
            if (isa<RankedTensorType>(input.getType()))
              set(input.getResult(), findTensor(inputs, "input", getInputName(input)));
          })
          .Case([&](LossScaleOp scale) {
            auto optimizers = op.getParentOfType<ModuleOp>().getOps<OptimizerOp>();
            set(scale.getResult(),
                makeLossScale(optimizers.empty() ? OptimizerOp() : *optimizers.begin()));
          })
          .Case([&](ReadOp read) {
            set(read.getResult(), findTensor(state, "parameter or buffer", read.getSource()));
          })
          .Case([&](aten::ConstantOp constant) {
            values[constant.getResult()] = makeConstant(constant);
          })
          .Case([&](aten::CallOp call) { runCall(call); })
          .Case([&](GradOp grad) {
            at::Tensor &known = result.gradients[grad.getParam().str()];
            at::Tensor gradient = values.lookup(grad.getValue());
            known = known.defined() ? at::add(known, gradient) : gradient;
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
  void set(mlir::Value value, const at::Tensor &tensor) {
    checkTensor(cast<RankedTensorType>(value.getType()), tensor,
                value.getDefiningOp()->getName().getStringRef());
    values[value] = tensor;
  }

  void runCall(aten::CallOp call) {
    SmallVector<at::Tensor> operands;
    for (mlir::Value operand : call.getOperands())
      operands.push_back(values.lookup(operand));
    if (seed && call.getRng())
      seedGenerator(seed(*call.getRng()));
    for (auto [value, tensor] :
         llvm::zip_equal(call.getResults(), callOperator(call, operands, &result.relaid)))
      values[value] = tensor;
  }

  const NamedTensors &state, &inputs;
  const DrawSeed &seed;
  llvm::DenseMap<mlir::Value, at::Tensor> values;
  StepValues result;
};

} // namespace

llvm::Expected<StepValues> fsdp::interpreter::interpretStep(ModuleOp module,
                                                            const NamedTensors &state,
                                                            const NamedTensors &inputs,
                                                            const DrawSeed &seed) {
  auto functions = module.getOps<func::FuncOp>();
  if (!llvm::hasSingleElement(functions))
    return llvm::createStringError("the module has not one function, the step");
  func::FuncOp function = *functions.begin();
  try {
    return Interpreter(state, inputs, seed).run(function);
  } catch (const std::exception &exception) {
    return llvm::createStringError(exception.what());
  }
}
