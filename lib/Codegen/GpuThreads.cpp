//===- GpuThreads.cpp - A kernel for the threads of a GPU -----------------===//

#include "GpuThreads.h"

#include "KernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

/// Threads of a block, unless rows need more or fewer.
static constexpr int64_t kBlock = 256;
/// The most threads of a row, preferably the first. Larger blocks do not run side by side on a
/// multiprocessor, so that none computes while another waits for memory.
static constexpr int64_t kManyThreads = 512, kMostThreads = 1024;
/// The longest row, in vectors, that several blocks of a multiprocessor read again from its cache.
/// Longer rows get the most threads, so that fewer of them are in the device's cache at once.
static constexpr int64_t kMostReread = 8192;
/// The most vectors of a row per thread, and the most that it keeps in registers for all tensors.
static constexpr int64_t kMostVectors = 8, kMostKept = 16;
/// Threads per multiprocessor for which rows are cut into chunks (chooseChunks of SplitCalls.cpp):
/// all chunks then run at once, and none waits for a second wave.
static constexpr int64_t kThreadsAtOnce = 1024;
/// The most sums of columns that a thread keeps in registers.
static constexpr int64_t kMostSums = 32;

namespace {
/// The assignment of a block's threads to rows.
struct RowThreads {
  int64_t ofRow = 1, rows = 1; // of a block
};

class ThreadWriter : KernelWriter {
public:
  ThreadWriter(KernelOp kernel, const KernelShape &shape, ModuleOp module, StringRef name)
      : KernelWriter(kernel, shape, module, Processor::Gpu), name(name) {}
  GpuGrid run();

private:
  GpuGrid writeByElements();
  GpuGrid writeByRows();
  bool combinesRows();
  RowThreads shareRows(int64_t vectors);
  void writeRow(ArrayRef<Value> bases, int64_t lanes);
  void writeChunk(Value chunk, int64_t lanes);
  void addToColumns(size_t i, Value index, ArrayRef<Value> numbers) override;
  void ifAligned(int64_t lanes, function_ref<void(int64_t)> body);
  /// The number of rows, or of chunks of rows, each computed by the same threads.
  int64_t getUnits() const { return getOuterSize() / std::max<int64_t>(1, shape.getChunkRows()); }
  Value combineRow(Combine kind, Term term, int64_t lanes);
  Value combineThreads(Combine kind, Value own);
  /// Receives the first column of each of the thread's vectors of a row, with its segment and the
  /// result of the previous vector; the last result is that of the fold.
  using Fold = function_ref<Value(Value column, int64_t segment, Value known)>;
  Value foldColumns(int64_t lanes, Value initial, Fold body);
  /// The number of vectors of a segment's row per thread if their code is unrolled; 0 for a loop.
  int64_t countSteps(int64_t lanes, int64_t columns);
  /// A register with the index of this block or thread, as i32.
  Value getIndexOf(StringRef which) {
    return intrinsic(("llvm.nvvm.read.ptx.sreg." + which).str(), builder.getI32Type(), {});
  }
  Value intrinsic(StringRef name, Type result, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(builder, loc, result, builder.getStringAttr(name),
                                         arguments)
        .getResult(0);
  }
  Value constant(int32_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  /// block * factor + rest as i64, from i32 values: 32-bit divisions are cheaper. `bound`: the end
  /// of the index range.
  Value count(Value block, int64_t factor, Value rest, int64_t bound);
  /// Calls `body` with the builder inside a conditional block.
  void onlyIf(Value condition, function_ref<void()> body) {
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(branch.thenBlock()->getTerminator());
    body();
  }
  Value isBelow(Value index, int64_t bound) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, integer(bound));
  }

  StringRef name;
  RowThreads threads;
  Value thread;          // i32: in the block
  Value threadOfRow;     // i64
  unsigned barriers = 0; // barriers of the threads of a block
  Value turn;            // i32: 0 and 1 alternately, for rows that a block computes one by one
  /// The thread's sums of columns, if it keeps them in registers, in the order in which rows add to
  /// them.
  SmallVector<Value> sums;
  size_t nextSum = 0;
};
} // namespace

Value ThreadWriter::count(Value block, int64_t factor, Value rest, int64_t bound) {
  Type type = builder.getI64Type();
  const bool isShort = bound + factor < INT32_MAX;
  if (!isShort) {
    block = arith::ExtUIOp::create(builder, loc, type, block);
    rest = arith::ExtUIOp::create(builder, loc, type, rest);
    return add(scale(block, factor), rest);
  }
  Value index = arith::MulIOp::create(builder, loc, block, constant(static_cast<int32_t>(factor)));
  return arith::ExtUIOp::create(builder, loc, type, add(index, rest));
}

/// Calls `body` with `lanes` if the tensors are aligned for such vectors, else with 1.
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

/// Each thread computes a vector of adjacent elements.
GpuGrid ThreadWriter::writeByElements() {
  chooseOrder();
  const int64_t inner = sizes.back(), elements = getOuterSize() * inner;
  const int64_t together = chooseLanes(inner);
  const int64_t vectors = (elements + together - 1) / together;
  Value index = scale(count(getIndexOf("ctaid.x"), kBlock, thread, elements), together);
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
  return {(vectors + kBlock - 1) / kBlock, kBlock};
}

/// True if threads of a row exchange values.
bool ThreadWriter::combinesRows() {
  return llvm::any_of(kernel.getBody().getOps<aten::CallOp>(), [&](aten::CallOp call) {
    return isRowReduction(call, kernel.getRounding()) || isRowOperator(call, kernel.getRounding());
  });
}

/// For rows whose shortest segment has this many vectors. Each thread gets few vectors, and if
/// possible all threads equally many, so that values that are read can stay in registers.
RowThreads ThreadWriter::shareRows(int64_t vectors) {
  const bool combines = combinesRows();
  int64_t ofRow = 0;
  if (vectors < 2 * kWarp) {
    ofRow = combines ? kWarp : std::min<int64_t>(kWarp, llvm::bit_floor<uint64_t>(vectors));
  } else {
    for (int64_t each = 1; each <= kMostVectors && ofRow == 0; ++each)
      if (vectors % (each * kWarp) == 0 && vectors / each <= kManyThreads)
        ofRow = vectors / each;
    if (ofRow == 0) {
      const int64_t most = vectors > kMostReread             ? kMostThreads
                           : vectors > kBlock * kMostVectors ? kManyThreads
                                                             : kBlock;
      ofRow = std::min<int64_t>(most, llvm::bit_floor<uint64_t>(vectors));
    }
  }
  int64_t rows = kBlock % ofRow == 0 ? kBlock / ofRow : 1;
  // All threads of a block meet at a barrier.
  if (ofRow > kWarp && combines && getUnits() % rows != 0)
    rows = 1;
  return {ofRow, rows};
}

int64_t ThreadWriter::countSteps(int64_t lanes, int64_t columns) {
  const int64_t step = threads.ofRow * lanes, steps = columns / step;
  return columns % step == 0 && steps <= kMostVectors &&
                 steps * static_cast<int64_t>(tensors.size()) <= kMostKept
             ? steps
             : 0;
}

Value ThreadWriter::foldColumns(int64_t lanes, Value initial, Fold body) {
  const int64_t step = threads.ofRow * lanes;
  Value first = scale(threadOfRow, lanes), result = initial;
  forSegments([&](int64_t begin, int64_t end) {
    if (countSteps(lanes, end - begin) > 0) {
      for (int64_t column = begin; column < end; column += step)
        result = body(add(first, integer(column)), begin, result);
      return;
    }
    SmallVector<Value> carried;
    if (result)
      carried.push_back(result);
    auto loop = scf::ForOp::create(
        builder, loc, add(first, integer(begin)), integer(end), integer(step), carried,
        [&](OpBuilder &inner, Location, Value column, ValueRange known) {
          OpBuilder::InsertionGuard guard(builder);
          builder.restoreInsertionPoint(inner.saveInsertionPoint());
          Value next = body(column, begin, known.empty() ? Value() : known[0]);
          scf::YieldOp::create(builder, loc, next ? ValueRange{next} : ValueRange{});
        });
    if (result)
      result = loop.getResult(0);
  });
  return result;
}

/// Combines the values of a row's threads in a fixed order: those of a warp by shuffles, those of
/// several warps through shared memory.
Value ThreadWriter::combineThreads(Combine kind, Value own) {
  for (int32_t distance = kWarp / 2; distance > 0; distance /= 2) {
    Value other = intrinsic("llvm.nvvm.shfl.sync.bfly.f32", builder.getF32Type(),
                            {constant(-1), own, constant(distance), constant(kWarp - 1)});
    own = combine(kind, own, other);
  }
  const int64_t warps = threads.ofRow / kWarp;
  if (warps == 1)
    return own;
  constexpr unsigned kSharedMemory = 3; // NVVM's address space
  // Two sets of slots alternate: some threads may still read those of the previous row.
  const int64_t slots = warps * threads.rows;
  auto type = LLVM::LLVMArrayType::get(builder.getF32Type(), turn ? 2 * slots : slots);
  LLVM::GlobalOp shared;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(module.getBody());
    shared =
        LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
                               (name + "_meeting" + Twine(barriers++)).str(), Attribute(),
                               /*alignment=*/4, kSharedMemory);
  }
  Value base = LLVM::AddressOfOp::create(builder, loc, shared);
  if (turn) {
    Value own = arith::MulIOp::create(builder, loc, turn, constant(static_cast<int32_t>(slots)));
    base = LLVM::GEPOp::create(builder, loc, base.getType(), builder.getF32Type(), base,
                               ArrayRef<LLVM::GEPArg>{own});
  }
  auto slot = [&](Value index) {
    return LLVM::GEPOp::create(builder, loc, base.getType(), builder.getF32Type(), base,
                               ArrayRef<LLVM::GEPArg>{index});
  };
  Value warp = arith::DivUIOp::create(builder, loc, thread, constant(kWarp));
  Value lane = arith::RemUIOp::create(builder, loc, thread, constant(kWarp));
  onlyIf(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, lane, constant(0)),
         [&] { LLVM::StoreOp::create(builder, loc, own, slot(warp)); });
  LLVM::CallIntrinsicOp::create(builder, loc,
                                builder.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"),
                                ValueRange{constant(0)});
  Value first = arith::SubIOp::create(
      builder, loc, warp,
      arith::RemUIOp::create(builder, loc, warp, constant(static_cast<int32_t>(warps))));
  Value all;
  for (int32_t i = 0; i < warps; ++i) {
    Value next =
        LLVM::LoadOp::create(builder, loc, builder.getF32Type(), slot(add(first, constant(i))));
    all = all ? combine(kind, all, next) : next;
  }
  return all;
}

Value ThreadWriter::combineRow(Combine kind, Term term, int64_t lanes) {
  Value own = foldColumns(
      lanes, code.number(getNeutral(kind)), [&](Value column, int64_t segment, Value known) {
        forLanes(column, lanes,
                 [&](Value each) { known = combine(kind, known, term(each, segment)); });
        return known;
      });
  return combineThreads(kind, own);
}

/// Every thread computes the values with one element per row; the first thread stores them.
void ThreadWriter::writeRow(ArrayRef<Value> bases, int64_t lanes) {
  auto loadFirst = [&](BlockArgument argument, int64_t) {
    size_t i = argument.getArgNumber();
    return load(i, bases[i]);
  };
  PlaceValues row(kernel, processor, loadFirst);
  computeRow(row, bases, [&](Combine kind, Term term) { return combineRow(kind, term, lanes); });
  auto isWhole = [&](Value value) { return !isOfRow(value); };
  onlyIf(isBelow(threadOfRow, 1), [&] { storeRow(bases, row); });
  if (llvm::any_of(kernel.getYielded(), isWhole))
    foldColumns(lanes, Value(), [&](Value column, int64_t segment, Value) {
      storeResults(bases, column, segment, &row, isWhole, lanes);
      return Value();
    });
}

void ThreadWriter::addToColumns(size_t i, Value index, ArrayRef<Value> numbers) {
  if (sums.empty())
    return KernelWriter::addToColumns(i, index, numbers);
  for (Value number : numbers) {
    sums[nextSum] = combine(Combine::Sum, sums[nextSum], number);
    ++nextSum;
  }
}

/// Computes the rows of a chunk one after another. A thread has the same columns of each row and
/// adds to their sums in registers, or in memory if there are too many.
void ThreadWriter::writeChunk(Value chunk, int64_t lanes) {
  int64_t count = 0;
  forColumnSums([&](size_t) { count += lanes * countSteps(lanes, sizes.back()); });
  sums.assign(count <= kMostSums ? count : 0, code.number(0));
  auto storeSums = [&](function_ref<Value()> next) {
    foldColumns(lanes, Value(), [&](Value column, int64_t, Value) {
      forColumnSums([&](size_t i) {
        Value index = add(scale(chunk, sizes.back()), column);
        SmallVector<Value> numbers;
        for (int64_t lane = 0; lane < lanes; ++lane)
          numbers.push_back(next());
        storeLanes(i, index, numbers);
      });
      return Value();
    });
  };
  if (sums.empty())
    storeSums([&] { return code.number(0); });
  Value first = scale(chunk, shape.getChunkRows());
  auto rows = scf::ForOp::create(
      builder, loc, integer(0), integer(shape.getChunkRows()), integer(1), sums,
      [&](OpBuilder &inner, Location, Value row, ValueRange known) {
        OpBuilder::InsertionGuard guard(builder);
        builder.restoreInsertionPoint(inner.saveInsertionPoint());
        turn = arith::AndIOp::create(
            builder, loc, arith::TruncIOp::create(builder, loc, builder.getI32Type(), row),
            constant(1));
        sums = llvm::to_vector(known);
        nextSum = 0;
        writeRow(getBases(add(first, row), chunk), lanes);
        scf::YieldOp::create(builder, loc, sums);
      });
  turn = {};
  if (sums.empty())
    return;
  size_t stored = 0;
  storeSums([&] { return rows.getResult(stored++); });
}

GpuGrid ThreadWriter::writeByRows() {
  chooseOrder(/*keepsRows=*/true);
  int64_t shortest = sizes.back();
  forSegments([&](int64_t begin, int64_t end) { shortest = std::min(shortest, end - begin); });
  // If the threads of a warp meet, each should have a vector of the shortest segment.
  const int64_t together =
      chooseLanes(std::max<int64_t>(1, combinesRows() ? shortest / kWarp : shortest));
  threads = shareRows(std::max<int64_t>(1, shortest / together));
  Value rowOfBlock = constant(0), inRow = thread;
  if (threads.rows > 1) {
    Value ofRow = constant(static_cast<int32_t>(threads.ofRow));
    rowOfBlock = arith::DivUIOp::create(builder, loc, thread, ofRow);
    inRow = arith::RemUIOp::create(builder, loc, thread, ofRow);
  }
  threadOfRow = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), inRow);
  const int64_t units = getUnits();
  Value unit = count(getIndexOf("ctaid.x"), threads.rows, rowOfBlock, units);
  onlyIf(isBelow(unit, units), [&] {
    ifAligned(together, [&](int64_t lanes) {
      if (shape.getChunkRows() == 0)
        writeRow(getBases(unit), lanes);
      else
        writeChunk(unit, lanes);
    });
  });
  GpuGrid grid{(units + threads.rows - 1) / threads.rows, threads.rows * threads.ofRow};
  if (shape.getChunkRows() > 0)
    grid.residentBlocks = std::max<int64_t>(1, kThreadsAtOnce / grid.threads);
  return grid;
}

GpuGrid ThreadWriter::run() {
  beginFunction(name, /*more=*/0);
  thread = getIndexOf("tid.x");
  GpuGrid grid = shape.isByRows() ? writeByRows() : writeByElements();
  func::ReturnOp::create(builder, loc);
  return grid;
}

GpuGrid fsdp::codegen::writeGpuThreads(KernelOp kernel, const KernelShape &shape, StringRef name,
                                       ModuleOp module) {
  return ThreadWriter(kernel, shape, module, name).run();
}
