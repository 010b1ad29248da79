//===- Optimizers.h - Optimizers by their options ---------------*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_OPTIMIZERS_H
#define FSDP_TEST_RUNTIME_OPTIMIZERS_H

#include "fsdp/Plan/Optimizers.h"

#include <map>
#include <string_view>
#include <vector>

namespace fsdp::test {

/// An optimizer with torch's defaults but for the given options. Options that it does not have are
/// ignored.
inline fsdp_optimizer makeOptimizer(uint32_t kind,
                                    std::map<std::string_view, std::vector<double>> given = {}) {
  fsdp_optimizer optimizer{};
  optimizer.kind = kind;
  for (const plan::OptimizerDefault &known : plan::defaultsOf(plan::kOptimizerKinds[kind])) {
    const plan::OptimizerOption &option = *plan::findOption(known.option);
    for (unsigned i = 0; i < option.numValues(); ++i)
      option.setValue(
          optimizer, given.contains(known.option) ? given[known.option].at(i) : known.values[i], i);
  }
  return optimizer;
}

} // namespace fsdp::test

#endif // FSDP_TEST_RUNTIME_OPTIMIZERS_H
