//===- RowChain.cpp - Consecutive row operators, some rows at a time -------===//

#include "cpu/RowChain.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>

using namespace fsdp::rt;

/// What a block takes, in floats: not much more than the first-level cache.
static constexpr int64_t kBlockFloats = (48 << 10) / sizeof(float);
/// Floats; a cache line.
static constexpr int64_t kAlignment = 16;

static int64_t alignUp(int64_t floats) {
  return (floats + kAlignment - 1) / kAlignment * kAlignment;
}

//===----------------------------------------------------------------------===//
// Who shares bytes with whom
//===----------------------------------------------------------------------===//

namespace {
/// What an operator reads or writes in the arena.
struct Access {
  const float *data;
  const RowLayout *layout;
};
} // namespace

/// Numbers of a row that are in memory.
static int64_t widthOf(const RowLayout &layout) { return layout.columnStride ? layout.columns : 1; }

static bool overlap(const Access &a, const Access &b, const RowSizes &sizes) {
  auto endOf = [&](const Access &access) {
    const float *end = access.data + widthOf(*access.layout);
    for (int i = 0; i < kRowDimensions; ++i)
      end += (sizes[i] - 1) * access.layout->strides[i];
    return end;
  };
  return a.data < endOf(b) && b.data < endOf(a);
}

/// True if bytes that both share belong to the same row of both.
static bool shareRows(const Access &a, const Access &b, const RowSizes &sizes) {
  std::array<std::pair<int64_t, int64_t>, kRowDimensions> dimensions; // strides and sizes
  for (int i = 0; i < kRowDimensions; ++i) {
    if (sizes[i] > 1 && a.layout->strides[i] != b.layout->strides[i])
      return false;
    dimensions[i] = {a.layout->strides[i], sizes[i]};
  }
  std::sort(dimensions.begin(), dimensions.end());
  // Both in one window, the windows of different rows must not meet.
  int64_t extent =
      std::max(a.data + widthOf(*a.layout), b.data + widthOf(*b.layout)) - std::min(a.data, b.data);
  for (auto [stride, size] : dimensions) {
    if (size == 1)
      continue;
    if (stride < extent)
      return false;
    extent = stride * size;
  }
  return true;
}

/// The last candidate before `index` that writes what `read` reads.
static std::optional<size_t> writerOf(size_t index, const Access &read,
                                      std::span<const ChainCandidate> candidates,
                                      const RowSizes &sizes) {
  while (index-- > 0) {
    const RowOperator &op = *candidates[index].op;
    if (overlap({op.output, &op.shape.output}, read, sizes))
      return index;
  }
  return std::nullopt;
}

namespace {
/// The first `count` candidates as one chain.
class ChainCheck {
public:
  ChainCheck(std::span<const ChainCandidate> candidates, size_t count)
      : candidates(candidates), sizes(candidates[0].op->shape.sizes) {
    for (size_t i = 0; i < count; ++i)
      isLocal.push_back(candidates[i].lastReader <= candidates[count - 1].place &&
                        candidates[i].op->shape.kind != RowKind::ColumnSum);
  }

  /// How many of the first candidates do not stand in each other's way.
  size_t compatible() {
    for (size_t i = 0; i < isLocal.size(); ++i)
      if (!mayFollow(i))
        return i;
    return isLocal.size();
  }
  const std::vector<bool> &locals() const { return isLocal; }

private:
  bool mayFollow(size_t index) {
    const RowOperator &op = *candidates[index].op;
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      Access read{op.inputs[k], &op.shape.inputs[k]};
      if (std::optional<size_t> writer = writerOf(index, read, candidates, sizes)) {
        const RowOperator &from = *candidates[*writer].op;
        Access written{from.output, &from.shape.output};
        int64_t first = read.data - written.data;
        if (from.shape.kind == RowKind::ColumnSum || !shareRows(read, written, sizes) ||
            first < 0 || first + widthOf(*read.layout) > written.layout->columns)
          return false;
        if (isLocal[*writer])
          continue;
      }
      accesses.push_back(read);
    }
    if (isLocal[index])
      return true;
    Access write{op.output, &op.shape.output};
    for (const Access &earlier : accesses)
      if (overlap(earlier, write, sizes) && !shareRows(earlier, write, sizes))
        return false;
    accesses.push_back(write);
    return true;
  }

  std::span<const ChainCandidate> candidates;
  const RowSizes sizes;
  std::vector<bool> isLocal;    // by candidate: what it writes is read by the chain alone
  std::vector<Access> accesses; // of the arena, so far
};
} // namespace

std::optional<RowChain> RowChain::of(std::span<const ChainCandidate> candidates, int threads) {
  size_t count = 0;
  while (count < candidates.size() &&
         candidates[count].op->shape.sizes == candidates[0].op->shape.sizes)
    ++count;
  while (count > 1) {
    ChainCheck check(candidates, count);
    size_t compatible = check.compatible();
    if (compatible == count)
      return RowChain(candidates.first(count), check.locals(), threads);
    count = compatible;
  }
  return std::nullopt;
}

RowChain RowChain::of(const RowOperator &op, int threads) {
  ChainCandidate alone{&op, 0, 1};
  return RowChain({&alone, 1}, {false}, threads);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {
/// Places in the workspace for a row of what stays in the chain; a place is free again when all who
/// read it have run.
class LocalPlaces {
public:
  /// For a row of `columns` written by operator `index` and read up to operator `lastReader`.
  size_t take(int64_t columns, size_t index, size_t lastReader) {
    auto isFree = [&](const Place &place) {
      return place.columns == columns && place.lastReader < index;
    };
    auto place = std::find_if(places.begin(), places.end(), isFree);
    if (place == places.end())
      place = places.insert(places.end(), {columns, 0});
    place->lastReader = lastReader;
    return static_cast<size_t>(place - places.begin());
  }

  int64_t columns() const {
    int64_t sum = 0;
    for (const Place &place : places)
      sum += place.columns;
    return sum;
  }

  /// The first float of each place, and the end of the last one.
  std::vector<int64_t> offsets(int64_t rows) const {
    std::vector<int64_t> starts{0};
    // Places of a power of two would compete for the same sets of the first-level cache.
    for (const Place &place : places)
      starts.push_back(starts.back() + alignUp(rows * place.columns) + kAlignment);
    return starts;
  }

private:
  struct Place {
    int64_t columns;
    size_t lastReader;
  };
  std::vector<Place> places;
};
} // namespace

RowChain::RowChain(std::span<const ChainCandidate> candidates, const std::vector<bool> &isLocal,
                   int threads)
    : sizes(candidates[0].op->shape.sizes) {
  std::vector<std::vector<std::optional<size_t>>> writers(candidates.size()); // of local inputs
  std::vector<size_t> lastReaders(candidates.size(), 0);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const RowOperator &op = *candidates[i].op;
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      std::optional<size_t> writer =
          writerOf(i, {op.inputs[k], &op.shape.inputs[k]}, candidates, sizes);
      if (writer && !isLocal[*writer])
        writer.reset();
      if (writer)
        lastReaders[*writer] = i;
      writers[i].push_back(writer);
    }
  }

  LocalPlaces places;
  std::vector<size_t> placeOf(candidates.size());
  int64_t columns = 0; // of the widest operator
  bool inOrder = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const RowShape &shape = candidates[i].op->shape;
    if (isLocal[i])
      placeOf[i] = places.take(shape.output.columns, i, lastReaders[i]);
    int64_t own = shape.output.columns;
    for (const RowLayout &input : shape.inputs)
      own += widthOf(input);
    columns = std::max(columns, own);
    shares.push_back(static_cast<double>(own));
    inOrder |= shape.kind == RowKind::ColumnSum;
  }
  double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double &share : shares)
    share /= all;
  columns += places.columns();
  blockRows = std::clamp<int64_t>(kBlockFloats / columns, 1, sizes[kRowDimensions - 1]);
  numBlocks = sizes[0] * sizes[1] * ((sizes[2] + blockRows - 1) / blockRows);
  parts = inOrder ? 1 : static_cast<int>(std::clamp<int64_t>(numBlocks, 1, threads));

  const std::vector<int64_t> offsets = places.offsets(blockRows);
  workspace = offsets.back();
  std::vector<Operand> outputs;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const RowOperator &op = *candidates[i].op;
    std::vector<Operand> inputs;
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (!writers[i][k]) {
        inputs.push_back({op.inputs[k], op.shape.inputs[k].strides});
        continue;
      }
      const Operand &from = outputs[*writers[i][k]];
      inputs.push_back({nullptr, from.strides, from.local + (op.inputs[k] - from.data)});
    }
    Operand output{op.output, op.shape.output.strides};
    if (isLocal[i])
      output = {op.output, {0, 0, op.shape.output.columns}, offsets[placeOf[i]]};
    addSteps(op, inputs, output);
    outputs.push_back(output);
  }
}

void RowChain::addSteps(const RowOperator &op, const std::vector<Operand> &inputs,
                        const Operand &output) {
  const RowShape &shape = op.shape;
  Step step;
  step.kernel = rowKernelOf(shape);
  step.number = shape.number;
  step.output = output;
  if (shape.kind == RowKind::Concatenate) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      step.inputs[0] = inputs[k];
      step.columns = shape.inputs[k].columns;
      steps.push_back(step);
      step.output.data += step.columns;
      if (step.output.local >= 0)
        step.output.local += step.columns;
    }
    return;
  }
  std::copy(inputs.begin(), inputs.end(), step.inputs);
  const bool isSum = shape.kind == RowKind::RowSum || shape.kind == RowKind::RowMean;
  step.columns = isSum ? shape.inputs[0].columns : shape.output.columns;
  step.isOneRow = !isSum && shape.kind != RowKind::ColumnSum && output.rowStride() == step.columns;
  for (size_t k = 0; k < inputs.size(); ++k)
    step.isOneRow &= inputs[k].rowStride() == step.columns && shape.inputs[k].columnStride == 1;
  if (shape.kind == RowKind::RowMean)
    step.number = static_cast<float>(step.columns);
  if (shape.kind == RowKind::ColumnSum) {
    step.partialSums = workspace;
    workspace += alignUp(ColumnSums::partialSums(step.columns));
  }
  steps.push_back(step);
}

size_t RowChain::workspaceBytes() const {
  return sizeof(float) * static_cast<size_t>(workspace * parts);
}

void RowChain::runPart(float *memory, int64_t begin, int64_t end) const {
  const int64_t blocksInRow = (sizes[2] + blockRows - 1) / blockRows;
  for (const Step &step : steps)
    if (!step.kernel)
      ColumnSums::begin(memory + step.partialSums, step.columns);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t outer = block / blocksInRow, row = block % blocksInRow * blockRows;
    const RowSizes first{outer / sizes[1], outer % sizes[1], row};
    const int64_t count = std::min(blockRows, sizes[2] - row);
    for (const Step &step : steps) {
      SourceRows a{step.inputs[0].at(memory, first), step.inputs[0].rowStride()};
      if (!step.kernel) {
        ColumnSums::add(memory + step.partialSums, a, step.columns, outer * sizes[2] + row, count);
        continue;
      }
      SourceRows b{step.inputs[1].at(memory, first), step.inputs[1].rowStride()};
      step.kernel(a, b, step.number, step.output.at(memory, first), step.output.rowStride(),
                  step.isOneRow ? step.columns * count : step.columns, step.isOneRow ? 1 : count);
    }
  }
  for (const Step &step : steps)
    if (!step.kernel)
      ColumnSums::finish(memory + step.partialSums, step.output.data, step.columns);
}

void RowChain::run(std::byte *memory) const {
  auto *floats = reinterpret_cast<float *>(memory);
  if (parts == 1) {
    runPart(floats, 0, numBlocks);
    return;
  }
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      runPart(floats + i * workspace, numBlocks * i / parts, numBlocks * (i + 1) / parts);
  });
}
