//===- RowChoice.h - Which operators run in chains ---------------*- C++ -*-===//
//
// Where the kernels of row operators give torch's bits, operators that follow each other become
// chains (RowChain.h). Each distinct operator of a plan is tried once on random data, as products
// are (GemmChoice.h).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_ROWCHOICE_H
#define FSDP_RUNTIME_ROWCHOICE_H

#include "cpu/KernelTrial.h"
#include "cpu/RowOperator.h"

#include <map>

namespace fsdp::rt {

class RowChooser {
public:
  /// `threads`: of an operator.
  explicit RowChooser(int threads) : threads(threads) {}

  /// The row operator for a call of `op` that writes `results`, if its kernel gives the same bits.
  /// May run the operator on other memory; throws what it throws.
  std::optional<RowOperator> choose(const c10::OperatorHandle &op,
                                    const std::vector<c10::IValue> &arguments,
                                    std::span<const at::Tensor> results);

private:
  bool isExact(const RowShape &shape, const c10::OperatorHandle &op,
               const std::vector<c10::IValue> &arguments);

  const int threads;
  KernelTrials trials;
  std::map<RowShape, bool> exact;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ROWCHOICE_H
