//===- KernelBody.h - A kernel's values at one index ------------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_KERNELBODY_H
#define FSDP_LIB_CODEGEN_KERNELBODY_H

#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fsdp::codegen {

/// Scalars of a kernel's values at one index of its domain, written on demand, each once.
class PlaceValues {
public:
  /// Reads an operand of the kernel, this many columns after the index.
  using Load = llvm::function_ref<mlir::Value(mlir::BlockArgument, int64_t)>;

  /// `column`: the index's column (i64); null for values that are equal in a whole row. `segment`:
  /// the first column of the segment that contains it. `outer`: values known for the row, or null;
  /// they are not written again.
  PlaceValues(KernelOp kernel, Processor processor, Load load, mlir::Value column = {},
              int64_t segment = 0, const PlaceValues *outer = nullptr)
      : kernel(kernel), processor(processor), load(load), column(column), segment(segment),
        outer(outer) {}

  void set(mlir::Value value, mlir::Value scalar) { scalars[{value, 0}] = scalar; }
  /// Sets the row's values for a call on whole rows (isRowOperator).
  void setRowNumbers(aten::CallOp call, llvm::ArrayRef<mlir::Value> numbers) {
    rowNumbers[call] = llvm::to_vector(numbers);
  }
  /// The value `shift` columns after the index.
  mlir::Value get(mlir::OpBuilder &builder, mlir::Value value, int64_t shift = 0);

private:
  using Place = std::pair<mlir::Value, int64_t>;
  mlir::Value find(Place place) const {
    mlir::Value known = scalars.lookup(place);
    return known || !outer ? known : outer->find(place);
  }

  llvm::ArrayRef<mlir::Value> findRowNumbers(aten::CallOp call) const {
    auto known = rowNumbers.find(call);
    return known != rowNumbers.end() ? llvm::ArrayRef(known->second) : outer->findRowNumbers(call);
  }

  KernelOp kernel;
  Processor processor;
  Load load;
  mlir::Value column;
  int64_t segment;
  const PlaceValues *outer;
  llvm::DenseMap<Place, mlir::Value> scalars;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> rowNumbers;
};

/// A tensor of a kernel, inputs first, with a pointer to its first element.
struct KernelTensor {
  mlir::Value value; // of the kernel's body
  mlir::Value pointer;
  llvm::SmallVector<int64_t> strides; // over the iterated dimensions, in elements
  mlir::Type getElement() const {
    return llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  }
};

/// The address of a tensor's element `index` (i64).
mlir::Value getElementAddress(mlir::OpBuilder &builder, mlir::Location loc, ScalarCode &code,
                              const KernelTensor &tensor, mlir::Value index);

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_KERNELBODY_H
