//===- CpuLoops.cpp - A kernel as loops -----------------------------------===//

#include "CpuLoops.h"

#include "KernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

/// Elements of a unit of work, where a kernel may cut its domain as it likes.
static constexpr int64_t kChunk = 4096;
/// Elements that are worth a thread: as in torch's loops (at::internal::GRAIN_SIZE).
static constexpr int64_t kGrain = 32768;
/// How torch adds a row up: this many lanes side by side, 8 after 8 at the end; so many partial
/// sums become one of the next level.
static constexpr int64_t kSumLanes = 32, kTorchLanes = 8, kSumStep = 16, kSumLevels = 4;

namespace {
class LoopWriter : KernelWriter {
public:
  LoopWriter(KernelOp kernel, const KernelShape &shape, ModuleOp module)
      : KernelWriter(kernel, shape, module) {}
  CpuWork run(StringRef name);

private:
  CpuWork writeByElements(Value begin, Value end);
  CpuWork writeByRows(Value begin, Value end);
  void writeRow(ArrayRef<Value> bases);
  Value addUpRow(aten::CallOp call, const PlaceValues &row, ArrayRef<Value> bases);
  Value addUp(int64_t columns);
  void writeWrapper(StringRef name);
  void forEach(Value begin, Value end, function_ref<void(Value)> body) {
    KernelWriter::forEach(begin, end, integer(1), body);
  }

  Value buffer; // of the row that is added up; one sum is done before the next begins
};
} // namespace

CpuWork LoopWriter::writeByElements(Value begin, Value end) {
  chooseOrder();
  const int64_t inner = sizes.back(), outer = getOuterSize();
  const int64_t chunks = (inner + kChunk - 1) / kChunk;
  forEach(begin, end, [&](Value unit) {
    Value first = integer(0), last = integer(inner), row = unit;
    if (chunks > 1) {
      Value count = integer(chunks);
      row = arith::DivUIOp::create(builder, loc, unit, count);
      first = scale(arith::RemUIOp::create(builder, loc, unit, count), kChunk);
      last = arith::MinSIOp::create(builder, loc, add(first, integer(kChunk)), last);
    }
    SmallVector<Value> bases = getBases(row);
    forEach(first, last, [&](Value column) {
      storeResults(bases, column, /*segment=*/0, /*row=*/nullptr, [](Value) { return true; });
    });
  });
  return {outer * chunks, std::max<int64_t>(1, kGrain / std::min(inner, kChunk))};
}

/// The sum of `columns` numbers in the buffer, whole lanes, in torch's order.
Value LoopWriter::addUp(int64_t columns) {
  auto lanes = VectorType::get({kSumLanes}, builder.getF32Type());
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(lanes));
  const int64_t steps = columns / kSumLanes;
  SmallVector<Value> levels(kSumLevels, zero);
  // Steps from `first` on, into level 0.
  auto addSteps = [&](Value sum, Value first, Value count) {
    auto loop = scf::ForOp::create(
        builder, loc, integer(0), count, integer(1), ValueRange{sum},
        [&](OpBuilder &inner, Location, Value i, ValueRange sums) {
          OpBuilder::InsertionGuard guard(builder);
          builder.restoreInsertionPoint(inner.saveInsertionPoint());
          Value index = scale(add(first, i), kSumLanes);
          Value address = LLVM::GEPOp::create(builder, loc, pointer, builder.getF32Type(), buffer,
                                              ArrayRef<LLVM::GEPArg>{index});
          Value numbers = LLVM::LoadOp::create(builder, loc, lanes, address, /*alignment=*/4);
          Value next = arith::AddFOp::create(builder, loc, sums[0], numbers);
          scf::YieldOp::create(builder, loc, ValueRange{next});
        });
    return loop.getResult(0);
  };
  // Whole levels are unrolled: at most 256 steps are allowed (isRowReduction).
  int64_t step = 0;
  for (; step + kSumStep <= steps; step += kSumStep) {
    Value sum = addSteps(levels[0], integer(step), integer(kSumStep));
    levels[1] = arith::AddFOp::create(builder, loc, levels[1], sum);
    int64_t count = step + kSumStep;
    for (int64_t level = 2, numbers = kSumStep * kSumStep;
         level < kSumLevels && count % numbers == 0; ++level, numbers *= kSumStep) {
      levels[level] = arith::AddFOp::create(builder, loc, levels[level], levels[level - 1]);
      levels[level - 1] = zero;
    }
  }
  Value sum = steps > step ? addSteps(levels[0], integer(step), integer(steps - step)) : levels[0];
  for (int64_t level = 1; level < kSumLevels; ++level)
    sum = arith::AddFOp::create(builder, loc, sum, levels[level]);
  auto part = [&](int64_t first) {
    return vector::ExtractStridedSliceOp::create(builder, loc, sum, ArrayRef<int64_t>{first},
                                                 ArrayRef<int64_t>{kTorchLanes},
                                                 ArrayRef<int64_t>{1});
  };
  Value eight = part(0);
  for (int64_t first = kTorchLanes; first < kSumLanes; first += kTorchLanes)
    eight = arith::AddFOp::create(builder, loc, eight, part(first));
  Value total = code.number(0);
  for (int64_t lane = 0; lane < kTorchLanes; ++lane)
    total = arith::AddFOp::create(builder, loc, total,
                                  vector::ExtractOp::create(builder, loc, eight, lane));
  return total;
}

/// A row is computed, then added up: so torch's order does not keep the arithmetic from vectors.
Value LoopWriter::addUpRow(aten::CallOp call, const PlaceValues &row, ArrayRef<Value> bases) {
  const int64_t columns = sizes.back(), whole = llvm::alignTo(columns, kSumLanes);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  if (!buffer) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&function.getBody().front());
    buffer = LLVM::AllocaOp::create(builder, loc, pointer, builder.getF32Type(), integer(whole),
                                    /*alignment=*/64);
  }
  auto put = [&](Value index, Value scalar) {
    Value address = LLVM::GEPOp::create(builder, loc, pointer, builder.getF32Type(), buffer,
                                        ArrayRef<LLVM::GEPArg>{index});
    LLVM::StoreOp::create(builder, loc, scalar, address);
  };
  forSegments([&](int64_t begin, int64_t end) {
    forEach(integer(begin), integer(end), [&](Value column) {
      put(column, computeAt(call.getOperand(0), bases, column, begin, &row));
    });
  });
  for (int64_t rest = columns; rest < whole; ++rest)
    put(integer(rest), code.number(0));
  return addUp(whole);
}

/// First what is one number for the row, then all others.
void LoopWriter::writeRow(ArrayRef<Value> bases) {
  auto loadFirst = [&](BlockArgument argument, int64_t) {
    size_t i = argument.getArgNumber();
    return load(i, bases[i]);
  };
  PlaceValues row(kernel, loadFirst);
  computeRow(row, [&](aten::CallOp call) { return addUpRow(call, row, bases); });
  storeRow(bases, row);
  auto isWhole = [&](Value value) { return !isOfRow(value); };
  if (llvm::any_of(kernel.getYielded(), isWhole))
    forSegments([&](int64_t begin, int64_t end) {
      forEach(integer(begin), integer(end),
              [&](Value column) { storeResults(bases, column, begin, &row, isWhole); });
    });
}

CpuWork LoopWriter::writeByRows(Value begin, Value end) {
  forEach(begin, end, [&](Value unit) { writeRow(getBases(unit)); });
  return {getOuterSize(), std::max<int64_t>(1, kGrain / sizes.back())};
}

/// void name(void *const *tensors, int64_t begin, int64_t end)
void LoopWriter::writeWrapper(StringRef name) {
  builder.setInsertionPointToEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext()), i64 = builder.getI64Type();
  auto wrapper =
      func::FuncOp::create(builder, loc, name, builder.getFunctionType({pointer, i64, i64}, {}));
  builder.setInsertionPointToStart(wrapper.addEntryBlock());
  SmallVector<Value> arguments;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Value place = LLVM::GEPOp::create(builder, loc, pointer, pointer, wrapper.getArgument(0),
                                      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    arguments.push_back(LLVM::LoadOp::create(builder, loc, pointer, place));
  }
  arguments.append({wrapper.getArgument(1), wrapper.getArgument(2)});
  func::CallOp::create(builder, loc, function, arguments);
  func::ReturnOp::create(builder, loc);
}

CpuWork LoopWriter::run(StringRef name) {
  beginFunction((name + ".tensors").str(), /*more=*/2);
  Value begin = function.getArgument(tensors.size()),
        end = function.getArgument(tensors.size() + 1);
  CpuWork work = shape.isByRows() ? writeByRows(begin, end) : writeByElements(begin, end);
  func::ReturnOp::create(builder, loc);
  writeWrapper(name);
  return work;
}

CpuWork fsdp::codegen::writeCpuLoops(KernelOp kernel, const KernelShape &shape, StringRef name,
                                     ModuleOp module) {
  return LoopWriter(kernel, shape, module).run(name);
}
