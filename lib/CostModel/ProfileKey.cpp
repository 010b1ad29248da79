//===- ProfileKey.cpp - What distinguishes calls in a profile --------------===//

#include "fsdp/CostModel/Profile.h"
#include "fsdp/IR/TensorLayout.h"
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

static void printArgument(llvm::raw_ostream &os, Attribute argument) {
  if (isa<aten::OperandAttr>(argument))
    os << '%';
  else if (isa<UnitAttr>(argument))
    os << "none";
  else if (auto list = dyn_cast<DenseI64ArrayAttr>(argument))
    printList(os, list.asArrayRef(), [&](int64_t value) { os << value; });
  else if (auto reals = dyn_cast<DenseF64ArrayAttr>(argument))
    printList(os, reals.asArrayRef(), [&](double value) { os << llvm::format("%.17g", value); });
  else if (auto flags = dyn_cast<DenseBoolArrayAttr>(argument))
    printList(os, flags.asArrayRef(), [&](bool value) { os << (value ? "true" : "false"); });
  else if (auto elements = dyn_cast<ArrayAttr>(argument))
    printList(os, elements, [&](Attribute element) { printArgument(os, element); });
  else if (auto boolean = dyn_cast<BoolAttr>(argument))
    os << (boolean.getValue() ? "true" : "false");
  else if (auto integer = dyn_cast<IntegerAttr>(argument))
    os << integer.getInt();
  else if (auto real = dyn_cast<FloatAttr>(argument))
    os << llvm::format("%.17g", real.getValueAsDouble());
  else
    argument.print(os, /*elideType=*/true);
}

ProfileKey ProfileKey::of(aten::CallOp call) {
  ProfileKey key;
  auto [base, overload] = call.getCallee().rsplit('.');
  key.op = base.str();
  key.overload = overload.str();
  for (Value value : call.getOperands()) {
    auto type = cast<RankedTensorType>(value.getType());
    ProfiledOperand &operand = key.operands.emplace_back();
    llvm::raw_string_ostream(operand.dtype) << type.getElementType();
    operand.shape = type.getShape().vec();
    if (!isContiguous(type)) {
      TensorLayout layout = getTensorLayout(type);
      operand.strides.assign(layout.strides.begin(), layout.strides.end());
    }
  }
  for (Attribute argument : call.getArgs()) {
    llvm::raw_string_ostream os(key.arguments.emplace_back());
    printArgument(os, argument);
  }
  return key;
}

std::string ProfileKey::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << op << '.' << overload << '(' << llvm::join(arguments, ", ") << ") : ";
  auto printNumber = [&](int64_t number) { os << number; };
  llvm::interleaveComma(operands, os, [&](const ProfiledOperand &operand) {
    os << operand.dtype << '[';
    llvm::interleave(operand.shape, os, printNumber, ",");
    os << ']';
    if (operand.strides.empty())
      return;
    os << '{';
    llvm::interleave(operand.strides, os, printNumber, ",");
    os << '}';
  });
  return text;
}
