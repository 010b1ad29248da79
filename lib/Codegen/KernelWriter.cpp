//===- KernelWriter.cpp - Code generation for all devices -----------------===//

#include "KernelWriter.h"

#include "Arithmetic.h"
#include "fsdp/IR/TensorLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

Arithmetic KernelWriter::arithmetic() { return {builder, loc, processor}; }

Value KernelWriter::integer(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 64);
}

Value KernelWriter::add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }

Value KernelWriter::scale(Value index, int64_t stride) {
  if (stride == 1)
    return index;
  return arith::MulIOp::create(builder, loc, index, integer(stride));
}

void KernelWriter::beginFunction(StringRef name, unsigned more) {
  sizes = llvm::to_vector(shape.getDomain());
  auto addTensor = [&](Value value) { tensors.push_back({value, {}, shape.getStrides(value)}); };
  llvm::for_each(kernel.getBody().front().getArguments(), addTensor);
  llvm::for_each(kernel.getYielded(), addTensor);
  SmallVector<Type> types(tensors.size(), LLVM::LLVMPointerType::get(builder.getContext()));
  types.append(more, builder.getI64Type());
  builder.setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(builder, loc, name, builder.getFunctionType(types, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    tensor.pointer = function.getArgument(i);
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
  }
}

/// No other code writes a kernel's inputs while it runs. On GPUs the loads are invariant, so that a
/// row that is read twice stays in registers across barriers.
Value KernelWriter::loadFrom(Type type, Value address, int64_t alignment) {
  return LLVM::LoadOp::create(builder, loc, type, address, static_cast<unsigned>(alignment),
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              /*isInvariant=*/processor == Processor::Gpu);
}

Value KernelWriter::load(size_t i, Value index) {
  const KernelTensor &tensor = tensors[i];
  Value address = getElementAddress(builder, loc, code, tensor, index);
  Value stored = loadFrom(code.getMemoryType(tensor.getElement()), address, /*alignment=*/0);
  return code.fromMemory(stored, tensor.getElement());
}

void KernelWriter::store(size_t i, Value index, Value scalar) {
  const KernelTensor &tensor = tensors[i];
  Value address = getElementAddress(builder, loc, code, tensor, index);
  LLVM::StoreOp::create(builder, loc, code.toMemory(scalar, tensor.getElement()), address);
}

void KernelWriter::forEach(Value begin, Value end, Value step, function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, step);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar());
}

void KernelWriter::chooseOrder(bool keepsRows) {
  const KernelTensor &result = tensors[numInputs()];
  const size_t last = sizes.size() - 1;
  SmallVector<size_t> order;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && !(keepsRows && i == last))
      order.push_back(i);
  llvm::stable_sort(order,
                    [&](size_t a, size_t b) { return result.strides[a] > result.strides[b]; });
  if (keepsRows)
    order.push_back(last);
  SmallVector<int64_t> merged;
  SmallVector<SmallVector<int64_t>> strides(tensors.size());
  for (size_t dimension : order) {
    const bool isRow = keepsRows && dimension == last;
    bool isOne =
        !merged.empty() && !isRow && llvm::all_of(llvm::enumerate(tensors), [&](auto item) {
          return strides[item.index()].back() == item.value().strides[dimension] * sizes[dimension];
        });
    if (isOne)
      merged.back() *= sizes[dimension];
    else
      merged.push_back(sizes[dimension]);
    for (auto [own, tensor] : llvm::zip_equal(strides, tensors)) {
      if (isOne)
        own.back() = tensor.strides[dimension];
      else
        own.push_back(tensor.strides[dimension]);
    }
  }
  if (merged.empty()) { // a single element
    merged.push_back(1);
    for (SmallVector<int64_t> &own : strides)
      own.push_back(0);
  }
  sizes = std::move(merged);
  for (auto [own, tensor] : llvm::zip_equal(strides, tensors))
    tensor.strides = std::move(own);
}

int64_t KernelWriter::getOuterSize() const {
  return std::accumulate(sizes.begin(), sizes.end() - 1, int64_t(1), std::multiplies<int64_t>());
}

SmallVector<Value> KernelWriter::getBases(Value unit) {
  SmallVector<Value> bases(tensors.size(), integer(0));
  for (size_t i = sizes.size() - 1; i-- > 0;) {
    Value place = unit;
    if (i > 0) {
      Value size = integer(sizes[i]);
      place = arith::RemUIOp::create(builder, loc, unit, size);
      unit = arith::DivUIOp::create(builder, loc, unit, size);
    }
    for (auto [base, tensor] : llvm::zip_equal(bases, tensors))
      if (tensor.strides[i] != 0)
        base = add(base, scale(place, tensor.strides[i]));
  }
  return bases;
}

SmallVector<Value> KernelWriter::getBases(Value row, Value chunk) {
  SmallVector<Value> bases = getBases(row);
  forColumnSums([&](size_t i) { bases[i] = scale(chunk, sizes.back()); });
  return bases;
}

Value KernelWriter::getIndex(size_t i, ArrayRef<Value> bases, Value column, int64_t shift) {
  int64_t stride = tensors[i].strides.back();
  if (stride == 0)
    return bases[i];
  Value index = add(bases[i], scale(column, stride));
  return shift == 0 ? index : add(index, integer(shift * stride));
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

static int64_t getBytes(const KernelTensor &tensor) { return getElementBytes(tensor.getElement()); }

int64_t KernelWriter::chooseLanes(int64_t mostLanes) {
  constexpr int64_t kVectorBytes = 16, kMostLanes = 8, kMostRegisters = 64;
  int64_t least = kVectorBytes, count = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    bool isResult = i >= numInputs() && !isOfRow(tensors[i].value);
    if (isResult && !isVector(i))
      return 1;
    if (isVector(i)) {
      least = std::min(least, getBytes(tensors[i]));
      ++count;
    }
  }
  auto fits = [&](int64_t lanes) {
    bool isWhole = lanes <= mostLanes && lanes * count <= kMostRegisters &&
                   sizes.back() % lanes == 0 && shape.getColumnUnit() % lanes == 0;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (isVector(i))
        isWhole &= llvm::all_of(ArrayRef(tensors[i].strides).drop_back(),
                                [&](int64_t stride) { return stride % lanes == 0; });
    return isWhole;
  };
  int64_t lanes = std::min(kMostLanes, kVectorBytes / least);
  while (lanes > 1 && !fits(lanes))
    lanes /= 2;
  return lanes;
}

int64_t KernelWriter::getAlignment(size_t i, int64_t lanes) {
  return std::min<int64_t>(16, lanes * getBytes(tensors[i]));
}

VectorType KernelWriter::getVectorType(size_t i, int64_t lanes) {
  return VectorType::get({lanes}, code.getMemoryType(tensors[i].getElement()));
}

Value KernelWriter::isAligned(int64_t lanes) {
  Value rest = integer(0);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (isVector(i)) {
      Value address =
          LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), tensors[i].pointer);
      Value low = arith::AndIOp::create(builder, loc, address, integer(getAlignment(i, lanes) - 1));
      rest = arith::OrIOp::create(builder, loc, rest, low);
    }
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rest, integer(0));
}

void KernelWriter::forLanes(Value column, int64_t lanes, function_ref<void(Value)> body) {
  if (lanes == 1)
    return body(column);
  vector.emplace();
  vector->column = column;
  vector->lanes = lanes;
  for (; vector->lane < lanes; ++vector->lane)
    body(vector->lane == 0 ? column : add(column, integer(vector->lane)));
  vector.reset();
}

Value KernelWriter::loadAt(size_t i, ArrayRef<Value> bases, Value column, int64_t shift) {
  if (!vector || !isVector(i))
    return load(i, getIndex(i, bases, column, shift));
  Value &loaded = vector->loaded[{i, shift}];
  if (!loaded) {
    Value address = getElementAddress(builder, loc, code, tensors[i],
                                      getIndex(i, bases, vector->column, shift));
    loaded = loadFrom(getVectorType(i, vector->lanes), address, getAlignment(i, vector->lanes));
  }
  Value stored = mlir::vector::ExtractOp::create(builder, loc, loaded, vector->lane);
  return code.fromMemory(stored, tensors[i].getElement());
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value KernelWriter::computeAt(Value value, ArrayRef<Value> bases, Value column, int64_t segment,
                              const PlaceValues *row) {
  auto load = [&](BlockArgument argument, int64_t shift) {
    return loadAt(argument.getArgNumber(), bases, column, shift);
  };
  return PlaceValues(kernel, processor, load, column, segment, row).get(builder, value);
}

void KernelWriter::computeRow(PlaceValues &row, ArrayRef<Value> bases, AddUp addUp) {
  auto combine = [&](Value operand, Combine kind, RowSite::Term term) {
    return addUp(kind, [&](Value column, int64_t segment) {
      return term(computeAt(operand, bases, column, segment, &row));
    });
  };
  auto get = [&](Value operand) { return row.get(builder, operand); };
  auto pickOf = [&](Value operand, Value column) {
    return pick(operand, column, row, bases, addUp);
  };
  for (auto call : kernel.getBody().getOps<aten::CallOp>()) {
    if (isRowOperator(call, kernel.getRounding())) {
      row.setRowNumbers(call, writeRowNumbers(call, arithmetic(), {combine, get, pickOf}));
      continue;
    }
    if (!isRowReduction(call, kernel.getRounding())) {
      for (Value result : call.getResults())
        if (isOfRow(result))
          row.get(builder, result);
      continue;
    }
    Value result = call.getResult(0);
    if (isRowPick(call, kernel.getRounding())) {
      row.set(result, pickOf(call.getOperand(0), get(call.getOperand(1))));
      continue;
    }
    if (call.getCallee() == "logsumexp.default") {
      row.set(result, code.round(writeLogSumExp(call.getOperand(0), arithmetic(), combine),
                                 cast<RankedTensorType>(result.getType()).getElementType()));
      continue;
    }
    Value sum = combine(call.getOperand(0), Combine::Sum, [](Value number) { return number; });
    if (call.getBaseName() == "mean")
      sum =
          arith::DivFOp::create(builder, loc, sum, code.number(static_cast<double>(sizes.back())));
    row.set(result, code.round(sum, cast<RankedTensorType>(result.getType()).getElementType()));
  }
}

Value KernelWriter::pick(Value value, Value column, PlaceValues &row, ArrayRef<Value> bases,
                         AddUp addUp) {
  Arithmetic m = arithmetic();
  Value isColumn = m.make<arith::CmpIOp>(arith::CmpIPredicate::ult, column, integer(sizes.back()));
  Value picked;
  if (shape.getSegments().size() > 2) { // the column's value depends on its segment
    picked = addUp(Combine::Sum, [&](Value each, int64_t segment) {
      Value isPicked = m.make<arith::CmpIOp>(arith::CmpIPredicate::eq, each, column);
      return m.select(isPicked, computeAt(value, bases, each, segment, &row), m.number(0));
    });
  } else {
    Value known = m.select(isColumn, column, integer(0));
    picked = computeAt(value, bases, known, /*segment=*/0, &row);
  }
  return m.select(isColumn, picked, m.number(NAN));
}

Value KernelWriter::combine(Combine kind, Value a, Value b) {
  if (kind == Combine::Largest)
    return arith::MaxNumFOp::create(builder, loc, a, b);
  return arith::AddFOp::create(builder, loc, a, b);
}

double KernelWriter::getNeutral(Combine kind) { return kind == Combine::Largest ? -INFINITY : 0; }

void KernelWriter::storeRow(ArrayRef<Value> bases, PlaceValues &row) {
  for (size_t i = numInputs(); i < tensors.size(); ++i)
    if (isOfRow(tensors[i].value))
      store(i, bases[i], row.get(builder, tensors[i].value));
}

/// Adds in memory, which only this thread accesses.
void KernelWriter::addToColumns(size_t i, Value index, ArrayRef<Value> numbers) {
  for (auto [lane, number] : llvm::enumerate(numbers)) {
    Value own = lane == 0 ? index : add(index, integer(static_cast<int64_t>(lane)));
    Value address = getElementAddress(builder, loc, code, tensors[i], own);
    Value sum = LLVM::LoadOp::create(builder, loc, builder.getF32Type(), address);
    LLVM::StoreOp::create(builder, loc, combine(Combine::Sum, sum, number), address);
  }
}

void KernelWriter::storeResults(ArrayRef<Value> bases, Value column, int64_t segment,
                                const PlaceValues *row, function_ref<bool(Value)> wanted,
                                int64_t lanes) {
  SmallVector<SmallVector<Value>> results(tensors.size());
  forLanes(column, lanes, [&](Value own) {
    auto load = [&](BlockArgument argument, int64_t shift) {
      return loadAt(argument.getArgNumber(), bases, own, shift);
    };
    PlaceValues values(kernel, processor, load, own, segment, row);
    for (size_t i = numInputs(); i < tensors.size(); ++i)
      if (wanted(tensors[i].value))
        results[i].push_back(values.get(builder, isColumnSum(i) ? getSummed(i) : tensors[i].value));
  });
  for (size_t i = numInputs(); i < tensors.size(); ++i) {
    if (results[i].empty())
      continue;
    Value index = getIndex(i, bases, column);
    if (isColumnSum(i)) {
      addToColumns(i, index, results[i]);
      continue;
    }
    storeLanes(i, index, results[i]);
  }
}

void KernelWriter::storeLanes(size_t i, Value index, ArrayRef<Value> scalars) {
  const int64_t lanes = scalars.size();
  if (lanes == 1)
    return store(i, index, scalars.front());
  auto stored = llvm::map_to_vector(
      scalars, [&](Value scalar) { return code.toMemory(scalar, tensors[i].getElement()); });
  Value together =
      mlir::vector::FromElementsOp::create(builder, loc, getVectorType(i, lanes), stored);
  Value address = getElementAddress(builder, loc, code, tensors[i], index);
  LLVM::StoreOp::create(builder, loc, together, address, getAlignment(i, lanes));
}
