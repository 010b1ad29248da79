//===- RowChain.h - Consecutive row operators, some rows at a time -*- C++ -*-===//
//
// Row operators that follow each other run one after another on a few rows, which stay in the
// first-level cache, then on the next ones. What nobody but the chain reads does not go to memory.
// Each operator computes the numbers that it would compute alone.
//
// Memory of the arena is used again and again: an operator's result may lie where an earlier one's
// operand was. Operators make a chain only if all bytes that two of them share, and one of them
// writes, belong to the same rows of both.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_ROWCHAIN_H
#define FSDP_RUNTIME_ROWCHAIN_H

#include "cpu/RowKernels.h"
#include "cpu/RowOperator.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace fsdp::rt {

/// An operator that may become part of a chain.
struct ChainCandidate {
  const RowOperator *op = nullptr;
  size_t place = 0;      // in the order of a step
  size_t lastReader = 0; // the last place that reads what it writes
};

class RowChain {
public:
  /// Of all candidates, which follow each other, or of as many of the first ones as can be one.
  /// Nothing if that is only one. `threads`: of an operator.
  static std::optional<RowChain> of(std::span<const ChainCandidate> candidates, int threads);
  /// Of one operator.
  static RowChain of(const RowOperator &op, int threads);

  /// Operators.
  size_t size() const { return shares.size(); }
  size_t workspaceBytes() const;
  /// The part of the time that an operator takes, judged by the bytes that it moves.
  double shareOf(size_t index) const { return shares[index]; }

  /// Computes all rows. `workspace` is 64-byte aligned; its contents do not matter.
  void run(std::byte *workspace) const;

private:
  /// Rows in the arena, or, with `local` >= 0, from that float of the workspace on.
  struct Operand {
    float *data = nullptr;
    RowSizes strides{};
    int64_t local = -1;
    float *at(float *workspace, const RowSizes &first) const {
      return local >= 0
                 ? workspace + local
                 : data + first[0] * strides[0] + first[1] * strides[1] + first[2] * strides[2];
    }
    int64_t rowStride() const { return strides[kRowDimensions - 1]; }
  };
  struct Step {
    RowKernel kernel = nullptr; // null: a ColumnSum
    float number = 0;
    Operand inputs[2];
    Operand output;
    int64_t columns = 0;
    bool isOneRow = false;    // rows of all operands have no gaps
    int64_t partialSums = -1; // of a ColumnSum: where they are in the workspace
  };

  RowChain(std::span<const ChainCandidate> candidates, const std::vector<bool> &isLocal,
           int threads);

  void runPart(float *workspace, int64_t begin, int64_t end) const;
  void addSteps(const RowOperator &op, const std::vector<Operand> &inputs, const Operand &output);

  RowSizes sizes{};
  int64_t blockRows = 1; // at a time, of the last dimension that numbers rows
  int64_t numBlocks = 0; // in all
  int64_t workspace = 0; // floats, of a thread
  int parts = 1;
  std::vector<Step> steps; // some operators take several
  std::vector<double> shares;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ROWCHAIN_H
