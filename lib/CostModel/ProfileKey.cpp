//===- ProfileKey.cpp - Keys of calls and kernels in profiles -------------===//

#include "fsdp/CostModel/Profile.h"
#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::cost;

template <typename Range, typename Each>
static void printList(llvm::raw_ostream &os, const Range &range, Each each) {
  os << '[';
  llvm::interleaveComma(range, os, each);
  os << ']';
}

/// `printOperand` is called for operands.
static void printArgument(llvm::raw_ostream &os, Attribute argument,
                          llvm::function_ref<void()> printOperand) {
  if (isa<aten::OperandAttr>(argument))
    printOperand();
  else if (isa<UnitAttr>(argument))
    os << "none";
  else if (auto list = dyn_cast<DenseI64ArrayAttr>(argument))
    printList(os, list.asArrayRef(), [&](int64_t value) { os << value; });
  else if (auto reals = dyn_cast<DenseF64ArrayAttr>(argument))
    printList(os, reals.asArrayRef(), [&](double value) { os << llvm::format("%.17g", value); });
  else if (auto flags = dyn_cast<DenseBoolArrayAttr>(argument))
    printList(os, flags.asArrayRef(), [&](bool value) { os << (value ? "true" : "false"); });
  else if (auto elements = dyn_cast<ArrayAttr>(argument))
    printList(os, elements, [&](Attribute element) { printArgument(os, element, printOperand); });
  else if (auto boolean = dyn_cast<BoolAttr>(argument))
    os << (boolean.getValue() ? "true" : "false");
  else if (auto integer = dyn_cast<IntegerAttr>(argument))
    os << integer.getInt();
  else if (auto real = dyn_cast<FloatAttr>(argument))
    os << llvm::format("%.17g", real.getValueAsDouble());
  else
    argument.print(os, /*elideType=*/true);
}

static ProfiledTensor describeTensor(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  ProfiledTensor tensor;
  llvm::raw_string_ostream(tensor.dtype) << type.getElementType();
  tensor.shape = type.getShape().vec();
  if (!isContiguous(type)) {
    TensorLayout layout = getTensorLayout(type);
    tensor.strides.assign(layout.strides.begin(), layout.strides.end());
  }
  return tensor;
}

ProfileKey ProfileKey::of(aten::CallOp call) {
  ProfileKey key;
  auto [base, overload] = call.getCallee().rsplit('.');
  key.op = base.str();
  key.overload = overload.str();
  llvm::append_range(key.operands, llvm::map_range(call.getOperands(), describeTensor));
  for (Attribute argument : call.getArgs()) {
    llvm::raw_string_ostream os(key.arguments.emplace_back());
    printArgument(os, argument, [&] { os << '%'; });
  }
  return key;
}

KernelKey KernelKey::of(KernelOp kernel) {
  KernelKey key;
  key.rounding = kernel.getRounding();
  llvm::DenseMap<Value, unsigned> numbers;
  auto number = [&](Value value) {
    return "%" + std::to_string(numbers.try_emplace(value, numbers.size()).first->second);
  };
  Block &body = kernel.getBody().front();
  for (Value operand : body.getArguments()) {
    (void)number(operand);
    key.operands.push_back(describeTensor(operand));
  }
  for (auto call : body.getOps<aten::CallOp>()) {
    llvm::raw_string_ostream os(key.body.emplace_back());
    // Operands have numbers already, so results get the next ones.
    llvm::interleaveComma(call.getResults(), os, [&](Value result) { os << number(result); });
    os << " = " << call.getCallee() << '(';
    auto operand = call.operand_begin();
    llvm::interleaveComma(call.getArgs(), os, [&](Attribute argument) {
      printArgument(os, argument, [&] { os << number(*operand++); });
    });
    os << ')';
  }
  llvm::raw_string_ostream os(key.body.emplace_back("yield "));
  llvm::interleaveComma(kernel.getYielded(), os, [&](Value result) { os << number(result); });
  llvm::append_range(key.results, llvm::map_range(kernel.getYielded(), describeTensor));
  return key;
}

static void printTensors(llvm::raw_ostream &os, llvm::ArrayRef<ProfiledTensor> tensors) {
  auto printNumber = [&](int64_t number) { os << number; };
  llvm::interleaveComma(tensors, os, [&](const ProfiledTensor &tensor) {
    os << tensor.dtype << '[';
    llvm::interleave(tensor.shape, os, printNumber, ",");
    os << ']';
    if (tensor.strides.empty())
      return;
    os << '{';
    llvm::interleave(tensor.strides, os, printNumber, ",");
    os << '}';
  });
}

std::string ProfileKey::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << op << '.' << overload << '(' << llvm::join(arguments, ", ") << ") : ";
  printTensors(os, operands);
  return text;
}

std::string KernelKey::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << stringifyRounding(rounding) << '(';
  printTensors(os, operands);
  os << ") -> ";
  printTensors(os, results);
  os << " { " << llvm::join(body, "; ") << " }";
  return text;
}
