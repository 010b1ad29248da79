//===- OperatorCall.cpp - One resolved operator call of a plan -------------===//

#include "executor/OperatorCall.h"

#include <ATen/core/List.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <optional>

using namespace fsdp::rt;

static constexpr size_t kScratchAlignment = 64;
/// Larger than the allocations that libraries keep for themselves.
static constexpr size_t kLargeBytes = size_t(64) << 20;

static size_t alignUp(size_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

Result<OperatorCall> OperatorCall::resolve(const PlanView &view, const fsdp_entry &entry,
                                           std::span<const at::Tensor> tensors, std::byte *arena,
                                           c10::Device device, unsigned rank) {
  Result<c10::OperatorHandle> op = findOperator(view, entry);
  if (!op.ok())
    return op.status();
  OperatorCall call(*op);
  call.entry = &entry;
  call.isDerivative = op->operator_name().name.ends_with("_backward");
  const std::vector<c10::Argument> &returns = op->schema().returns();
  call.returnsList = returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType;
  if (!call.returnsList && entry.num_results > returns.size())
    return Status::error(view.describeEntry(entry) + ": " + std::to_string(entry.num_results) +
                         " results, the operator has " + std::to_string(returns.size()));
  Result<std::vector<c10::IValue>> arguments =
      bindArguments(view, entry, *op, tensors, device, rank);
  if (!arguments.ok())
    return arguments.status();
  call.arguments = std::move(*arguments);
  std::span<const int64_t> values = view.results(entry);
  for (uint32_t slot = 0; slot < values.size(); ++slot) {
    if (values[slot] < 0)
      continue;
    const fsdp_value &value = view.values()[values[slot]];
    if (view.isUndefined(value))
      continue;
    size_t bytes = static_cast<size_t>(view.spanBytes(value));
    call.results.push_back({slot, static_cast<uint32_t>(values[slot]), view.numElements(value),
                            bytes, bytes ? arena + value.offset : nullptr});
  }
  return call;
}

void OperatorCall::invoke(CallContext &context) {
  context.stack.assign(arguments.begin(), arguments.end());
  // As in eager training, kernels of the forward see that a backward will follow, derivatives do
  // not.
  at::AutoGradMode gradMode(!isDerivative);
  if (entry->rng < 0) {
    op.callBoxed(context.stack);
    return;
  }
  struct Draw {
    OperatorRuntime &runtime;
    Draw(OperatorRuntime &runtime, int64_t position) : runtime(runtime) {
      runtime.beginDraw(position);
    }
    ~Draw() { runtime.endDraw(); }
  } draw(context.runtime, entry->rng);
  op.callBoxed(context.stack);
}

at::Tensor OperatorCall::resultOf(const CallContext &context, const PlannedResult &result) const {
  const c10::IValue &returned = context.stack[returnsList ? 0 : result.slot];
  if (returnsList) {
    std::vector<at::Tensor> list = returned.toTensorVector();
    return result.slot < list.size() ? list[result.slot] : at::Tensor();
  }
  return returned.isTensor() ? returned.toTensor() : at::Tensor();
}

/// True if tensors of these sizes and strides have the same layout: the stride of a dimension of
/// size 1 does not matter.
static bool sameStrides(const at::Tensor &tensor, std::span<const int64_t> sizes,
                        std::span<const int64_t> strides) {
  if (tensor.numel() == 0)
    return true;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && tensor.stride(static_cast<int64_t>(i)) != strides[i])
      return false;
  return true;
}

Status OperatorCall::mismatch(const CallContext &context, const PlannedResult &result,
                              const at::Tensor &actual) const {
  const PlanView &view = context.view;
  std::string where =
      view.describeEntry(*entry) + ": result " + std::to_string(result.slot) + " is ";
  std::string expected = ", the plan says " + view.describeValue(view.values()[result.value]);
  if (!actual.defined())
    return Status::error(where + "undefined" + expected);
  return Status::error(where +
                       describeTensor(static_cast<uint32_t>(actual.scalar_type()),
                                      {actual.sizes().data(), actual.sizes().size()},
                                      {actual.strides().data(), actual.strides().size()}) +
                       expected);
}

Status OperatorCall::check(const CallContext &context, const PlannedResult &result,
                           const at::Tensor &actual) const {
  const fsdp_value &value = context.view.values()[result.value];
  std::span<const int64_t> sizes = context.view.sizes(value);
  if (actual.defined() && static_cast<uint32_t>(actual.scalar_type()) == value.dtype &&
      actual.sizes().equals(at::IntArrayRef(sizes.data(), sizes.size())))
    return Status();
  return mismatch(context, result, actual);
}

bool OperatorCall::hasPlannedStrides(const CallContext &context, const PlannedResult &result,
                                     const at::Tensor &actual) const {
  const fsdp_value &value = context.view.values()[result.value];
  return sameStrides(actual, context.view.sizes(value), context.view.strides(value));
}

void OperatorCall::noteFact(CallContext &context, const PlannedResult &result,
                            const at::Tensor &actual) const {
  if (!actual.defined() ||
      (check(context, result, actual).ok() && hasPlannedStrides(context, result, actual)))
    return;
  context.facts.push_back({fsdp::describeCall(op, arguments), result.slot, actual.scalar_type(),
                           actual.sizes().vec(), actual.strides().vec()});
}

at::Tensor OperatorCall::placeOf(const CallContext &context, const PlannedResult &result,
                                 const at::TensorOptions &options) {
  const fsdp_value &value = context.view.values()[result.value];
  std::span<const int64_t> sizes = context.view.sizes(value), strides = context.view.strides(value);
  return at::from_blob(result.address, at::IntArrayRef(sizes.data(), sizes.size()),
                       at::IntArrayRef(strides.data(), strides.size()), options);
}

Status OperatorCall::checkView(CallContext &context) const {
  // The offset of as_strided counts from the beginning of a storage, but values here have no
  // storage of their own.
  for (const c10::Argument &place : op.schema().arguments())
    if (place.name() == "storage_offset")
      return Status();
  context.stack.assign(arguments.begin(), arguments.end());
  op.callBoxed(context.stack);
  for (const PlannedResult &result : results) {
    at::Tensor actual = resultOf(context, result);
    if (Status status = check(context, result, actual); !status.ok())
      return status;
    if (!hasPlannedStrides(context, result, actual))
      return mismatch(context, result, actual);
    if (result.elements != 0 && actual.const_data_ptr() != result.address)
      return Status::error(
          context.view.describeEntry(*entry) + ": the view begins " +
          std::to_string(static_cast<const std::byte *>(actual.const_data_ptr()) - result.address) +
          " bytes after its place in the plan, " +
          context.view.describeValue(context.view.values()[result.value]));
  }
  context.stack.clear();
  return Status();
}

Status OperatorCall::measure(CallContext &context) {
  OperatorAllocations &recorder = context.allocations;
  struct Recording {
    OperatorAllocations &recorder;
    Recording(OperatorAllocations &recorder, std::vector<PlannedAllocation> expected)
        : recorder(recorder) {
      recorder.beginRecording(std::move(expected));
    }
    ~Recording() { recorder.end(); }
  };
  int64_t before = recorder.fallbacks;
  /// The planned place of an allocation that holds results, if these agree on it.
  struct Place {
    std::byte *base = nullptr;
    size_t bytes = 0; // bytes reserved there for the results
    bool consistent = true;
  };
  std::vector<std::optional<Place>> places;
  // Large results are served at their planned addresses from the start, so that the first step
  // needs no further memory for them. If a temporary of the same size takes such an address, the
  // result is moved.
  std::vector<PlannedAllocation> expected;
  for (const PlannedResult &result : results)
    if (result.spanBytes >= kLargeBytes)
      expected.push_back({result.spanBytes, result.address});
  {
    Recording recording(recorder, std::move(expected));
    invoke(context);
    recorder.stopServing();
    places.resize(recorder.recorded().size());
    unmeasured.clear();
    for (const PlannedResult &result : results)
      noteFact(context, result, resultOf(context, result));
    for (PlannedResult &result : results) {
      at::Tensor actual = resultOf(context, result);
      if (Status status = check(context, result, actual); !status.ok())
        return status;
      result.isRelaid = !hasPlannedStrides(context, result, actual);
      if (result.elements == 0 || result.isRelaid)
        continue;
      const auto *data = static_cast<const std::byte *>(actual.const_data_ptr());
      const auto *storage = static_cast<const std::byte *>(actual.storage().data());
      bool isRecorded = false;
      for (size_t i = places.size(); i-- > 0 && !isRecorded;) {
        const RecordedAllocation &allocation = recorder.recorded()[i];
        if (allocation.address != storage || allocation.freed)
          continue;
        isRecorded = true;
        size_t offset = static_cast<size_t>(data - storage);
        Place place{result.address - offset, offset + result.spanBytes, true};
        if (places[i]) {
          place.consistent = places[i]->consistent && places[i]->base == place.base;
          place.bytes = std::max(place.bytes, places[i]->bytes);
        } else {
          // The first result must begin at the allocation's start, else bytes precede it that no
          // result reserves.
          place.consistent = offset == 0;
        }
        places[i] = place;
      }
      // For example host memory: the seeds of attention are there unless a graph is captured.
      if (!isRecorded && !isPlacedMemory(storage))
        unmeasured.push_back({result.spanBytes, result.address});
    }
    if (Status status = moveToPlace(context); !status.ok())
      return status;
    context.stack.clear();
  }
  noteFallbacks(context, recorder.fallbacks - before);
  if (size_t kept = recorder.keptBytes())
    return Status::error(context.view.describeEntry(*entry) + ": the operator keeps " +
                         std::to_string(kept) + " bytes that it got in a result's place");

  for (size_t i = 0; i < places.size(); ++i) {
    const RecordedAllocation &allocation = recorder.recorded()[i];
    PlannedAllocation planned{allocation.bytes, nullptr};
    // Memory that the operator keeps is not planned.
    if (allocation.freed) {
      if (places[i] && places[i]->consistent && allocation.bytes <= places[i]->bytes) {
        planned.address = places[i]->base;
      } else {
        temporaries.emplace_back(i, scratchSize);
        scratchSize += alignUp(allocation.bytes);
      }
    }
    allocations.push_back(planned);
  }
  return Status();
}

void OperatorCall::leaveOut(CallContext &context) const {
  context.stack.clear();
  if (entry->kind == FSDP_VIEW)
    return;
  for (const PlannedResult &result : results)
    if (result.spanBytes != 0)
      context.compute.zero(result.address, result.spanBytes);
}

bool OperatorCall::chooseKernel(std::span<const at::Tensor> tensors, KernelChooser &chooser) {
  if (returnsList)
    return false;
  // By position in the schema; undefined results are not wanted.
  std::vector<at::Tensor> wanted(op.schema().returns().size());
  for (const PlannedResult &result : results)
    wanted[result.slot] = tensors[result.value];
  kernel = chooser.choose(op, arguments, wanted);
  return kernel != nullptr;
}

/// True if a list of indices contains masks: the host needs the number of elements that they
/// select.
static bool hasMask(const c10::IValue &argument) {
  if (!argument.isList())
    return false;
  for (const c10::IValue &item : argument.toListRef())
    if (item.isTensor() && item.toTensor().defined() &&
        (item.toTensor().scalar_type() == at::kBool || item.toTensor().scalar_type() == at::kByte))
      return true;
  return false;
}

bool OperatorCall::waitsForDevice() const {
  const std::string &name = op.schema().name();
  // torch tags `index` as data-dependent only because of masks.
  if (name.starts_with("aten::index") || name.starts_with("aten::_index"))
    return std::any_of(arguments.begin(), arguments.end(), hasMask);
  return op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
}

void OperatorCall::placeTemporaries(std::byte *scratch) {
  workspace = scratch;
  for (auto [index, offset] : temporaries)
    allocations[index].address = scratch + offset;
}

bool OperatorCall::isPlaced(const CallContext &context, const PlannedResult &result) const {
  if (result.isRelaid)
    return false;
  const c10::IValue &returned = context.stack[result.slot];
  if (!returned.isTensor())
    return false;
  const at::TensorImpl *tensor = returned.unsafeToTensorImpl();
  return tensor->numel() == result.elements && tensor->data() == result.address;
}

Status OperatorCall::run(CallContext &context) {
  if (kernel && kernel->run(workspace))
    return Status();
  int64_t fallbacks = context.allocations.fallbacks;
  int64_t elsewhere = context.countOtherThreads ? allocationsByOtherThreads() : 0;
  struct Serving {
    OperatorAllocations &allocations;
    ~Serving() { allocations.end(); }
  };
  bool placed = !returnsList;
  {
    context.allocations.beginPlanned(allocations, unmeasured);
    Serving serving{context.allocations};
    invoke(context);
  }
  if (context.countOtherThreads)
    context.allocations.fallbacks += allocationsByOtherThreads() - elsewhere;
  for (const PlannedResult &result : results)
    placed = placed && isPlaced(context, result);
  Status status = placed ? Status() : moveToPlace(context);
  if (context.allocations.fallbacks != fallbacks)
    noteFallbacks(context, context.allocations.fallbacks - fallbacks);
  context.stack.clear();
  return status;
}

Status OperatorCall::moveToPlace(CallContext &context) {
  std::vector<std::pair<const PlannedResult *, at::Tensor>> misplaced;
  for (const PlannedResult &result : results) {
    at::Tensor actual = resultOf(context, result);
    if (!actual.defined() || actual.numel() != result.elements)
      return Status::error(context.view.describeEntry(*entry) + ": result " +
                           std::to_string(result.slot) + " has " +
                           std::to_string(actual.defined() ? actual.numel() : 0) +
                           " elements, the plan says " + std::to_string(result.elements));
    if (result.elements != 0 && (result.isRelaid || actual.const_data_ptr() != result.address))
      misplaced.emplace_back(&result, std::move(actual));
  }
  // A result may be in the place of another one, so all are copied away before any is moved. A
  // result with other strides may overlap its own place.
  bool takesAway = misplaced.size() > 1;
  for (auto &[result, tensor] : misplaced) {
    if (!isPlacedMemory(tensor.const_data_ptr()))
      continue;
    if (result->isRelaid) {
      if (takesAway || tensor.const_data_ptr() == result->address)
        tensor = tensor.clone();
    } else if (takesAway) {
      at::Tensor taken =
          at::empty({static_cast<int64_t>(result->spanBytes)}, tensor.options().dtype(at::kByte));
      context.compute.copy(taken.data_ptr(), tensor.const_data_ptr(), result->spanBytes);
      tensor = std::move(taken);
      ++context.allocations.fallbacks;
    }
  }
  for (auto &[result, tensor] : misplaced) {
    if (result->isRelaid)
      placeOf(context, *result, tensor.options()).copy_(tensor);
    else
      context.compute.copy(result->address, tensor.const_data_ptr(), result->spanBytes);
    context.statistics.copiedBytes += static_cast<int64_t>(result->spanBytes);
    if (result->isRelaid) {
      RelaidResults &copies = context.statistics.relaid[context.view.describeEntry(*entry)];
      ++copies.results;
      copies.bytes += static_cast<int64_t>(result->spanBytes);
    }
  }
  return Status();
}

void OperatorCall::noteFallbacks(CallContext &context, int64_t count) const {
  if (count)
    context.statistics.fallbacksByOperator[context.view.string(entry->callee)] += count;
}
