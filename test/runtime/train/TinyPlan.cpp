//===- TinyPlan.cpp - A small training step ----------------------------------===//

#include "TinyPlan.h"
#include "../Optimizers.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace fsdp;
using namespace fsdp::test;

static constexpr int64_t kElementBytes = 4, kAlignment = 64;

static int64_t product(const std::vector<int64_t> &sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

uint32_t TinyPlan::string(const std::string &text) {
  auto offset = static_cast<uint32_t>(strings.size());
  strings += text + '\0';
  return text.empty() ? 0 : offset;
}

uint32_t TinyPlan::list(const std::vector<int64_t> &items) {
  auto first = static_cast<uint32_t>(numbers.size());
  numbers.insert(numbers.end(), items.begin(), items.end());
  return first;
}

int64_t TinyPlan::place(int64_t elements) {
  int64_t offset = arenaBytes;
  arenaBytes += (elements * kElementBytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

uint32_t TinyPlan::value(const std::string &name, const std::vector<int64_t> &sizes, int64_t offset,
                         std::vector<int64_t> strides) {
  if (strides.empty()) {
    strides.resize(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i])
      strides[i] = stride;
  }
  uint32_t first = list(sizes);
  list(strides);
  values.push_back(
      {offset, FSDP_F32, static_cast<uint32_t>(sizes.size()), first, string("%" + name)});
  return static_cast<uint32_t>(values.size() - 1);
}

uint32_t TinyPlan::fresh(const std::string &name, const std::vector<int64_t> &sizes) {
  return value(name, sizes, place(product(sizes)));
}

fsdp_argument TinyPlan::tensor(uint32_t value) { return {FSDP_ARG_VALUE, value, 0, 0, {}}; }
fsdp_argument TinyPlan::none() { return {FSDP_ARG_NONE, 0, 0, 0, {}}; }

fsdp_argument TinyPlan::integer(int64_t value) {
  fsdp_argument argument{FSDP_ARG_INT, 0, 0, 0, {}};
  argument.payload.integer = value;
  return argument;
}

fsdp_argument TinyPlan::real(double value) {
  fsdp_argument argument{FSDP_ARG_FLOAT, 0, 0, 0, {}};
  argument.payload.real = value;
  return argument;
}

fsdp_argument TinyPlan::integers(const std::vector<int64_t> &items) {
  return {FSDP_ARG_INT_LIST, list(items), static_cast<uint32_t>(items.size()), 0, {}};
}

fsdp_entry &TinyPlan::entry(fsdp_entry_kind kind, fsdp_phase phase) {
  fsdp_entry &added = entries.emplace_back();
  added.kind = static_cast<uint8_t>(kind);
  added.phase = static_cast<uint8_t>(phase);
  added.dtype = FSDP_F32;
  added.rng = -1;
  return added;
}

void TinyPlan::call(fsdp_entry_kind kind, const char *callee, const char *overload,
                    fsdp_phase phase, const std::vector<fsdp_argument> &items, uint32_t result) {
  fsdp_entry &added = entry(kind, phase);
  added.callee = string(callee);
  added.overload = string(overload);
  added.first_argument = static_cast<uint32_t>(arguments.size());
  added.num_arguments = static_cast<uint32_t>(items.size());
  arguments.insert(arguments.end(), items.begin(), items.end());
  added.first_result = list({result});
  added.num_results = 1;
}

void TinyPlan::copy(uint32_t source, uint32_t destination, fsdp_phase phase) {
  fsdp_entry &added = entry(FSDP_COPY, phase);
  added.source_value = source;
  added.destination_value = destination;
}

void TinyPlan::addGroup(const std::string &name, const std::vector<int64_t> &shardDims,
                        const std::vector<std::string> &names,
                        const std::vector<std::vector<int64_t>> &parameterShapes) {
  Group group{
      plan::layOutGroup(layout, parameterShapes, ranks, kAlignment / kElementBytes, shardDims),
      static_cast<uint32_t>(parameters.size()), -1, -1, -1};
  fsdp_group row{};
  row.name = string(name);
  row.dtype = row.gather_dtype = row.reduce_dtype = FSDP_F32;
  std::ranges::fill(row.state_dtype, FSDP_F32);
  row.layout = layout == plan::Layout::Flat ? FSDP_LAYOUT_FLAT : FSDP_LAYOUT_PER_PARAM;
  row.first_parameter = group.firstParameter;
  row.shards = ranks;
  row.num_parameters = static_cast<uint32_t>(names.size());
  row.shard_elements = row.trained_elements = group.layout.shardElements;
  row.shard = row.gather_shard = place(row.shard_elements);
  row.state[0] = place(row.shard_elements);
  row.state[1] = place(row.shard_elements);
  int64_t whole = group.layout.gatheredElements();
  group.gathered = ranks == 1 ? row.shard : place(whole);
  group.gradients = place(whole);
  group.reduced = ranks == 1 ? group.gradients : place(row.shard_elements);
  for (size_t i = 0; i < names.size(); ++i) {
    fsdp_parameter parameter{};
    parameter.name = string(names[i]);
    parameter.group = static_cast<uint32_t>(groups.size());
    parameter.dtype = FSDP_F32;
    parameter.num_dims = static_cast<uint32_t>(parameterShapes[i].size());
    parameter.first_size = list(parameterShapes[i]);
    parameter.shard_dim = static_cast<uint32_t>(shardDims[i]);
    if (names[i] == "scale") {
      parameter.first_alias = list({static_cast<int64_t>(string("tied.scale"))});
      parameter.num_aliases = 1;
    }
    parameter.first_piece = static_cast<uint32_t>(pieces.size());
    for (const plan::Piece &piece : group.layout.parameters[i].pieces)
      pieces.push_back({piece.rank, static_cast<uint32_t>(parameters.size()), piece.first,
                        piece.count, piece.shardOffset});
    parameter.num_pieces = static_cast<uint32_t>(pieces.size()) - parameter.first_piece;
    parameters.push_back(parameter);
  }
  groups.push_back(row);
  layouts.push_back(group);
  shapes.push_back(parameterShapes);
}

/// Copies between whole parameters and their pieces, cut rank by rank, at arena offset `cut`.
void TinyPlan::copyPieces(uint32_t group, const std::vector<uint32_t> &whole, int64_t cut,
                          bool toCut, fsdp_phase phase) {
  const plan::GroupLayout &layout = layouts[group].layout;
  for (size_t i = 0; i < whole.size(); ++i)
    for (const plan::Piece &piece : layout.parameters[i].pieces) {
      if (piece.count == 0)
        continue;
      const plan::ParameterPlace &within = layout.parameters[i];
      int64_t element = piece.rank * layout.shardElements + piece.shardOffset;
      uint32_t part =
          value("part", {within.runs, piece.count / within.runs},
                values[whole[i]].offset + piece.first * kElementBytes, {within.runStride, 1});
      uint32_t inCut =
          value("cut", {within.runs, piece.count / within.runs}, cut + element * kElementBytes);
      copy(toCut ? part : inCut, toCut ? inCut : part, phase);
    }
}

std::vector<uint32_t> TinyPlan::gather(uint32_t group) {
  const Group &from = layouts[group];
  if (ranks > 1) {
    fsdp_entry &start = entry(FSDP_ALL_GATHER_START, FSDP_FORWARD);
    start.target = group;
    start.stream = FSDP_GATHER;
    start.communicator = 0;
    start.handle = handles;
    start.source = groups[group].shard;
    start.dtype = FSDP_F32;
    start.destination = from.gathered;
    start.bytes = from.layout.shardElements * kElementBytes;
    entry(FSDP_WAIT, FSDP_FORWARD).handle = handles++;
  }
  std::vector<uint32_t> whole;
  for (size_t i = 0; i < shapes[group].size(); ++i)
    whole.push_back(layout == plan::Layout::Flat
                        ? value("p", shapes[group][i],
                                from.gathered + from.layout.parameters[i].offset * kElementBytes)
                        : fresh("p", shapes[group][i]));
  if (layout == plan::Layout::PerParam)
    copyPieces(group, whole, from.gathered, /*toCut=*/false, FSDP_FORWARD);
  return whole;
}

std::vector<uint32_t> TinyPlan::gradientValues(uint32_t group) {
  const Group &to = layouts[group];
  fsdp_entry &zero = entry(FSDP_ZERO, FSDP_BACKWARD);
  zero.destination = to.gradients;
  zero.bytes = to.layout.gatheredElements() * kElementBytes;
  std::vector<uint32_t> whole;
  for (size_t i = 0; i < shapes[group].size(); ++i)
    whole.push_back(layout == plan::Layout::Flat
                        ? value("g", shapes[group][i],
                                to.gradients + to.layout.parameters[i].offset * kElementBytes)
                        : fresh("g", shapes[group][i]));
  return whole;
}

void TinyPlan::reduceAndUpdate(uint32_t group, const std::vector<uint32_t> &gradients) {
  const Group &from = layouts[group];
  if (layout == plan::Layout::PerParam)
    copyPieces(group, gradients, from.gradients, /*toCut=*/true, FSDP_BACKWARD);
  if (ranks > 1) {
    fsdp_entry &start = entry(FSDP_REDUCE_SCATTER_START, FSDP_BACKWARD);
    start.target = group;
    start.stream = FSDP_REDUCE;
    start.communicator = 1;
    start.handle = handles;
    start.source = from.gradients;
    start.destination = from.reduced;
    start.count = from.layout.shardElements;
    entry(FSDP_WAIT, FSDP_BACKWARD).handle = handles++;
  }
  fsdp_entry &update = entry(FSDP_UPDATE, FSDP_BACKWARD);
  update.dtype = FSDP_F32;
  update.target = group;
  update.source = from.reduced;
}

void TinyPlan::writeStep() {
  const std::vector<int64_t> rows{kBatch, kIn}, outs{kBatch, kOut};
  uint32_t x = fresh("x", rows), t = fresh("t", outs), count = fresh("count", {});
  inputs = {{string("x"), x, 0, 0}, {string("t"), t, 0, 0}};
  buffers = {{string("count"), count, 0, 0}};
  std::vector<uint32_t> layer = gather(0), root = gather(1);
  uint32_t w = layer[0], b = layer[1], scale = root[0];

  uint32_t xw = fresh("xw", outs), h = fresh("h", outs), y = fresh("y", outs), d = fresh("d", outs),
           dd = fresh("dd", outs), loss = fresh("loss", {}), next = fresh("next", {});
  call(FSDP_CALL, "aten::mm", "", FSDP_FORWARD, {tensor(x), tensor(w)}, xw);
  call(FSDP_CALL, "aten::add", "Tensor", FSDP_FORWARD, {tensor(xw), tensor(b), integer(1)}, h);
  call(FSDP_CALL, "aten::mul", "Tensor", FSDP_FORWARD, {tensor(h), tensor(scale)}, y);
  call(FSDP_CALL, "aten::sub", "Tensor", FSDP_FORWARD, {tensor(y), tensor(t), integer(1)}, d);
  call(FSDP_CALL, "aten::mul", "Tensor", FSDP_FORWARD, {tensor(d), tensor(d)}, dd);
  call(FSDP_CALL, "aten::mean", "", FSDP_FORWARD, {tensor(dd), none()}, loss);
  call(FSDP_CALL, "aten::add", "Scalar", FSDP_FORWARD, {tensor(count), integer(1), integer(1)},
       next);
  copy(next, count, FSDP_FORWARD);
  plan.loss_value = loss;

  std::vector<uint32_t> rootGradients = gradientValues(1), layerGradients = gradientValues(0);
  uint32_t gy = fresh("gy", outs), gyh = fresh("gyh", outs), gh = fresh("gh", outs);
  uint32_t xt = value("xt", {kIn, kBatch}, values[x].offset, {1, kIn});
  call(FSDP_CALL, "aten::mul", "Scalar", FSDP_BACKWARD, {tensor(d), real(2.0 / (kBatch * kOut))},
       gy);
  call(FSDP_CALL, "aten::mul", "Tensor", FSDP_BACKWARD, {tensor(gy), tensor(h)}, gyh);
  call(FSDP_CALL, "aten::sum", "dim_IntList", FSDP_BACKWARD,
       {tensor(gyh), integers({0}), {FSDP_ARG_BOOL, 0, 0, 0, {}}, none()}, rootGradients[0]);
  // On one rank parameters are read where they are updated: after their last use alone.
  call(FSDP_CALL, "aten::mul", "Tensor", FSDP_BACKWARD, {tensor(gy), tensor(scale)}, gh);
  reduceAndUpdate(1, rootGradients);
  call(FSDP_VIEW, "aten::t", "", FSDP_BACKWARD, {tensor(x)}, xt);
  call(FSDP_CALL, "aten::mm", "", FSDP_BACKWARD, {tensor(xt), tensor(gh)}, layerGradients[0]);
  call(FSDP_CALL, "aten::sum", "dim_IntList", FSDP_BACKWARD,
       {tensor(gh), integers({0}), {FSDP_ARG_BOOL, 0, 0, 0, {}}, none()}, layerGradients[1]);
  reduceAndUpdate(0, layerGradients);
}

void TinyPlan::finish() {
  plan.abi_version = FSDP_PLAN_ABI_VERSION;
  plan.struct_bytes = sizeof(fsdp_plan);
  plan.model = string("tiny");
  plan.axis = string("dp");
  plan.world_size = ranks;
  plan.replicas = 1;
  plan.num_microbatches = 1;
  plan.num_handles = handles;
  plan.arena_bytes = plan.peak_live_bytes = arenaBytes;
  plan.optimizer = makeOptimizer(FSDP_ADAMW, {{"lr", {0.01}}, {"weight_decay", {0}}});
  communicators = {{string("gather"), plan.axis, ranks, 1, FSDP_GATHER, 0},
                   {string("reduce"), plan.axis, ranks, 1, FSDP_REDUCE, 0}};
  auto table = [](const auto &rows, auto &pointer, uint32_t &count) {
    pointer = rows.data();
    count = static_cast<uint32_t>(rows.size());
  };
  table(values, plan.values, plan.num_values);
  table(arguments, plan.arguments, plan.num_arguments);
  table(entries, plan.entries, plan.num_entries);
  table(inputs, plan.inputs, plan.num_inputs);
  table(buffers, plan.buffers, plan.num_buffers);
  table(constants, plan.constants, plan.num_constants);
  table(groups, plan.groups, plan.num_groups);
  table(parameters, plan.parameters, plan.num_parameters);
  table(pieces, plan.pieces, plan.num_pieces);
  table(communicators, plan.communicators, plan.num_communicators);
  table(numbers, plan.integers, plan.num_integers);
  plan.strings = strings.data();
  plan.num_string_bytes = strings.size();
  plan.data = data.data();
  plan.num_data_bytes = data.size();
}

void TinyPlan::keepStateIn(fsdp_dtype dtype) {
  for (fsdp_group &group : groups)
    std::ranges::fill(group.state_dtype, dtype);
}

void TinyPlan::makeCountTransient(float init) {
  constants = {{buffers[0].value, 0, 0, sizeof(init)}};
  data.resize(sizeof(init));
  std::memcpy(data.data(), &init, sizeof(init));
  finish();
}

TinyPlan::TinyPlan(unsigned ranks, plan::Layout layout, bool cutsColumns)
    : ranks(ranks), layout(layout) {
  addGroup("l", {cutsColumns ? 1 : 0, 0}, {"l.w", "l.b"}, {{kIn, kOut}, {kOut}});
  addGroup("", {0}, {"scale"}, {{kOut}});
  writeStep();
  finish();
}
