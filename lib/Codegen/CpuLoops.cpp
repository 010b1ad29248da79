//===- CpuLoops.cpp - A kernel as loops -----------------------------------===//

#include "CpuLoops.h"

#include "KernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

/// Elements per unit of work, if a kernel may cut its domain anywhere.
static constexpr int64_t kChunk = 4096;
/// Elements that are worth a thread: as in torch's loops (at::internal::GRAIN_SIZE).
static constexpr int64_t kGrain = 32768;
/// Elements of a row that are computed before they are summed: as many as fit in the first-level
/// cache.
static constexpr int64_t kMostInBuffer = 8192;
/// torch's order of a row's sum: 32 lanes, reduced by eights at the end; 16 partial sums of a level
/// become one of the next level.
static constexpr int64_t kSumLanes = 32, kTorchLanes = 8, kSumStep = 16, kSumLevels = 4;

namespace {
class LoopWriter : KernelWriter {
public:
  LoopWriter(KernelOp kernel, const KernelShape &shape, ModuleOp module)
      : KernelWriter(kernel, shape, module, Processor::Cpu) {}
  CpuWork run(StringRef name);

private:
  CpuWork writeByElements(Value begin, Value end);
  CpuWork writeByRows(Value begin, Value end);
  void writeRow(ArrayRef<Value> bases);
  void writeChunk(Value chunk);
  Value combineRow(Combine kind, Term term);
  Value combineColumns(Combine kind, Term term, Value first, int64_t columns);
  Value combineBuffer(Combine kind, int64_t columns);
  void writeWrapper(StringRef name);
  void forEach(Value begin, Value end, function_ref<void(Value)> body) {
    KernelWriter::forEach(begin, end, integer(1), body);
  }

  Value buffer; // for the row that is being summed; sums do not overlap in time
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

/// Combines `columns` elements of the buffer, whole lanes; sums in torch's order.
Value LoopWriter::combineBuffer(Combine kind, int64_t columns) {
  auto lanes = VectorType::get({kSumLanes}, builder.getF32Type());
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Value neutral = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(lanes, builder.getF32FloatAttr(getNeutral(kind))));
  const int64_t steps = columns / kSumLanes;
  SmallVector<Value> levels(kSumLevels, neutral);
  // Adds `count` steps from `first` on to level 0.
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
          scf::YieldOp::create(builder, loc, ValueRange{combine(kind, sums[0], numbers)});
        });
    return loop.getResult(0);
  };
  // Whole levels are unrolled: the buffer has at most 256 steps.
  int64_t step = 0;
  for (; step + kSumStep <= steps; step += kSumStep) {
    Value sum = addSteps(levels[0], integer(step), integer(kSumStep));
    levels[1] = combine(kind, levels[1], sum);
    int64_t count = step + kSumStep;
    for (int64_t level = 2, numbers = kSumStep * kSumStep;
         level < kSumLevels && count % numbers == 0; ++level, numbers *= kSumStep) {
      levels[level] = combine(kind, levels[level], levels[level - 1]);
      levels[level - 1] = neutral;
    }
  }
  Value sum = steps > step ? addSteps(levels[0], integer(step), integer(steps - step)) : levels[0];
  for (int64_t level = 1; level < kSumLevels; ++level)
    sum = combine(kind, sum, levels[level]);
  auto part = [&](int64_t first) {
    return vector::ExtractStridedSliceOp::create(builder, loc, sum, ArrayRef<int64_t>{first},
                                                 ArrayRef<int64_t>{kTorchLanes},
                                                 ArrayRef<int64_t>{1});
  };
  Value eight = part(0);
  for (int64_t first = kTorchLanes; first < kSumLanes; first += kTorchLanes)
    eight = combine(kind, eight, part(first));
  Value total = code.number(getNeutral(kind));
  for (int64_t lane = 0; lane < kTorchLanes; ++lane)
    total = combine(kind, total, vector::ExtractOp::create(builder, loc, eight, lane));
  return total;
}

/// Computes the columns from `first` on into the buffer, then combines them: torch's order of
/// summation thus does not prevent vectorized arithmetic.
Value LoopWriter::combineColumns(Combine kind, Term term, Value first, int64_t columns) {
  const int64_t whole = llvm::alignTo(columns, kSumLanes);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  if (!buffer) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&function.getBody().front());
    int64_t most = llvm::alignTo(std::min(sizes.back(), kMostInBuffer), kSumLanes);
    buffer = LLVM::AllocaOp::create(builder, loc, pointer, builder.getF32Type(), integer(most),
                                    /*alignment=*/64);
  }
  auto put = [&](Value index, Value scalar) {
    Value address = LLVM::GEPOp::create(builder, loc, pointer, builder.getF32Type(), buffer,
                                        ArrayRef<LLVM::GEPArg>{index});
    LLVM::StoreOp::create(builder, loc, scalar, address);
  };
  if (!first)
    forSegments([&](int64_t begin, int64_t end) {
      forEach(integer(begin), integer(end),
              [&](Value column) { put(column, term(column, begin)); });
    });
  else // such a row has one segment
    forEach(integer(0), integer(columns),
            [&](Value index) { put(index, term(add(first, index), /*segment=*/0)); });
  for (int64_t rest = columns; rest < whole; ++rest)
    put(integer(rest), code.number(getNeutral(kind)));
  return combineBuffer(kind, whole);
}

Value LoopWriter::combineRow(Combine kind, Term term) {
  const int64_t columns = sizes.back();
  if (columns <= kMostInBuffer)
    return combineColumns(kind, term, /*first=*/{}, columns);
  const int64_t rest = columns % kMostInBuffer;
  auto loop = scf::ForOp::create(builder, loc, integer(0), integer(columns - rest),
                                 integer(kMostInBuffer), ValueRange{code.number(getNeutral(kind))},
                                 [&](OpBuilder &inner, Location, Value first, ValueRange known) {
                                   OpBuilder::InsertionGuard guard(builder);
                                   builder.restoreInsertionPoint(inner.saveInsertionPoint());
                                   Value part = combineColumns(kind, term, first, kMostInBuffer);
                                   scf::YieldOp::create(builder, loc,
                                                        ValueRange{combine(kind, known[0], part)});
                                 });
  Value result = loop.getResult(0);
  if (rest == 0)
    return result;
  return combine(kind, result, combineColumns(kind, term, integer(columns - rest), rest));
}

/// First values with one element per row, then all others.
void LoopWriter::writeRow(ArrayRef<Value> bases) {
  auto loadFirst = [&](BlockArgument argument, int64_t) {
    size_t i = argument.getArgNumber();
    return load(i, bases[i]);
  };
  PlaceValues row(kernel, processor, loadFirst);
  computeRow(row, bases, [&](Combine kind, Term term) { return combineRow(kind, term); });
  storeRow(bases, row);
  auto isWhole = [&](Value value) { return !isOfRow(value); };
  if (llvm::any_of(kernel.getYielded(), isWhole))
    forSegments([&](int64_t begin, int64_t end) {
      forEach(integer(begin), integer(end),
              [&](Value column) { storeResults(bases, column, begin, &row, isWhole); });
    });
}

CpuWork LoopWriter::writeByRows(Value begin, Value end) {
  const int64_t rows = std::max<int64_t>(1, shape.getChunkRows());
  if (shape.getChunkRows() == 0)
    forEach(begin, end, [&](Value unit) { writeRow(getBases(unit)); });
  else
    forEach(begin, end, [&](Value chunk) { writeChunk(chunk); });
  return {getOuterSize() / rows, std::max<int64_t>(1, kGrain / (rows * sizes.back()))};
}

/// Adds the rows of a chunk to the sums of its columns, one after another.
void LoopWriter::writeChunk(Value chunk) {
  Value first = scale(chunk, shape.getChunkRows());
  forColumnSums([&](size_t i) {
    Value begin = scale(chunk, sizes.back());
    forEach(begin, add(begin, integer(sizes.back())),
            [&](Value index) { store(i, index, code.number(0)); });
  });
  forEach(first, add(first, integer(shape.getChunkRows())),
          [&](Value row) { writeRow(getBases(row, chunk)); });
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
