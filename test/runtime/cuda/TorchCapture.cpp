//===- TorchCapture.cpp - Torch's operators as nodes of a graph -----------===//

#include "TorchCapture.h"

#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <vector>

using namespace fsdp::rt;

static constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
static thread_local const TorchCapture::Take *current = nullptr;

TorchCapture::TorchCapture(Take taker) : take(std::move(taker)), guard(kKey) { current = &take; }
TorchCapture::~TorchCapture() { current = nullptr; }

static std::vector<at::Tensor> tensorsOf(c10::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &value : values)
    if (value.isTensor())
      tensors.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor &tensor : value.toTensorVector())
        tensors.push_back(tensor);
  return tensors;
}

static void callOperator(const c10::OperatorHandle &op, c10::DispatchKeySet,
                         torch::jit::Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard below(kKey);
  size_t count = op.schema().arguments().size();
  std::vector<c10::IValue> arguments(stack->end() - static_cast<ptrdiff_t>(count), stack->end());
  if (op.schema().is_mutable()) {
    stack->resize(stack->size() - count);
    stack->push_back(arguments[0]);
    (*current)([op, arguments] {
      std::vector<c10::IValue> again = arguments;
      op.callBoxed(again);
    });
    return;
  }
  op.callBoxed(*stack);
  // aten::new_empty_strided and its like write nothing: others may own the memory until a write.
  if (op.schema().name().find("empty") != std::string::npos)
    return;
  std::vector<void *> places;
  for (const at::Tensor &result : tensorsOf(*stack))
    places.push_back(result.defined() ? result.data_ptr() : nullptr);
  (*current)([op, arguments, places] {
    std::vector<c10::IValue> again = arguments;
    op.callBoxed(again);
    std::vector<at::Tensor> results = tensorsOf(again);
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].defined() && results[i].data_ptr() != places[i])
        at::from_blob(places[i], results[i].sizes(), results[i].strides(), results[i].options())
            .copy_(results[i]);
  });
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&callOperator>());
}
