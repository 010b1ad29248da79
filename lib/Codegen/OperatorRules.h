//===- OperatorRules.h - The arithmetic of each operator ---------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_OPERATORRULES_H
#define FSDP_LIB_CODEGEN_OPERATORRULES_H

#include "Arithmetic.h"
#include "fsdp/IR/Aten.h"

namespace fsdp::codegen {

/// The arguments of a call by their places in the schema.
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

/// What an operator's rule writes with: one scalar for each tensor or number in a tensor's place.
struct Site {
  Arithmetic m;
  Arguments arguments;
  llvm::ArrayRef<mlir::Value> scalars; // by place in the schema; null where there is none

  mlir::Value operator[](size_t i) const { return scalars[i]; }
  double number(size_t i) const { return *arguments.number(i); }
};

/// How many of the first arguments are tensors, or numbers in their places; what a rule writes, and
/// when it may.
struct Rule {
  unsigned tensors;
  mlir::Value (*write)(const Site &site);
  using Test = bool (*)(const Arguments &arguments);
  Test isExact = always;      // gives torch's bits in f32
  Test isExactShort = always; // gives them in bf16 and f16
  bool isExactF16 = true;     // false: isExactShort is of bf16 alone
  bool roundsNumbers = true;  // torch has a number in a tensor's place in the result's dtype
  Test accepts = always;
  bool isComparison = false; // yields bools

  static bool always(const Arguments &) { return true; }
  static bool never(const Arguments &) { return false; }
};

/// Null: kernels have no such operator.
const Rule *findRule(aten::CallOp call);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_OPERATORRULES_H
