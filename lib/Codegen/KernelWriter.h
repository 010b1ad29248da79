//===- KernelWriter.h - Code generation for all devices ---------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_KERNELWRITER_H
#define FSDP_LIB_CODEGEN_KERNELWRITER_H

#include "KernelBody.h"
#include "RowOperators.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp::codegen {

class Arithmetic;

/// Writes code that computes a kernel on tensors of known strides.
class KernelWriter {
protected:
  KernelWriter(KernelOp kernel, const KernelShape &shape, mlir::ModuleOp module,
               Processor processor)
      : kernel(kernel), shape(shape), module(module), processor(processor),
        builder(module.getContext()), loc(kernel.getLoc()),
        code(builder, loc, kernel.getRounding(), processor) {}
  virtual ~KernelWriter() = default;

  /// Adds a function of the tensors' addresses and of `more` i64 arguments, and moves the builder
  /// into it. No result shares bytes with another tensor.
  void beginFunction(llvm::StringRef name, unsigned more);
  /// Orders the iterated dimensions by the first result's strides. Adjacent dimensions that are
  /// contiguous in all tensors are merged. `keepsRows`: the last dimension is not merged.
  void chooseOrder(bool keepsRows = false);
  /// Product of the sizes of the dimensions before the last.
  int64_t getOuterSize() const;
  /// Indices of all tensors' first elements in unit `unit` of the dimensions before the last.
  llvm::SmallVector<mlir::Value> getBases(mlir::Value unit);
  /// The index of tensor `i`'s element `column + shift` of the last dimension.
  mlir::Value getIndex(size_t i, llvm::ArrayRef<mlir::Value> bases, mlir::Value column,
                       int64_t shift = 0);
  mlir::Value load(size_t tensor, mlir::Value index);
  mlir::Value loadFrom(mlir::Type type, mlir::Value address, int64_t alignment);
  void store(size_t tensor, mlir::Value index, mlir::Value scalar);
  /// A value of the kernel's body at one column, computed from the operands there. `segment`: the
  /// first column of its segment. `row`: values known for the row, or null.
  mlir::Value computeAt(mlir::Value value, llvm::ArrayRef<mlir::Value> bases, mlir::Value column,
                        int64_t segment, const PlaceValues *row);
  /// A scalar for each column, written at the builder's position in a loop over a segment's
  /// columns.
  using Term = llvm::function_ref<mlir::Value(mlir::Value column, int64_t segment)>;
  /// Combines these scalars into one.
  using AddUp = llvm::function_ref<mlir::Value(Combine kind, Term term)>;
  /// Computes the values with one element per row, in the order of the calls.
  void computeRow(PlaceValues &row, llvm::ArrayRef<mlir::Value> bases, AddUp addUp);
  /// A value's element in a column of the row; NaN if the column does not exist.
  mlir::Value pick(mlir::Value value, mlir::Value column, PlaceValues &row,
                   llvm::ArrayRef<mlir::Value> bases, AddUp addUp);
  mlir::Value combine(Combine kind, mlir::Value a, mlir::Value b);
  static double getNeutral(Combine kind);
  /// Stores the results with one element per row.
  void storeRow(llvm::ArrayRef<mlir::Value> bases, PlaceValues &row);
  /// Computes and stores the results at one column, or at a vector of adjacent columns; `wanted`
  /// selects results.
  void storeResults(llvm::ArrayRef<mlir::Value> bases, mlir::Value column, int64_t segment,
                    const PlaceValues *row, llvm::function_ref<bool(mlir::Value)> wanted,
                    int64_t lanes = 1);
  /// Stores the elements of adjacent columns.
  void storeLanes(size_t i, mlir::Value index, llvm::ArrayRef<mlir::Value> scalars);
  /// Adds elements of adjacent columns of a row to tensor `i`, which holds sums of columns.
  virtual void addToColumns(size_t i, mlir::Value index, llvm::ArrayRef<mlir::Value> numbers);
  /// As getBases, for a row of chunk number `chunk`.
  llvm::SmallVector<mlir::Value> getBases(mlir::Value row, mlir::Value chunk);
  bool isColumnSum(size_t i) {
    auto call = tensors[i].value.getDefiningOp<aten::CallOp>();
    return call && codegen::isColumnSum(call, kernel.getRounding());
  }
  mlir::Value getSummed(size_t i) const { return tensors[i].value.getDefiningOp()->getOperand(0); }
  /// Adjacent columns that are computed together: elements that are adjacent in memory are read and
  /// written by one instruction.
  struct Vector {
    mlir::Value column; // the first
    int64_t lanes = 1, lane = 0;
    llvm::DenseMap<std::pair<size_t, int64_t>, mlir::Value> loaded; // by tensor and shift
  };
  /// The number of lanes, at most `mostLanes`: the largest that is 16 bytes of some tensor, if all
  /// tensors have whole vectors.
  int64_t chooseLanes(int64_t mostLanes);
  /// True (i1) if all tensors are aligned for vectors of `lanes` elements.
  mlir::Value isAligned(int64_t lanes);
  /// Calls `body` with each column of a vector that begins at `column`.
  void forLanes(mlir::Value column, int64_t lanes, llvm::function_ref<void(mlir::Value)> body);
  bool isVector(size_t i) const { return tensors[i].strides.back() == 1; }
  int64_t getAlignment(size_t i, int64_t lanes);
  mlir::VectorType getVectorType(size_t i, int64_t lanes);
  /// An operand's element at a column, from the current vector if there is one.
  mlir::Value loadAt(size_t i, llvm::ArrayRef<mlir::Value> bases, mlir::Value column,
                     int64_t shift);

  /// Calls `body` with each tensor that holds sums of columns.
  void forColumnSums(llvm::function_ref<void(size_t)> body) {
    for (size_t i = numInputs(); i < tensors.size(); ++i)
      if (isColumnSum(i))
        body(i);
  }
  /// Calls `body` for each segment of a row, with its first column and its end.
  void forSegments(llvm::function_ref<void(int64_t, int64_t)> body) {
    for (auto [begin, end] : llvm::zip(shape.getSegments(), shape.getSegments().drop_front()))
      body(begin, end);
  }
  /// True if a value has one element per row.
  bool isOfRow(mlir::Value value) const {
    return shape.isOfRows(llvm::cast<mlir::RankedTensorType>(value.getType()));
  }
  /// Calls `body` with the index, with the builder inside a loop.
  void forEach(mlir::Value begin, mlir::Value end, mlir::Value step,
               llvm::function_ref<void(mlir::Value)> body);

  Arithmetic arithmetic();
  mlir::Value integer(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value scale(mlir::Value index, int64_t stride);
  size_t numInputs() { return kernel.getBody().front().getNumArguments(); }

  KernelOp kernel;
  const KernelShape &shape;
  mlir::ModuleOp module;
  Processor processor;
  mlir::OpBuilder builder;
  mlir::Location loc;
  ScalarCode code;
  llvm::SmallVector<int64_t> sizes; // of the iterated dimensions, the innermost last
  llvm::SmallVector<KernelTensor> tensors;
  mlir::func::FuncOp function;
  std::optional<Vector> vector;
};

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_KERNELWRITER_H
