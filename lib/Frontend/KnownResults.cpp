//===- KnownResults.cpp - Results as a machine's kernels make them --------===//

#include "KnownResults.h"

#include "Graph.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

using namespace fsdp;
using namespace fsdp::frontend;
using c10::IValue;

KnownResults::KnownResults(const std::vector<std::string> &paths) {
  for (const std::string &path : paths)
    if (std::string problem = facts.load(path); !problem.empty())
      throw CaptureError("--operator-facts " + path + ": " + problem);
}

static bool sharesMemory(const at::Tensor &tensor, std::span<const IValue> arguments) {
  bool isShared = false;
  for (const IValue &argument : arguments)
    forEachTensor(argument, [&](const at::Tensor &other) {
      isShared |= other.has_storage() && tensor.storage().is_alias_of(other.storage());
    });
  return isShared;
}

void KnownResults::apply(const c10::OperatorHandle &op, std::span<const IValue> arguments,
                         std::span<IValue> results) {
  if (facts.isEmpty())
    return;
  const std::string call = describeCall(op, arguments);
  const std::map<unsigned, OperatorFact> *known = facts.lookup(call);
  if (!known)
    return;
  seen.insert(call);
  auto change = [&](at::Tensor tensor, unsigned index) {
    auto fact = known->find(index);
    if (fact == known->end() || !tensor.defined() || !tensor.is_meta() ||
        sharesMemory(tensor, arguments))
      return tensor;
    return at::Tensor(at::detail::empty_strided_meta(fact->second.sizes, fact->second.strides,
                                                     fact->second.dtype));
  };
  for (size_t slot = 0; slot < results.size(); ++slot) {
    IValue &result = results[slot];
    if (result.isTensor()) {
      result = change(result.toTensor(), slot);
    } else if (result.isTensorList()) {
      std::vector<at::Tensor> list = result.toTensorVector();
      for (size_t i = 0; i < list.size(); ++i)
        list[i] = change(list[i], i);
      result = list;
    }
  }
}

std::string KnownResults::describeUnused() const {
  size_t numUnused = facts.getAll().size() - seen.size();
  if (numUnused == 0)
    return "";
  auto unused = std::find_if(facts.getAll().begin(), facts.getAll().end(),
                             [&](const auto &entry) { return !seen.count(entry.first); });
  return "--operator-facts: " + std::to_string(numUnused) + " of " +
         std::to_string(facts.getAll().size()) + " calls are none of this step, among them " +
         unused->first;
}
