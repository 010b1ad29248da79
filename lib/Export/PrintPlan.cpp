//===- PrintPlan.cpp - A plan as text -------------------------------------===//

#include "fsdp/Export/LowerToPlan.h"
#include "fsdp/Plan/DTypes.h"
#include "fsdp/Plan/Optimizers.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

static StringRef getDTypeName(uint32_t dtype) {
  const fsdp::plan::DTypeFacts *facts = fsdp::plan::findDType(dtype);
  return facts ? facts->name : "?";
}

static const char *getStreamName(uint32_t stream) {
  static constexpr const char *names[] = {"compute", "gather", "reduce", "replicate"};
  return names[stream];
}

namespace {

class Printer {
public:
  Printer(const fsdp_plan &plan, raw_ostream &os) : plan(plan), os(os) {}

  void printAll();

private:
  const char *string(uint32_t offset) const { return plan.strings + offset; }
  ArrayRef<int64_t> integers(uint32_t first, uint32_t count) const {
    return ArrayRef(plan.integers + first, count);
  }
  void printAliases(uint32_t first, uint32_t count) {
    for (int64_t alias : integers(first, count))
      os << " alias " << string(alias);
  }
  void printList(ArrayRef<int64_t> numbers) {
    os << '[';
    interleaveComma(numbers, os);
    os << ']';
  }

  void printOptimizer(const fsdp_optimizer &optimizer);
  void printClipping();
  void printGroup(const fsdp_group &group);
  /// `%mm f32[2, 4] at 128`, with strides if they are not row-major.
  void printValue(uint32_t index);
  void printNames(ArrayRef<int64_t> values);
  void printArgument(const fsdp_argument &argument);
  void printEntry(const fsdp_entry &entry);
  void printKernelEntry(const fsdp_entry &entry);
  void printCall(const fsdp_entry &entry);
  void printReduction(const fsdp_entry &start) {
    static constexpr const char *ops[] = {"average", "sum", "premul_sum", "max"};
    if (start.reduce_op != FSDP_AVERAGE || start.stream == FSDP_COMPUTE)
      os << ", " << ops[start.reduce_op];
    if (start.predivide != 0)
      os << format(" predivide %g", start.predivide);
    if (start.postdivide != 0)
      os << format(" postdivide %g", start.postdivide);
  }
  void printExpected(const fsdp_entry &start) {
    if (start.expected_ns)
      os << ", expected " << start.expected_ns << " ns";
  }

  const fsdp_plan &plan;
  raw_ostream &os;
};

} // namespace

void Printer::printOptimizer(const fsdp_optimizer &optimizer) {
  const fsdp::plan::OptimizerKind &kind = fsdp::plan::kindOf(optimizer);
  os << StringRef(kind.name);
  for (const fsdp::plan::OptimizerOption &option : fsdp::plan::kOptimizerOptions) {
    const double value = option.valueOf(optimizer);
    if (!fsdp::plan::findDefault(kind, option.name) || (option.isOptional && value == 0))
      continue;
    os << ' ' << StringRef(option.name);
    if (option.numValues() == 2)
      os << " [" << value << ", " << option.valueOf(optimizer, 1) << ']';
    else if (!option.isFlag())
      os << ' ' << value;
  }
  if (optimizer.options & FSDP_OWN_LR)
    os << " own_lr";
}

void Printer::printClipping() {
  static constexpr const char *norms[] = {"", "1", "2", "inf"};
  if (plan.clip_grad_norm != 0)
    os << " clip_grad_norm " << plan.clip_grad_norm << " clip_norm_type "
       << norms[plan.clip_norm_type];
  if (plan.loss_scale.init != 0)
    os << " loss_scale " << plan.loss_scale.init << " growth_factor "
       << plan.loss_scale.growth_factor << " backoff_factor " << plan.loss_scale.backoff_factor
       << " growth_interval " << plan.loss_scale.growth_interval;
}

void Printer::printGroup(const fsdp_group &group) {
  os << "group @" << string(group.name) << ' '
     << (group.layout == FSDP_LAYOUT_FLAT ? "flat" : "per_param") << ' '
     << getDTypeName(group.dtype) << ", " << group.shard_elements << " elements per rank at "
     << group.shard;
  if (group.shards != plan.world_size / plan.replicas)
    os << ", over " << group.shards << " ranks";
  if (group.parameters_on_host)
    os << ", on the host at " << group.host_shard;
  if (group.gather_dtype != group.dtype)
    os << ", gathered as " << getDTypeName(group.gather_dtype) << " from "
       << (group.parameters_on_host ? group.host_gather_shard : group.gather_shard);
  if (group.reduce_dtype != group.dtype)
    os << ", reduced as " << getDTypeName(group.reduce_dtype);
  for (auto [state, dtype] : zip_equal(group.state, group.state_dtype))
    if (state >= 0)
      os << ", state " << (dtype == group.dtype ? "" : getDTypeName(dtype).str() + " ") << "at "
         << state;
  for (int64_t state : group.host_state)
    if (state >= 0)
      os << ", on the host at " << state;
  os << '\n';
  for (const fsdp_parameter &parameter :
       ArrayRef(plan.parameters + group.first_parameter, group.num_parameters)) {
    os << "  parameter " << string(parameter.name) << ' ' << getDTypeName(parameter.dtype);
    printList(integers(parameter.first_size, parameter.num_dims));
    if (parameter.shard_dim)
      os << " cut on dimension " << parameter.shard_dim;
    printAliases(parameter.first_alias, parameter.num_aliases);
    if (parameter.optimizer)
      os << " optimizer group " << parameter.optimizer;
    for (const fsdp_piece &piece :
         ArrayRef(plan.pieces + parameter.first_piece, parameter.num_pieces))
      os << ", rank " << piece.rank << " holds " << piece.first << " + " << piece.count << " at "
         << piece.shard_offset;
    os << '\n';
  }
}

void Printer::printValue(uint32_t index) {
  const fsdp_value &value = plan.values[index];
  ArrayRef<int64_t> sizes = integers(value.first_size, value.num_dims);
  ArrayRef<int64_t> strides = integers(value.first_size + value.num_dims, value.num_dims);
  os << string(value.name) << ' ' << getDTypeName(value.dtype);
  printList(sizes);
  uint64_t expected = 1; // may overflow in a corrupt plan
  bool rowMajor = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    rowMajor &= sizes[i] == 1 || static_cast<uint64_t>(strides[i]) == expected;
    expected *= static_cast<uint64_t>(sizes[i]);
  }
  if (!rowMajor) {
    os << " strides ";
    printList(strides);
  }
  os << " at " << value.offset;
}

void Printer::printNames(ArrayRef<int64_t> values) {
  interleaveComma(values, os, [&](int64_t value) {
    if (value < 0)
      os << "none";
    else
      os << string(plan.values[value].name);
  });
}

void Printer::printArgument(const fsdp_argument &argument) {
  ArrayRef<int64_t> list = integers(argument.index, argument.count);
  switch (argument.kind) {
  case FSDP_ARG_NONE:
    os << "none";
    break;
  case FSDP_ARG_VALUE:
    os << string(plan.values[argument.index].name);
    break;
  case FSDP_ARG_VALUE_LIST:
    os << '[';
    printNames(list);
    os << ']';
    break;
  case FSDP_ARG_INT:
    os << argument.payload.integer;
    break;
  case FSDP_ARG_FLOAT:
    os << argument.payload.real;
    break;
  case FSDP_ARG_BOOL:
    os << (argument.payload.integer ? "true" : "false");
    break;
  case FSDP_ARG_STRING:
    os << '"' << string(argument.index) << '"';
    break;
  case FSDP_ARG_INT_LIST:
    printList(list);
    break;
  case FSDP_ARG_FLOAT_LIST:
    os << '[';
    interleaveComma(list, os, [&](int64_t bits) { os << bit_cast<double>(bits); });
    os << ']';
    break;
  case FSDP_ARG_BOOL_LIST:
    os << '[';
    interleaveComma(list, os, [&](int64_t boolean) { os << (boolean ? "true" : "false"); });
    os << ']';
    break;
  case FSDP_ARG_DTYPE:
    os << getDTypeName(argument.payload.integer);
    break;
  case FSDP_ARG_DEVICE:
    os << "device";
    break;
  case FSDP_ARG_MEMORY_FORMAT:
    os << "memory_format " << argument.payload.integer;
    break;
  case FSDP_ARG_LAYOUT:
    os << "strided";
    break;
  case FSDP_ARG_PART:
    os << "part of " << argument.payload.integer;
    break;
  }
}

void Printer::printCall(const fsdp_entry &entry) {
  os << (entry.kind == FSDP_VIEW ? "view " : "call ");
  interleaveComma(integers(entry.first_result, entry.num_results), os, [&](int64_t value) {
    if (value < 0)
      os << "none";
    else
      printValue(value);
  });
  os << " = " << string(entry.callee);
  if (entry.overload)
    os << '.' << string(entry.overload);
  os << '(';
  interleaveComma(ArrayRef(plan.arguments + entry.first_argument, entry.num_arguments), os,
                  [&](const fsdp_argument &argument) { printArgument(argument); });
  os << ") in \"" << string(entry.module) << '"';
  if (entry.rng >= 0)
    os << " rng " << entry.rng;
}

void Printer::printKernelEntry(const fsdp_entry &entry) {
  os << "kernel ";
  interleaveComma(integers(entry.first_result, entry.num_results), os,
                  [&](int64_t value) { printValue(value); });
  os << " = @" << string(plan.kernels[entry.target].name) << '(';
  interleaveComma(ArrayRef(plan.arguments + entry.first_argument, entry.num_arguments), os,
                  [&](const fsdp_argument &argument) { printArgument(argument); });
  os << ") in \"" << string(entry.module) << '"';
}

void Printer::printEntry(const fsdp_entry &entry) {
  os << (entry.phase == FSDP_FORWARD ? "  fwd " : "  bwd ");
  auto group = [&] { return string(plan.groups[entry.target].name); };
  switch (entry.kind) {
  case FSDP_CALL:
  case FSDP_VIEW:
    printCall(entry);
    break;
  case FSDP_ALL_GATHER_START:
    os << "all_gather.start @" << group() << " on " << getStreamName(entry.stream) << ", handle "
       << entry.handle << ": " << entry.bytes << " bytes per rank from " << entry.source
       << (entry.from_host ? " on the host" : "") << " to " << entry.destination;
    if (uint32_t ranks = plan.communicators[entry.communicator].ranks;
        ranks < plan.groups[entry.target].shards)
      os << ", over " << ranks << " ranks";
    printExpected(entry);
    break;
  case FSDP_REDUCE_SCATTER_START:
    os << "reduce_scatter.start @" << group() << " on " << getStreamName(entry.stream)
       << ", handle " << entry.handle << ": " << entry.count << ' ' << getDTypeName(entry.dtype)
       << " per rank from " << entry.source << " to " << entry.destination;
    printReduction(entry);
    printExpected(entry);
    break;
  case FSDP_ALL_REDUCE_START:
    os << "all_reduce.start @" << group();
    if (entry.after != FSDP_NO_HANDLE)
      os << " after handle " << entry.after;
    os << " on " << getStreamName(entry.stream) << ", handle " << entry.handle << ": "
       << entry.count << ' ' << getDTypeName(entry.dtype) << " at " << entry.destination;
    printReduction(entry);
    printExpected(entry);
    break;
  case FSDP_WAIT:
    os << "wait for handle " << entry.handle;
    break;
  case FSDP_RELEASE:
    os << "reshard @" << group();
    break;
  case FSDP_CHUNK:
    os << "chunk @" << group() << " of ";
    interleaveComma(integers(entry.first_result, entry.num_results), os,
                    [&](int64_t value) { printValue(value); });
    os << ": " << entry.bytes << " bytes to " << entry.destination;
    break;
  case FSDP_COPY:
    os << "copy ";
    printValue(entry.source_value);
    os << " to ";
    printValue(entry.destination_value);
    break;
  case FSDP_ACCUMULATE:
    os << "add ";
    printValue(entry.source_value);
    os << " to ";
    printValue(entry.destination_value);
    break;
  case FSDP_ZERO:
    os << "zero " << entry.bytes << " bytes at " << entry.destination;
    break;
  case FSDP_UPDATE:
    os << "update @" << group() << " with " << entry.count << ' ' << getDTypeName(entry.dtype)
       << " at " << entry.source;
    break;
  case FSDP_FETCH_STATE_START:
  case FSDP_STORE_STATE_START:
    os << (entry.kind == FSDP_FETCH_STATE_START ? "fetch_state.start @" : "store_state.start @")
       << group() << ", handle " << entry.handle << ": " << entry.bytes << " bytes";
    break;
  case FSDP_STORE_START:
  case FSDP_FETCH_START: {
    const bool isStore = entry.kind == FSDP_STORE_START;
    os << (isStore ? "store.start of \"" : "fetch.start of \"") << string(entry.module)
       << "\", handle " << entry.handle << ": " << entry.bytes << " bytes from "
       << (isStore ? "" : "the host's ") << entry.source << " to " << (isStore ? "the host's " : "")
       << entry.destination;
    break;
  }
  case FSDP_SHARD_NORM:
    os << "shard_norm @" << group() << " of " << entry.count << ' ' << getDTypeName(entry.dtype)
       << " at " << entry.source;
    break;
  case FSDP_PARTIAL_NORM:
    os << "partial_norm to " << entry.destination;
    break;
  case FSDP_NORM_ALL_REDUCE_START:
    os << "norm_all_reduce.start on " << getStreamName(entry.stream) << ", handle " << entry.handle
       << ": " << entry.count << ' ' << getDTypeName(entry.dtype) << " at " << entry.destination;
    printExpected(entry);
    break;
  case FSDP_AMAX_ALL_REDUCE_START:
    os << "amax_all_reduce.start on " << getStreamName(entry.stream) << ", handle " << entry.handle
       << ": " << entry.count << ' ' << getDTypeName(entry.dtype) << " at " << entry.destination;
    printExpected(entry);
    break;
  case FSDP_MODEL_ALL_GATHER:
    os << "all_gather " << entry.bytes << " bytes per rank from " << entry.source << " to "
       << entry.destination << " in \"" << string(entry.module) << '"';
    break;
  case FSDP_MODEL_ALL_REDUCE:
  case FSDP_MODEL_REDUCE_SCATTER:
    os << (entry.kind == FSDP_MODEL_ALL_REDUCE ? "all_reduce " : "reduce_scatter ") << entry.count
       << ' ' << getDTypeName(entry.dtype)
       << (entry.kind == FSDP_MODEL_ALL_REDUCE ? "" : " per rank") << " from " << entry.source
       << " to " << entry.destination << " in \"" << string(entry.module) << '"';
    printReduction(entry);
    break;
  case FSDP_CLIP_FACTOR:
    os << "clip_factor of " << entry.source;
    break;
  case FSDP_KERNEL:
    printKernelEntry(entry);
    break;
  }
  if (entry.coalesced)
    os << ", coalesced";
  if (entry.location)
    os << " loc " << string(entry.location);
  os << '\n';
}

void Printer::printAll() {
  os << (plan.step_kind == FSDP_EVALUATION ? "evaluation" : "plan") << " of \""
     << string(plan.model) << "\", ABI " << plan.abi_version << "\nmesh ";
  if (plan.replicate_axis)
    os << string(plan.replicate_axis) << " = " << plan.replicas << ", ";
  os << string(plan.axis) << " = " << plan.world_size / plan.replicas << '\n';
  for (const fsdp_communicator &communicator :
       ArrayRef(plan.communicators, plan.num_communicators)) {
    os << "communicator " << string(communicator.name) << ": " << communicator.ranks << " ranks";
    if (communicator.axes)
      os << " over " << string(communicator.axes);
    if (communicator.stride != 1)
      os << " with stride " << communicator.stride;
    os << " on " << getStreamName(communicator.stream)
       << (communicator.by_copy_engine ? " by copy engines\n" : "\n");
  }
  os << "arena " << plan.arena_bytes << " bytes, peak live " << plan.peak_live_bytes << " bytes\n";
  if (plan.model_flops != 0)
    os << "model flops " << plan.model_flops << '\n';
  if (plan.bound_ns != 0)
    os << "bound " << plan.bound_ns << " ns\n";
  if (plan.host_arena_bytes)
    os << "host arena " << plan.host_arena_bytes << " bytes\n";
  if (plan.step_kind == FSDP_TRAINING) {
    os << "optimizer ";
    printOptimizer(plan.optimizer);
    printClipping();
    os << '\n';
    for (uint32_t i = 0; i < plan.num_optimizer_groups; ++i) {
      os << "optimizer group " << i + 1 << ' ';
      printOptimizer(plan.optimizer_groups[i]);
      os << '\n';
    }
  }
  for (const fsdp_group &group : ArrayRef(plan.groups, plan.num_groups))
    printGroup(group);
  if (plan.loss_scale.init != 0) {
    os << "loss scale ";
    printValue(plan.loss_scale_value);
    os << '\n';
  }
  for (const fsdp_input &input : ArrayRef(plan.inputs, plan.num_inputs)) {
    os << "input ";
    printValue(input.value);
    os << '\n';
  }
  for (const fsdp_buffer &buffer : ArrayRef(plan.buffers, plan.num_buffers)) {
    os << "buffer ";
    printValue(buffer.value);
    printAliases(buffer.first_alias, buffer.num_aliases);
    os << '\n';
  }
  for (const fsdp_constant &constant : ArrayRef(plan.constants, plan.num_constants)) {
    os << "constant ";
    printValue(constant.value);
    os << " =";
    for (unsigned char byte :
         ArrayRef(plan.data + constant.first_byte, constant.bytes).take_front(64))
      os << ' ' << hexdigit(byte >> 4, true) << hexdigit(byte & 15, true);
    os << (constant.bytes > 64 ? " ...\n" : "\n");
  }
  for (const fsdp_kernel &kernel : ArrayRef(plan.kernels, plan.num_kernels)) {
    os << "kernel @" << string(kernel.name) << " of " << kernel.num_inputs << " inputs, "
       << kernel.num_outputs << " outputs, " << kernel.units << " units";
    if (plan.num_gpu_code_bytes > 0)
      os << ", on a GPU " << kernel.gpu_blocks << " blocks of " << kernel.gpu_threads << " threads";
    os << '\n';
  }
  os << "entries\n";
  for (const fsdp_entry &entry : ArrayRef(plan.entries, plan.num_entries))
    printEntry(entry);
  os << "loss ";
  printValue(plan.loss_value);
  os << '\n';
}

void fsdp::printPlan(const fsdp_plan &plan, raw_ostream &os) {
  Printer(plan, os).printAll();
  if (!plan.next)
    return;
  os << '\n';
  printPlan(*plan.next, os);
}
