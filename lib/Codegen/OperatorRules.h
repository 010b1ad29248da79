//===- OperatorRules.h - The arithmetic of each operator ---------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_OPERATORRULES_H
#define FSDP_LIB_CODEGEN_OPERATORRULES_H

#include "Arithmetic.h"
#include "fsdp/IR/Aten.h"

namespace fsdp::codegen {

/// The arguments of a call by their positions in the schema.
class Arguments {
public:
  explicit Arguments(aten::CallOp call) : list(call.getArgs()) {}
  size_t size() const { return list.size(); }
  bool isOperand(size_t i) const { return i < size() && llvm::isa<aten::OperandAttr>(list[i]); }
  bool isAbsent(size_t i) const { return i >= size() || llvm::isa<mlir::UnitAttr>(list[i]); }
  std::optional<double> number(size_t i) const {
    if (i >= size())
      return std::nullopt;
    if (auto real = llvm::dyn_cast<mlir::FloatAttr>(list[i]))
      return real.getValueAsDouble();
    if (auto boolean = llvm::dyn_cast<mlir::BoolAttr>(list[i]))
      return boolean.getValue();
    if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(list[i]))
      return static_cast<double>(integer.getInt());
    return std::nullopt;
  }
  bool isNumber(size_t i, double value) const { return number(i) == value; }
  llvm::StringRef text(size_t i) const {
    auto string = i < size() ? llvm::dyn_cast<mlir::StringAttr>(list[i]) : mlir::StringAttr();
    return string ? string.getValue() : llvm::StringRef();
  }
  mlir::ArrayAttr all() const { return list; }

private:
  mlir::ArrayAttr list;
};

/// The inputs of an operator's rule: one scalar for each tensor parameter of the schema.
struct Site {
  Arithmetic m;
  Arguments arguments;
  llvm::ArrayRef<mlir::Value> scalars; // by position in the schema; null for absent ones

  mlir::Value operator[](size_t i) const { return scalars[i]; }
  double number(size_t i) const { return *arguments.number(i); }
};

/// How a kernel computes an operator, and when it may. `tensors` counts the schema's leading tensor
/// parameters, whose arguments may be numbers.
struct Rule {
  unsigned tensors;
  mlir::Value (*write)(const Site &site);
  using Test = bool (*)(const Arguments &arguments);
  Test isExact = always;      // has torch's bits in f32
  Test isExactShort = always; // has torch's bits in bf16 and f16
  bool isExactF16 = true;     // false: isExactShort holds only in bf16
  bool roundsNumbers = true;  // torch rounds a number for a tensor to the result's dtype
  Test accepts = always;
  bool isComparison = false; // yields bools

  static bool always(const Arguments &) { return true; }
  static bool never(const Arguments &) { return false; }
};

/// Null if kernels do not have the operator.
const Rule *findRule(aten::CallOp call);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_OPERATORRULES_H
