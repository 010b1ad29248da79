//===- BatchInputs.cpp - What batches of data can be ----------------------===//

#include "fsdp/Export/BatchInputs.h"

#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;

static std::string describeSizes(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(type.getShape(), os << '[');
  os << ']';
  return text;
}

LogicalResult fsdp::checkBatchInputs(ModuleOp step) {
  InputOp first; // of those that may count samples
  SmallVector<InputOp> inputs;
  step.walk([&](InputOp input) {
    auto type = dyn_cast<RankedTensorType>(input.getType());
    if (!type || input.getMicrobatch() != 0)
      return;
    inputs.push_back(input);
    if (!first && type.getRank() > 0)
      first = input;
  });
  auto getType = [](InputOp input) { return cast<RankedTensorType>(input.getType()); };
  for (InputOp input : inputs) {
    const RankedTensorType type = getType(input);
    const bool hasSamples = type.getRank() > 0;
    if (hasSamples && type.getDimSize(0) == 0)
      return input.emitError("input '")
             << input.getName() << "' is " << describeSizes(type) << ", which holds no sample";
    if (!isContiguous(type))
      return input.emitError("input '")
             << input.getName() << "' of " << describeSizes(type)
             << " is not contiguous, as data is: export the model with its .contiguous()";
    if (hasSamples && type.getDimSize(0) == getType(first).getDimSize(0))
      continue;
    InFlightDiagnostic error = input.emitError("input '");
    error << input.getName() << "' is " << describeSizes(type);
    if (first)
      error << " beside input '" << first.getName() << "' of " << describeSizes(getType(first));
    return error
           << ": the first dimension of all inputs counts the samples of a batch. Make a tensor "
              "that is the same for all batches a buffer of the model "
              "(register_buffer(..., persistent=False)), and give several rows of one sample a "
              "dimension after the first";
  }
  return success();
}
