//===- LowerCall.cpp - Operator calls of a plan ---------------------------===//

#include "Lowering.h"
#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

fsdp_entry &Lowering::addCall(fsdp_phase phase, StringRef callee, StringRef overload,
                              ArrayRef<fsdp_argument> arguments, ArrayRef<int64_t> results,
                              StringRef module, Location location) {
  std::vector<fsdp_argument> &table = builder.tables.arguments;
  const uint32_t firstArgument = table.size();
  llvm::append_range(table, arguments);
  const uint32_t firstResult = builder.addIntegers(results);
  fsdp_entry &entry = builder.addEntry(FSDP_CALL, phase);
  entry.callee = builder.addString(callee);
  entry.overload = builder.addString(overload);
  entry.first_argument = firstArgument;
  entry.num_arguments = arguments.size();
  entry.first_result = firstResult;
  entry.num_results = results.size();
  entry.rng = -1;
  entry.module = builder.addString(module);
  entry.location = builder.addLocation(location);
  return entry;
}

LogicalResult Lowering::lower(aten::CallOp call) {
  bool isView = call.isView();
  SmallVector<int64_t> results;
  for (auto [i, value] : llvm::enumerate(call.getResults())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type) {
      results.push_back(-1);
      continue;
    }
    int64_t base = 0; // any offset will do for an empty tensor
    if (isView) {
      base = baseOf.lookup(call.getOperand(0));
    } else if (getStorageBytes(type) != 0) {
      FailureOr<int64_t> offset = getOffset(
          call, call.getOffsets() ? std::optional((*call.getOffsets())[i]) : std::nullopt);
      if (failed(offset))
        return failure();
      base = *offset;
    }
    if (failed(define(value, base)))
      return failure();
    results.push_back(valueOf[value]);
  }

  if (failed(checkAssumedRanks(call, declared.getWorldSize(), "S9")))
    return failure();
  if (std::optional<ModelCollective> collective = getModelCollective(call)) {
    lowerModelCollective(call, *collective);
    return success();
  }
  if (isOwnPart(call)) {
    lowerOwnPart(call);
    return success();
  }
  SmallVector<fsdp_argument> arguments;
  OperandRange::iterator operand = call.getOperands().begin();
  for (Attribute argument : call.getArgs())
    if (failed(lowerArgument(call, argument, operand, arguments.emplace_back())))
      return failure();

  // `mm.default` is the unnamed overload of aten's mm; another namespace is spelled out.
  auto [base, overload] = call.getCallee().split('.');
  std::string name = base.contains("::") ? base.str() : ("aten::" + base).str();
  fsdp_entry &entry =
      addCall(getPlanPhase(call.getPhase()), name, overload == "default" ? "" : overload, arguments,
              results, call.getModule(), call.getLoc());
  if (isView)
    entry.kind = FSDP_VIEW;
  entry.rng = call.getRng().value_or(-1);
  return success();
}

LogicalResult Lowering::lowerArgument(aten::CallOp call, Attribute argument,
                                      OperandRange::iterator &operand, fsdp_argument &lowered) {
  return llvm::TypeSwitch<Attribute, LogicalResult>(argument)
      .Case([&](aten::OperandAttr) {
        lowered.kind = FSDP_ARG_VALUE;
        lowered.index = valueOf.lookup(*operand++);
        return success();
      })
      .Case([&](BoolAttr boolean) {
        lowered.kind = FSDP_ARG_BOOL;
        lowered.payload.integer = boolean.getValue();
        return success();
      })
      .Case([&](UnitAttr) {
        lowered.kind = FSDP_ARG_NONE;
        return success();
      })
      .Case([&](IntegerAttr integer) {
        lowered.kind = FSDP_ARG_INT;
        lowered.payload.integer = integer.getInt();
        return success();
      })
      .Case([&](FloatAttr real) {
        lowered.kind = FSDP_ARG_FLOAT;
        lowered.payload.real = real.getValueAsDouble();
        return success();
      })
      .Case([&](StringAttr text) {
        lowered.kind = FSDP_ARG_STRING;
        lowered.index = builder.addString(text);
        return success();
      })
      .Case([&](TypeAttr type) -> LogicalResult {
        std::optional<fsdp_dtype> dtype = getPlanDType(type.getValue());
        if (!dtype)
          return call.emitOpError("'") << call.getCallee() << "' takes dtype " << type.getValue()
                                       << ", which plans cannot hold";
        lowered.kind = FSDP_ARG_DTYPE;
        lowered.payload.integer = *dtype;
        return success();
      })
      .Case([&](aten::DeviceAttr) {
        lowered.kind = FSDP_ARG_DEVICE;
        return success();
      })
      .Case([&](aten::MemoryFormatAttr format) {
        lowered.kind = FSDP_ARG_MEMORY_FORMAT;
        lowered.payload.integer = static_cast<int64_t>(format.getValue());
        return success();
      })
      .Case([&](aten::StridedAttr) {
        lowered.kind = FSDP_ARG_LAYOUT;
        return success();
      })
      .Default([&](Attribute list) { return lowerList(call, list, operand, lowered); });
}

LogicalResult Lowering::lowerList(aten::CallOp call, Attribute list,
                                  OperandRange::iterator &operand, fsdp_argument &lowered) {
  SmallVector<int64_t> numbers;
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(list)) {
    lowered.kind = FSDP_ARG_INT_LIST;
    numbers.assign(integers.asArrayRef().begin(), integers.asArrayRef().end());
  } else if (auto reals = dyn_cast<DenseF64ArrayAttr>(list)) {
    lowered.kind = FSDP_ARG_FLOAT_LIST;
    for (double real : reals.asArrayRef())
      numbers.push_back(llvm::bit_cast<int64_t>(real));
  } else if (auto booleans = dyn_cast<DenseBoolArrayAttr>(list)) {
    lowered.kind = FSDP_ARG_BOOL_LIST;
    for (bool boolean : booleans.asArrayRef())
      numbers.push_back(boolean);
  } else if (auto elements = dyn_cast<ArrayAttr>(list)) {
    // Only the schema tells the element type of an empty list; an empty list of integers represents
    // all of them.
    lowered.kind = elements.empty() ? FSDP_ARG_INT_LIST : FSDP_ARG_VALUE_LIST;
    for (Attribute element : elements) {
      if (isa<aten::OperandAttr>(element))
        numbers.push_back(valueOf.lookup(*operand++));
      else if (isa<UnitAttr>(element))
        numbers.push_back(-1);
      else
        return call.emitOpError("'") << call.getCallee() << "' has a list that holds " << element
                                     << ", expected tensors or numbers of one kind";
    }
  } else {
    return call.emitOpError("'") << call.getCallee() << "' has the argument " << list
                                 << ", which plans cannot hold";
  }
  lowered.index = builder.addIntegers(numbers);
  lowered.count = numbers.size();
  return success();
}
