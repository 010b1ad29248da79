//===- PlanBuilder.cpp - Plans by hand, for tests --------------------------===//

#include "PlanBuilder.h"
#include "DType.h"
#include "comm/StandardLanes.h"
#include "plan/PlanView.h"

#include <algorithm>
#include <bit>
#include <cstring>

using namespace fsdp::test;

static Argument make(fsdp_argument_kind kind) {
  Argument argument;
  argument.lowered.kind = kind;
  return argument;
}

static Argument makeList(fsdp_argument_kind kind, std::vector<int64_t> list) {
  Argument argument = make(kind);
  argument.list = std::move(list);
  return argument;
}

static Argument makeInteger(fsdp_argument_kind kind, int64_t number) {
  Argument argument = make(kind);
  argument.lowered.payload.integer = number;
  return argument;
}

Argument fsdp::test::value(uint32_t index) {
  Argument argument = make(FSDP_ARG_VALUE);
  argument.lowered.index = index;
  return argument;
}
Argument fsdp::test::values(std::vector<int64_t> indices) {
  return makeList(FSDP_ARG_VALUE_LIST, std::move(indices));
}
Argument fsdp::test::integer(int64_t number) { return makeInteger(FSDP_ARG_INT, number); }
Argument fsdp::test::real(double number) {
  Argument argument = make(FSDP_ARG_FLOAT);
  argument.lowered.payload.real = number;
  return argument;
}
Argument fsdp::test::boolean(bool flag) { return makeInteger(FSDP_ARG_BOOL, flag); }
Argument fsdp::test::integers(std::vector<int64_t> numbers) {
  return makeList(FSDP_ARG_INT_LIST, std::move(numbers));
}
Argument fsdp::test::reals(std::vector<double> numbers) {
  std::vector<int64_t> bits;
  for (double number : numbers)
    bits.push_back(std::bit_cast<int64_t>(number));
  return makeList(FSDP_ARG_FLOAT_LIST, std::move(bits));
}
Argument fsdp::test::booleans(std::vector<int64_t> flags) {
  return makeList(FSDP_ARG_BOOL_LIST, std::move(flags));
}
Argument fsdp::test::string(std::string text) {
  Argument argument = make(FSDP_ARG_STRING);
  argument.text = std::move(text);
  return argument;
}
Argument fsdp::test::none() { return make(FSDP_ARG_NONE); }
Argument fsdp::test::dtype(fsdp_dtype type) { return makeInteger(FSDP_ARG_DTYPE, type); }
Argument fsdp::test::device() { return make(FSDP_ARG_DEVICE); }
Argument fsdp::test::part(int64_t ranks) { return makeInteger(FSDP_ARG_PART, ranks); }
Argument fsdp::test::layout() { return make(FSDP_ARG_LAYOUT); }
Argument fsdp::test::memoryFormat(int64_t format) {
  return makeInteger(FSDP_ARG_MEMORY_FORMAT, format);
}

PlanBuilder::PlanBuilder() {
  strings.push_back('\0');
  plan.abi_version = FSDP_PLAN_ABI_VERSION;
  plan.struct_bytes = sizeof(fsdp_plan);
  plan.world_size = 1;
  plan.num_microbatches = 1;
  plan.replicas = 1;
  plan.optimizer.kind = FSDP_SGD;
}

int64_t PlanBuilder::allocate(int64_t bytes) {
  int64_t offset = top;
  top += (bytes + 63) / 64 * 64;
  return offset;
}

uint32_t PlanBuilder::addString(const std::string &text) {
  if (text.empty())
    return 0;
  auto offset = static_cast<uint32_t>(strings.size());
  strings += text;
  strings.push_back('\0');
  return offset;
}

uint32_t PlanBuilder::addIntegers(const std::vector<int64_t> &numbers) {
  auto first = static_cast<uint32_t>(integerTable.size());
  integerTable.insert(integerTable.end(), numbers.begin(), numbers.end());
  return first;
}

uint32_t PlanBuilder::addValue(fsdp_dtype dtype, std::vector<int64_t> sizes,
                               std::optional<int64_t> offset) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * sizes[i];
  return addStrided(dtype, std::move(sizes), std::move(strides), offset);
}

uint32_t PlanBuilder::addStrided(fsdp_dtype dtype, std::vector<int64_t> sizes,
                                 std::vector<int64_t> strides, std::optional<int64_t> offset) {
  int64_t last = 0, elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    last += (sizes[i] - 1) * strides[i];
    elements *= sizes[i];
  }
  auto bytes = elements == 0 ? 0 : static_cast<int64_t>(fsdp::rt::elementBytes(dtype)) * (last + 1);
  auto index = static_cast<uint32_t>(valueTable.size());
  fsdp_value &value = valueTable.emplace_back();
  value.offset = offset ? *offset : allocate(bytes);
  value.dtype = dtype;
  value.num_dims = static_cast<uint32_t>(sizes.size());
  value.first_size = addIntegers(sizes);
  addIntegers(strides);
  std::string name = "%";
  name += std::to_string(index);
  value.name = addString(name);
  return index;
}

uint32_t PlanBuilder::addUndefined() { return addValue(FSDP_F32, {1}, -1); }

uint32_t PlanBuilder::addInput(const std::string &name, uint32_t value) {
  inputTable.push_back({addString(name), value, /*microbatch=*/0, /*reserved=*/0});
  return static_cast<uint32_t>(inputTable.size() - 1);
}

uint32_t PlanBuilder::addConstant(std::vector<int64_t> sizes, std::vector<float> literal) {
  uint32_t value = addValue(FSDP_F32, std::move(sizes));
  auto bytes = static_cast<int64_t>(literal.size() * sizeof(float));
  constantTable.push_back({value, 0, static_cast<int64_t>(data.size()), bytes});
  const auto *begin = reinterpret_cast<const unsigned char *>(literal.data());
  data.insert(data.end(), begin, begin + bytes);
  return value;
}

fsdp_entry &PlanBuilder::entry(fsdp_entry_kind kind) {
  fsdp_entry &entry = entryTable.emplace_back();
  entry.kind = static_cast<uint8_t>(kind);
  entry.rng = -1;
  return entry;
}

fsdp_entry &PlanBuilder::call(const std::string &name, const std::string &overload,
                              std::vector<Argument> arguments, std::vector<int64_t> results) {
  auto first = static_cast<uint32_t>(argumentTable.size());
  for (Argument &argument : arguments) {
    fsdp_argument lowered = argument.lowered;
    if (!argument.text.empty())
      lowered.index = addString(argument.text);
    if (lowered.kind == FSDP_ARG_VALUE_LIST || lowered.kind == FSDP_ARG_INT_LIST ||
        lowered.kind == FSDP_ARG_FLOAT_LIST || lowered.kind == FSDP_ARG_BOOL_LIST) {
      lowered.index = addIntegers(argument.list);
      lowered.count = static_cast<uint32_t>(argument.list.size());
    }
    argumentTable.push_back(lowered);
  }
  std::string qualified = "aten::";
  qualified += name;
  uint32_t callee = addString(qualified), overloadName = addString(overload);
  uint32_t firstResult = addIntegers(results);
  fsdp_entry &call = entry(FSDP_CALL);
  call.callee = callee;
  call.overload = overloadName;
  call.first_argument = first;
  call.num_arguments = static_cast<uint32_t>(arguments.size());
  call.first_result = firstResult;
  call.num_results = static_cast<uint32_t>(results.size());
  return call;
}

fsdp_entry &PlanBuilder::view(const std::string &name, const std::string &overload,
                              std::vector<Argument> arguments, std::vector<int64_t> results) {
  fsdp_entry &view = call(name, overload, std::move(arguments), std::move(results));
  view.kind = FSDP_VIEW;
  return view;
}

fsdp_entry &PlanBuilder::kernel(fsdp_kernel_function function, int64_t units,
                                const std::vector<uint32_t> &inputs, std::vector<int64_t> results) {
  auto index = static_cast<uint32_t>(kernelTable.size());
  kernelTable.push_back(
      {addString("kernel"), addString("code"), static_cast<uint32_t>(inputs.size()),
       static_cast<uint32_t>(results.size()), units, 1, 0, 0, addString("mul, add"), 0});
  kernelFunctions.insert(kernelFunctions.end(), FSDP_NUM_KERNEL_LEVELS, function);
  auto first = static_cast<uint32_t>(argumentTable.size());
  for (uint32_t input : inputs)
    argumentTable.push_back(value(input).lowered);
  uint32_t firstResult = addIntegers(results);
  fsdp_entry &launch = entry(FSDP_KERNEL);
  launch.target = index;
  launch.first_argument = first;
  launch.num_arguments = static_cast<uint32_t>(inputs.size());
  launch.first_result = firstResult;
  launch.num_results = static_cast<uint32_t>(results.size());
  return launch;
}

void PlanBuilder::copy(uint32_t source, uint32_t destination) {
  fsdp_entry &copy = entry(FSDP_COPY);
  copy.source_value = source;
  copy.destination_value = destination;
}

void PlanBuilder::zero(int64_t offset, int64_t bytes) {
  fsdp_entry &zero = entry(FSDP_ZERO);
  zero.destination = offset;
  zero.bytes = bytes;
}

uint32_t PlanBuilder::addGroup(const std::string &name, const std::string &parameter,
                               std::vector<int64_t> sizes, fsdp_dtype dtype) {
  int64_t elements = 1;
  for (int64_t size : sizes)
    elements *= size;
  auto index = static_cast<uint32_t>(groupTable.size());
  auto elementBytes = static_cast<int64_t>(fsdp::rt::elementBytes(dtype));
  fsdp_group group{};
  group.name = addString(name);
  group.dtype = group.gather_dtype = group.reduce_dtype = dtype;
  std::ranges::fill(group.state_dtype, dtype);
  group.first_parameter = static_cast<uint32_t>(parameterTable.size());
  group.num_parameters = 1;
  const uint32_t shards = group.shards = plan.world_size / plan.replicas;
  group.shard_elements = group.trained_elements = elements / shards;
  for (int64_t *place : {&group.shard, &group.state[0], &group.state[1]})
    *place = allocate(group.shard_elements * elementBytes);
  if (!fsdp::rt::optimizerStateNames(plan.optimizer)[2].empty())
    group.state[2] = allocate(group.shard_elements * elementBytes);
  group.gather_shard = group.shard;
  groupTable.push_back(group);

  fsdp_parameter lowered{};
  lowered.name = addString(parameter);
  lowered.group = index;
  lowered.dtype = dtype;
  lowered.num_dims = static_cast<uint32_t>(sizes.size());
  lowered.first_size = addIntegers(sizes);
  lowered.first_piece = static_cast<uint32_t>(pieceTable.size());
  lowered.num_pieces = shards;
  for (uint32_t rank = 0; rank < shards; ++rank)
    pieceTable.push_back({rank, static_cast<uint32_t>(parameterTable.size()),
                          rank * group.shard_elements, group.shard_elements, 0});
  parameterTable.push_back(lowered);
  return index;
}

void PlanBuilder::narrow(uint32_t index, fsdp_dtype gatherDtype, fsdp_dtype reduceDtype) {
  fsdp_group &group = groupTable[index];
  group.gather_dtype = gatherDtype;
  group.reduce_dtype = reduceDtype;
  auto elementBytes = static_cast<int64_t>(fsdp::rt::elementBytes(gatherDtype));
  group.gather_shard = allocate(group.shard_elements * elementBytes);
}

uint32_t PlanBuilder::allGather(uint32_t group, int64_t destination) {
  fsdp_entry &start = entry(FSDP_ALL_GATHER_START);
  start.stream = FSDP_GATHER;
  start.communicator = fsdp::rt::kGatherLane - 1;
  start.target = group;
  start.handle = plan.num_handles++;
  start.dtype = static_cast<uint8_t>(groupTable[group].gather_dtype);
  start.source = groupTable[group].gather_shard;
  start.destination = destination;
  start.bytes = groupTable[group].shard_elements *
                static_cast<int64_t>(fsdp::rt::elementBytes(groupTable[group].gather_dtype));
  return start.handle;
}

fsdp_entry &PlanBuilder::chunk(uint32_t group, std::vector<int64_t> values, int64_t place) {
  fsdp_entry &chunk = entry(FSDP_CHUNK);
  chunk.target = group;
  chunk.dtype = static_cast<uint8_t>(groupTable[group].gather_dtype);
  chunk.destination = place;
  chunk.bytes = fsdp::rt::PlanView(plan).chunkBytes(groupTable[group]);
  chunk.num_results = static_cast<uint32_t>(values.size());
  chunk.first_result = addIntegers(values);
  return chunk;
}

uint32_t PlanBuilder::gatherChunks(uint32_t group, int64_t place, int64_t destination) {
  uint32_t handle = allGather(group, destination);
  fsdp_entry &gather = entryTable.back();
  gather.phase = FSDP_BACKWARD;
  gather.communicator = fsdp::rt::kChunkLane - 1;
  gather.source = place;
  gather.bytes = fsdp::rt::PlanView(plan).chunkBytes(groupTable[group]);
  return handle;
}

uint32_t PlanBuilder::reduceScatter(uint32_t group, int64_t source, int64_t destination) {
  fsdp_entry &start = entry(FSDP_REDUCE_SCATTER_START);
  start.phase = FSDP_BACKWARD;
  start.stream = FSDP_REDUCE;
  start.communicator = fsdp::rt::kReduceLane - 1;
  start.target = group;
  start.handle = plan.num_handles++;
  start.dtype = static_cast<uint8_t>(groupTable[group].reduce_dtype);
  start.source = source;
  start.destination = destination;
  start.count = groupTable[group].shard_elements;
  return start.handle;
}

uint32_t PlanBuilder::allReduce(uint32_t group, uint32_t after, int64_t place) {
  fsdp_entry &start = entry(FSDP_ALL_REDUCE_START);
  start.phase = FSDP_BACKWARD;
  start.stream = FSDP_REPLICATE;
  start.communicator = fsdp::rt::kReplicateLane - 1;
  start.target = group;
  start.after = after;
  start.handle = plan.num_handles++;
  start.dtype = static_cast<uint8_t>(groupTable[group].reduce_dtype);
  start.source = start.destination = place;
  start.count = groupTable[group].shard_elements;
  return start.handle;
}

uint32_t PlanBuilder::reduceAmax(int64_t place, int64_t count) {
  fsdp_entry &start = entry(FSDP_AMAX_ALL_REDUCE_START);
  start.stream = FSDP_REDUCE;
  start.communicator = fsdp::rt::kReduceLane - 1;
  start.handle = plan.num_handles++;
  start.dtype = FSDP_F32;
  start.source = start.destination = place;
  start.count = count;
  start.bytes = count * static_cast<int64_t>(sizeof(float));
  return start.handle;
}

fsdp_entry &PlanBuilder::modelCollective(fsdp_entry_kind kind, uint32_t source,
                                         uint32_t destination, fsdp_reduce_op op) {
  if (communicatorTable.empty())
    addCommunicators();
  if (communicatorTable.back().stream != FSDP_COMPUTE)
    communicatorTable.push_back({addString("model"), /*axes=*/0, plan.world_size, /*stride=*/1,
                                 FSDP_COMPUTE, /*by_copy_engine=*/0});
  fsdp_entry &collective = entry(kind);
  collective.communicator = static_cast<uint32_t>(communicatorTable.size()) - 1;
  collective.dtype = static_cast<uint8_t>(valueTable[source].dtype);
  // Of one rank.
  const fsdp_value &own = valueTable[kind == FSDP_MODEL_ALL_GATHER ? source : destination];
  collective.count = 1;
  for (uint32_t i = 0; i < own.num_dims; ++i)
    collective.count *= integerTable[own.first_size + i];
  collective.bytes = collective.count * static_cast<int64_t>(fsdp::rt::elementBytes(own.dtype));
  collective.source = valueTable[source].offset;
  collective.destination = valueTable[destination].offset;
  collective.reduce_op = op;
  return collective;
}

void PlanBuilder::wait(uint32_t handle) { entry(FSDP_WAIT).handle = handle; }

uint32_t PlanBuilder::scaleLoss(const fsdp_loss_scale &scale) {
  plan.loss_scale = scale;
  return plan.loss_scale_value = addValue(FSDP_F32, {});
}

void PlanBuilder::clip(double norm, fsdp_norm_type type) {
  plan.clip_grad_norm = norm;
  plan.clip_norm_type = norm == 0 && plan.loss_scale.init == 0 ? 0 : type;
  int64_t place = allocate(sizeof(double));
  entry(FSDP_PARTIAL_NORM).destination = place;
  if (plan.world_size / plan.replicas > 1) {
    fsdp_entry &start = entry(FSDP_NORM_ALL_REDUCE_START);
    start.phase = FSDP_BACKWARD;
    start.stream = FSDP_REDUCE;
    start.communicator = fsdp::rt::kReduceLane - 1;
    start.handle = plan.num_handles++;
    start.dtype = FSDP_F64;
    start.source = start.destination = place;
    start.count = 1;
    wait(start.handle);
  }
  entry(FSDP_CLIP_FACTOR).source = place;
}

void PlanBuilder::update(uint32_t group, int64_t gradients) {
  fsdp_entry &update = entry(FSDP_UPDATE);
  update.dtype = static_cast<uint8_t>(groupTable[group].reduce_dtype);
  update.target = group;
  update.source = gradients;
}

void PlanBuilder::addCommunicators() {
  uint32_t chunkRanks = 1;
  for (const fsdp_group &group : groupTable)
    chunkRanks = std::max(chunkRanks, group.chunk_ranks);
  constexpr uint32_t streams[] = {FSDP_GATHER, FSDP_REDUCE, FSDP_REPLICATE, FSDP_GATHER};
  for (const fsdp::rt::LaneShape &lane :
       fsdp::rt::standardLanes(plan.world_size, plan.replicas, chunkRanks))
    communicatorTable.push_back({addString(lane.name), /*axes=*/0, lane.ranks, lane.stride,
                                 streams[communicatorTable.size()], lane.byCopyEngine});
}

fsdp_plan &PlanBuilder::finish(uint32_t loss) {
  plan.model = addString("test");
  plan.axis = addString("dp");
  plan.loss_value = loss;
  if (communicatorTable.empty())
    addCommunicators();
  plan.num_communicators = static_cast<uint32_t>(communicatorTable.size());
  plan.communicators = communicatorTable.data();
  plan.arena_bytes = top;
  plan.peak_live_bytes = top;
  plan.num_values = static_cast<uint32_t>(valueTable.size());
  plan.num_arguments = static_cast<uint32_t>(argumentTable.size());
  plan.num_entries = static_cast<uint32_t>(entryTable.size());
  plan.num_inputs = static_cast<uint32_t>(inputTable.size());
  plan.num_constants = static_cast<uint32_t>(constantTable.size());
  plan.num_groups = static_cast<uint32_t>(groupTable.size());
  plan.num_parameters = static_cast<uint32_t>(parameterTable.size());
  plan.num_optimizer_groups = static_cast<uint32_t>(optimizerGroupTable.size());
  plan.num_pieces = static_cast<uint32_t>(pieceTable.size());
  plan.num_integers = static_cast<uint32_t>(integerTable.size());
  plan.num_string_bytes = strings.size();
  plan.num_data_bytes = data.size();
  plan.values = valueTable.data();
  plan.arguments = argumentTable.data();
  plan.entries = entryTable.data();
  plan.inputs = inputTable.data();
  plan.constants = constantTable.data();
  plan.groups = groupTable.data();
  plan.parameters = parameterTable.data();
  plan.optimizer_groups = optimizerGroupTable.data();
  plan.pieces = pieceTable.data();
  plan.integers = integerTable.data();
  if (!gpuCode.empty()) {
    plan.num_gpu_code_bytes = gpuCode.size() + 1;
    plan.gpu_code = gpuCode.c_str();
    for (fsdp_kernel &kernel : kernelTable) {
      kernel.gpu_blocks = 1;
      kernel.gpu_threads = 32;
    }
  }
  plan.num_kernels = static_cast<uint32_t>(kernelTable.size());
  plan.kernels = kernelTable.data();
  plan.kernel_functions = kernelFunctions.data();
  plan.strings = strings.data();
  plan.data = data.data();
  return plan;
}
