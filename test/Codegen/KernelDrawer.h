//===- KernelDrawer.h - A kernel while it is drawn ----------------*- C++ -*-===//

#ifndef FSDP_TEST_CODEGEN_KERNELDRAWER_H
#define FSDP_TEST_CODEGEN_KERNELDRAWER_H

#include "KernelReferences.h"
#include "RandomKernel.h"
#include "mlir/IR/Builders.h"

#include <deque>

namespace fsdp::test {

/// Draws one kernel. Each call is one that a kernel of this rounding may hold.
class KernelDrawer {
public:
  KernelDrawer(mlir::MLIRContext &context, Rounding rounding, std::mt19937 &random)
      : context(context), builder(&context), rounding(rounding), random(random) {}
  RandomKernel run();

private:
  using Known = KnownValue;

  unsigned below(unsigned count) { return random() % count; }
  bool chance(unsigned percent) { return below(100) < percent; }
  void drawDomain();
  void drawChunks();
  const Known &addInput(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  const Known &addTarget(llvm::ArrayRef<int64_t> shape, int64_t classes);
  const Known *findKnown(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// A value of this shape, or one that broadcasts to it.
  const Known &pickWhole(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  const Known &pick(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::RankedTensorType drawLayout(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  aten::CallOp makeCall(llvm::StringRef callee, llvm::ArrayRef<mlir::Attribute> arguments,
                        mlir::ValueRange values, mlir::RankedTensorType type);
  bool addCall(llvm::StringRef callee, llvm::ArrayRef<const Known *> operands,
               llvm::ArrayRef<mlir::Attribute> arguments, mlir::RankedTensorType type);
  void drawCall(llvm::ArrayRef<int64_t> shape);
  void drawReduction();
  void drawColumnSum();
  void drawConcatenation();
  void drawExpansion();
  void drawRegrouping();
  void drawSoftmax(llvm::ArrayRef<int64_t> shape);

  mlir::MLIRContext &context;
  mlir::OpBuilder builder;
  Rounding rounding;
  std::mt19937 &random;
  RandomKernel result;
  llvm::SmallVector<int64_t> domain;
  mlir::Type main; // the dtype of most
  std::deque<Known> known;
  unsigned numCalls = 0;
  bool isFlat = false; // rows are counted by one dimension in some calls
  int64_t chunkRows = 0; // of which columns are added up; 0: none are
};

} // namespace fsdp::test

#endif // FSDP_TEST_CODEGEN_KERNELDRAWER_H
