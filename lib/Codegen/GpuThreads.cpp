//===- GpuThreads.cpp - A kernel for the threads of a GPU -----------------===//

#include "GpuThreads.h"

#include "KernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

namespace {
class ThreadWriter : KernelWriter {
public:
  ThreadWriter(KernelOp kernel, const KernelShape &shape, ModuleOp module)
      : KernelWriter(kernel, shape, module) {}
  int64_t run(StringRef name);

private:
  int64_t writeByElements();
  int64_t writeByRows();
  void writeRow(ArrayRef<Value> bases, Value thread, int64_t lanes);
  void ifAligned(int64_t lanes, function_ref<void(int64_t)> body);
  Value combineRow(Combine kind, Term term, Value thread, int64_t lanes);
  /// A register that says which block or thread this is, as i64.
  Value getIndexOf(StringRef intrinsic);
  Value intrinsic(StringRef name, Type result, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(builder, loc, result, builder.getStringAttr(name),
                                         arguments)
        .getResult(0);
  }
  Value constant(int32_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  /// Calls `body` at the builder's place under a condition.
  void onlyIf(Value condition, function_ref<void()> body) {
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(branch.thenBlock()->getTerminator());
    body();
  }
  Value isBelow(Value index, int64_t bound) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, integer(bound));
  }
};
} // namespace

Value ThreadWriter::getIndexOf(StringRef name) {
  Value index = intrinsic(name, builder.getI32Type(), {});
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), index);
}

/// Calls `body` with the lanes of vectors, if the tensors are aligned for them, else with 1.
void ThreadWriter::ifAligned(int64_t lanes, function_ref<void(int64_t)> body) {
  if (lanes == 1)
    return body(1);
  auto branch = scf::IfOp::create(builder, loc, isAligned(lanes), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  body(lanes);
  builder.setInsertionPoint(branch.elseBlock()->getTerminator());
  body(1);
}

/// A thread computes a vector of neighbours.
int64_t ThreadWriter::writeByElements() {
  chooseOrder();
  const int64_t inner = sizes.back(), elements = getOuterSize() * inner;
  const int64_t together = chooseLanes(inner);
  Value block = getIndexOf("llvm.nvvm.read.ptx.sreg.ctaid.x");
  Value index = add(scale(block, kGpuBlock), getIndexOf("llvm.nvvm.read.ptx.sreg.tid.x"));
  index = scale(index, together);
  onlyIf(isBelow(index, elements), [&] {
    Value row = index, column = index;
    if (elements != inner) {
      row = arith::DivUIOp::create(builder, loc, index, integer(inner));
      column = arith::RemUIOp::create(builder, loc, index, integer(inner));
    }
    SmallVector<Value> bases = getBases(row);
    auto isAny = [](Value) { return true; };
    ifAligned(together, [&](int64_t lanes) {
      if (lanes == together)
        storeResults(bases, column, /*segment=*/0, /*row=*/nullptr, isAny, lanes);
      else
        forEach(column, add(column, integer(together)), integer(1), [&](Value own) {
          storeResults(bases, own, /*segment=*/0, /*row=*/nullptr, isAny);
        });
    });
  });
  return (elements + kGpuBlock * together - 1) / (kGpuBlock * together);
}

/// Each lane of the warp combines every 32nd vector of a segment, then the lanes meet.
Value ThreadWriter::combineRow(Combine kind, Term term, Value thread, int64_t lanes) {
  Value result = code.number(getNeutral(kind));
  forSegments([&](int64_t begin, int64_t end) {
    auto loop = scf::ForOp::create(
        builder, loc, add(scale(thread, lanes), integer(begin)), integer(end),
        integer(kWarp * lanes), ValueRange{result},
        [&](OpBuilder &inner, Location, Value column, ValueRange known) {
          OpBuilder::InsertionGuard guard(builder);
          builder.restoreInsertionPoint(inner.saveInsertionPoint());
          Value next = known[0];
          forLanes(column, lanes, [&](Value own) { next = combine(kind, next, term(own, begin)); });
          scf::YieldOp::create(builder, loc, ValueRange{next});
        });
    result = loop.getResult(0);
  });
  for (int32_t distance = kWarp / 2; distance > 0; distance /= 2) {
    Value other = intrinsic("llvm.nvvm.shfl.sync.bfly.f32", builder.getF32Type(),
                            {constant(-1), result, constant(distance), constant(kWarp - 1)});
    result = combine(kind, result, other);
  }
  return result;
}

/// What is one number for the row, every thread of the warp computes; the first one stores it.
void ThreadWriter::writeRow(ArrayRef<Value> bases, Value thread, int64_t lanes) {
  auto loadFirst = [&](BlockArgument argument, int64_t) {
    size_t i = argument.getArgNumber();
    return load(i, bases[i]);
  };
  PlaceValues row(kernel, loadFirst);
  computeRow(row, bases,
             [&](Combine kind, Term term) { return combineRow(kind, term, thread, lanes); });
  auto isWhole = [&](Value value) { return !isOfRow(value); };
  onlyIf(isBelow(thread, 1), [&] { storeRow(bases, row); });
  if (llvm::any_of(kernel.getYielded(), isWhole))
    forSegments([&](int64_t begin, int64_t end) {
      forEach(add(scale(thread, lanes), integer(begin)), integer(end), integer(kWarp * lanes),
              [&](Value column) { storeResults(bases, column, begin, &row, isWhole, lanes); });
    });
}

int64_t ThreadWriter::writeByRows() {
  constexpr int64_t kRows = kGpuBlock / kWarp; // of a block
  Value index = getIndexOf("llvm.nvvm.read.ptx.sreg.tid.x");
  Value block = getIndexOf("llvm.nvvm.read.ptx.sreg.ctaid.x");
  Value warp = arith::DivUIOp::create(builder, loc, index, integer(kWarp));
  Value thread = arith::RemUIOp::create(builder, loc, index, integer(kWarp));
  Value row = add(scale(block, kRows), warp);
  // All threads of the warp are to have some of the shortest segment.
  int64_t shortest = sizes.back();
  forSegments([&](int64_t begin, int64_t end) { shortest = std::min(shortest, end - begin); });
  const int64_t together = chooseLanes(std::max<int64_t>(1, shortest / kWarp));
  onlyIf(isBelow(row, getOuterSize()), [&] {
    ifAligned(together, [&](int64_t lanes) { writeRow(getBases(row), thread, lanes); });
  });
  return (getOuterSize() + kRows - 1) / kRows;
}

int64_t ThreadWriter::run(StringRef name) {
  beginFunction(name, /*more=*/0);
  int64_t blocks = shape.isByRows() ? writeByRows() : writeByElements();
  func::ReturnOp::create(builder, loc);
  return blocks;
}

int64_t fsdp::codegen::writeGpuThreads(KernelOp kernel, const KernelShape &shape, StringRef name,
                                       ModuleOp module) {
  return ThreadWriter(kernel, shape, module).run(name);
}
