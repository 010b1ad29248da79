//===- PlanBuilder.h - Strings, lists and values of a plan -------*- C++ -*-===//

#ifndef FSDP_LIB_EXPORT_PLANBUILDER_H
#define FSDP_LIB_EXPORT_PLANBUILDER_H

#include "fsdp/Export/PlanTables.h"
#include "fsdp/IR/ElementTypes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace fsdp {

/// Appends to a plan's tables; equal strings and equal shapes are stored once.
class PlanBuilder {
public:
  PlanBuilder() { tables.strings.push_back('\0'); }

  PlanTables tables;

  uint32_t addString(llvm::StringRef text);
  /// Index of the first integer.
  uint32_t addIntegers(llvm::ArrayRef<int64_t> numbers);
  /// `file:line` of the operation's origin, or "".
  uint32_t addLocation(mlir::Location location);

  /// A tensor of this type whose storage begins at arena offset `base`.
  uint32_t addValue(mlir::RankedTensorType type, int64_t base, llvm::StringRef name);
  /// A tensor whose first element is at arena offset `offset`; strides in elements.
  uint32_t addStridedValue(fsdp_dtype dtype, llvm::ArrayRef<int64_t> sizes,
                           llvm::ArrayRef<int64_t> strides, int64_t offset, llvm::StringRef name);

  /// Sets the content of `value` before the first step; false if `literal` has no data.
  [[nodiscard]] bool addConstant(uint32_t value, mlir::ElementsAttr literal);

  /// Adds an entry that is zero except for `kind` and `phase`; the reference is valid until the
  /// next one is added.
  fsdp_entry &addEntry(fsdp_entry_kind kind, fsdp_phase phase);

private:
  llvm::StringMap<uint32_t> stringAt;
  llvm::DenseMap<mlir::Type, uint32_t> shapeAt;
  llvm::DenseMap<mlir::Location, uint32_t> locationAt;
};

} // namespace fsdp

#endif // FSDP_LIB_EXPORT_PLANBUILDER_H
