//===- KnownResults.cpp - Results of a machine's kernels ------------------===//

#include "KnownResults.h"

#include "Graph.h"

#include <ATen/EmptyTensor.h>

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
  auto change = [&](at::Tensor tensor, unsigned index) {
    auto fact = known->find(index);
    if (fact == known->end())
      return tensor;
    seen.insert(&fact->second);
    if (!tensor.defined() || !tensor.is_meta() || sharesMemory(tensor, arguments))
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
  size_t all = 0, unused = 0;
  const OperatorFact *first = nullptr;
  for (const auto &[call, results] : facts.getAll())
    for (const auto &[index, fact] : results) {
      ++all;
      if (seen.count(&fact))
        continue;
      ++unused;
      first = first ? first : &fact;
    }
  if (!first)
    return "";
  return "--operator-facts: " + std::to_string(unused) + " of " + std::to_string(all) +
         " results are none of this step, among them result " + std::to_string(first->result) +
         " of " + first->call;
}
