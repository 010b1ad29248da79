//===- CollectivePlanTest.cpp - Which collectives a plan may have ----------===//

#include "SmallPlan.h"

#include <algorithm>
#include <limits>

using namespace fsdp::test;
using fsdp::rt::describePlan;

// Copy engines gather, and do nothing else.
TEST(CollectivePlanTest, CopyEngines) {
  SmallPlan right, wrong;
  for (SmallPlan *small : {&right, &wrong}) {
    small->builder.wait(small->builder.reduceScatter(small->group, small->gradients, small->shard));
    small->builder.addCommunicators();
    small->builder.communicatorTable[0].by_copy_engine = 1;
  }
  EXPECT_EQ(right.error(), "");
  fsdp_entry &reduction = wrong.firstOf(FSDP_REDUCE_SCATTER_START);
  reduction.stream = FSDP_GATHER;
  reduction.communicator = 0;
  EXPECT_NE(wrong.error().find("no gather, on a communicator of gathers by copy engines"),
            std::string::npos)
      << wrong.error();
}

// Replicas divide the ranks; an all-reduce over them has a stream of its own and goes on with a
// reduce-scatter of its group, to its place.
TEST(CollectivePlanTest, Replicas) {
  auto makeReplicated = [](SmallPlan &small) -> fsdp_entry & {
    PlanBuilder &builder = small.builder;
    builder.plan.world_size = 4;
    builder.plan.replicas = 2;
    uint32_t reduction = builder.reduceScatter(small.group, small.gradients, small.shard);
    uint32_t across = builder.allReduce(small.group, reduction, small.shard);
    builder.wait(reduction);
    builder.wait(across);
    return small.firstOf(FSDP_ALL_REDUCE_START);
  };
  SmallPlan right, odd, stream, other, after, place, outside;
  makeReplicated(right);
  EXPECT_EQ(right.error(), "");
  odd.builder.plan.replicas = 3;
  EXPECT_EQ(odd.error(), "invalid plan: world size 2 of 3 replicas");
  makeReplicated(stream).stream = FSDP_REDUCE;
  EXPECT_EQ(stream.error(), "invalid plan: entry 12: on stream 2, its communicator on 3");
  fsdp_entry &elsewhere = makeReplicated(other);
  elsewhere.stream = FSDP_REDUCE;
  elsewhere.communicator = 1;
  EXPECT_EQ(other.error(), "invalid plan: entry 12: a collective on stream 2");
  makeReplicated(after).after = 0;
  EXPECT_EQ(after.error(), "invalid plan: entry 12: goes on with handle 0, which is no "
                           "reduce_scatter of its group to its place");
  makeReplicated(place).destination = 0;
  EXPECT_EQ(place.error(), "invalid plan: entry 12: goes on with handle 2, which is no "
                           "reduce_scatter of its group to its place");
  makeReplicated(outside).destination = 1 << 20;
  EXPECT_NE(outside.error().find("it takes bytes [1048576, "), std::string::npos);
  EXPECT_NE(
      describePlan(right.builder.plan).find("\n  all_reduce in backward: 1, 64 bytes of shards"),
      std::string::npos);
}

// Encoded shards, of u8, have sizes and places of their own, in the per-param layout.
TEST(CollectivePlanTest, EncodedShards) {
  auto encode = [](SmallPlan &small) -> fsdp_entry & {
    small.builder.groupTable[small.group].layout = FSDP_LAYOUT_PER_PARAM;
    fsdp_entry &gather = small.firstOf(FSDP_ALL_GATHER_START);
    gather.dtype = FSDP_U8;
    gather.bytes = 20;
    gather.source = 0;
    return gather;
  };
  SmallPlan right, flat, place;
  encode(right);
  EXPECT_EQ(right.error(), "");
  encode(flat);
  flat.builder.groupTable[flat.group].layout = FSDP_LAYOUT_FLAT;
  EXPECT_EQ(flat.error(),
            "invalid plan: entry 0: gathers encoded shards, but its group keeps the flat layout");
  encode(place).bytes = int64_t(1) << 62;
  EXPECT_NE(place.error().find("invalid plan: entry 0: its input takes "), std::string::npos)
      << place.error();
}

// The largest absolute values of parameters are numbers of f32, reduced in place between ranks.
TEST(CollectivePlanTest, AmaxOfParameters) {
  auto reduce = [](SmallPlan &small) -> fsdp_entry & {
    small.builder.wait(small.builder.reduceAmax(small.builder.allocate(12), 3));
    return small.firstOf(FSDP_AMAX_ALL_REDUCE_START);
  };
  SmallPlan right, dtype, moved, count, stream, outside;
  reduce(right);
  EXPECT_EQ(right.error(), "");
  std::string text = describePlan(right.builder.plan);
  EXPECT_NE(text.find("\n  all_reduce of the parameters' amax: 1, 12 bytes\n"), std::string::npos)
      << text;
  const std::string what = "invalid plan: entry 11: of ";
  reduce(dtype).dtype = FSDP_I32;
  EXPECT_EQ(dtype.error(), what + "3 i32 in 12 bytes on stream 2 over 2 ranks");
  reduce(moved).source = 0;
  EXPECT_EQ(moved.error(), what + "3 f32 in 12 bytes on stream 2 over 2 ranks");
  reduce(count).count = 4;
  EXPECT_EQ(count.error(), what + "4 f32 in 12 bytes on stream 2 over 2 ranks");
  reduce(stream).stream = FSDP_GATHER;
  EXPECT_EQ(stream.error(), "invalid plan: entry 11: on stream 1, its communicator on 2");
  fsdp_entry &far = reduce(outside);
  far.source = far.destination = 1 << 20;
  EXPECT_NE(outside.error().find("it takes bytes [1048576, "), std::string::npos)
      << outside.error();
}

// Collectives of the model's own code run on the compute stream, over all ranks.
TEST(CollectivePlanTest, CollectivesOfTheModel) {
  auto add = [](SmallPlan &small, fsdp_entry_kind kind, fsdp_reduce_op op) -> fsdp_entry & {
    uint32_t one = small.builder.addValue(FSDP_F32, {3}),
             all = small.builder.addValue(FSDP_F32, {2, 3});
    const bool scatters = kind == FSDP_MODEL_REDUCE_SCATTER;
    return small.builder.modelCollective(kind, scatters ? all : one,
                                         kind == FSDP_MODEL_ALL_GATHER ? all : one, op);
  };
  SmallPlan right, count, maximum, average, stream, ranks, outside;
  add(right, FSDP_MODEL_ALL_REDUCE, FSDP_MAX);
  add(right, FSDP_MODEL_ALL_GATHER, FSDP_AVERAGE);
  add(right, FSDP_MODEL_REDUCE_SCATTER, FSDP_SUM);
  EXPECT_EQ(right.error(), "");
  const std::string text = describePlan(right.builder.plan);
  EXPECT_NE(text.find("\n  of the model's own code: 3\n"), std::string::npos) << text;
  const std::string where = "invalid plan: entry 11: ";
  add(count, FSDP_MODEL_ALL_REDUCE, FSDP_SUM).count = 4;
  EXPECT_EQ(count.error(), where + "of 4 f32 in 12 bytes");
  add(maximum, FSDP_MODEL_REDUCE_SCATTER, FSDP_MAX);
  EXPECT_EQ(maximum.error(), where + "reduces by operation 3");
  add(average, FSDP_MODEL_ALL_GATHER, FSDP_SUM);
  EXPECT_EQ(average.error(), where + "reduces by operation 1");
  add(stream, FSDP_MODEL_ALL_REDUCE, FSDP_SUM).stream = FSDP_REDUCE;
  EXPECT_EQ(stream.error(), where + "on stream 2, its communicator on 0");
  add(ranks, FSDP_MODEL_ALL_REDUCE, FSDP_SUM);
  ranks.builder.communicatorTable.back().ranks = 1;
  EXPECT_EQ(ranks.error(), where + "1 ranks with stride 1 meet, expected 2 with stride 1");
  add(outside, FSDP_MODEL_ALL_GATHER, FSDP_AVERAGE).source = 1 << 20;
  EXPECT_NE(outside.error().find("its input takes bytes [1048576, "), std::string::npos)
      << outside.error();
}

// A plan that clips makes one factor of the norm of all gradients, over all ranks, before it
// updates; one that does not has nothing of it.
TEST(CollectivePlanTest, Clipping) {
  auto clip = [](SmallPlan &small, double norm) -> PlanBuilder & {
    small.builder.clip(norm);
    // Before the update.
    std::vector<fsdp_entry> &entries = small.builder.entryTable;
    auto update = std::ranges::find(entries, FSDP_UPDATE, &fsdp_entry::kind);
    std::rotate(update, entries.end() - 4, entries.end());
    return small.builder;
  };
  auto entry = [](PlanBuilder &builder, fsdp_entry_kind kind) -> fsdp_entry & {
    return *std::ranges::find(builder.entryTable, kind, &fsdp_entry::kind);
  };
  SmallPlan right, none, norm, value, both, type, late, twice, alone, place, stream;
  clip(right, 2);
  EXPECT_EQ(right.error(), "");
  std::string text = describePlan(right.builder.plan);
  EXPECT_NE(text.find(", gradients clipped to norm 2 (norm_type 2)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  all_reduce of the gradients' norm: 1, 8 bytes\n"), std::string::npos)
      << text;
  clip(none, 0);
  EXPECT_EQ(
      none.error(),
      "invalid plan: entry 10: norm of this rank's gradients in a plan that neither clips nor "
      "scales its loss");
  clip(norm, -1);
  EXPECT_EQ(norm.error(), "invalid plan: clips gradients to norm -1.000000");
  value.builder.plan.optimizer.clip_grad_value = -1;
  EXPECT_EQ(value.error(), "invalid plan: clips gradients to values of -1.000000");
  clip(both, 2).plan.optimizer.clip_grad_value = 1;
  EXPECT_EQ(both.error(), "invalid plan: clips gradients to values of 1.000000 and by their norm");
  clip(type, 2).plan.clip_norm_type = 4;
  EXPECT_EQ(type.error(), "invalid plan: clips gradients to norm 2.000000 of type 4");
  late.builder.clip(2);
  EXPECT_EQ(late.error(), "invalid plan: entry 10: update of group \"layers.0\" behind nothing of "
                          "the norm, expected behind the clip factor");
  entry(clip(twice, 2), FSDP_CLIP_FACTOR).kind = FSDP_PARTIAL_NORM;
  EXPECT_EQ(twice.error(), "invalid plan: entry 13: norm of this rank's gradients behind the norm "
                           "over the ranks, expected behind nothing of the norm");
  entry(clip(alone, 2), FSDP_NORM_ALL_REDUCE_START).kind = FSDP_REDUCE_SCATTER_START;
  EXPECT_NE(alone.error(), "");
  entry(clip(place, 2), FSDP_CLIP_FACTOR).source = 0;
  EXPECT_NE(place.error().find("entry 13: clip factor at byte 0, but the norm is at byte "),
            std::string::npos)
      << place.error();
  entry(clip(stream, 2), FSDP_NORM_ALL_REDUCE_START).stream = FSDP_GATHER;
  EXPECT_EQ(stream.error(), "invalid plan: entry 11: on stream 1, its communicator on 2");
}

// A plan with a scaled loss has a number for the scale and, like one that clips, the norm before
// its updates.
TEST(CollectivePlanTest, ScaledLoss) {
  auto scale = [](SmallPlan &small, const fsdp_loss_scale &options,
                  double norm = 0) -> PlanBuilder & {
    small.builder.scaleLoss(options);
    small.builder.clip(norm);
    std::vector<fsdp_entry> &entries = small.builder.entryTable;
    auto update = std::ranges::find(entries, FSDP_UPDATE, &fsdp_entry::kind);
    std::rotate(update, entries.end() - 4, entries.end());
    return small.builder;
  };
  const fsdp_loss_scale usual = {65536, 2, 0.5, 2000};
  SmallPlan right, clips, none, low, shrinks, value, wide, left;
  scale(right, usual);
  EXPECT_EQ(right.error(), "");
  const std::string text = describePlan(right.builder.plan);
  EXPECT_NE(text.find(", loss scale 65536 (growth_factor 2, backoff_factor 0.5, growth_interval "
                      "2000)\n"),
            std::string::npos)
      << text;
  scale(clips, usual, 2);
  EXPECT_EQ(clips.error(), "");
  none.builder.scaleLoss(usual);
  EXPECT_EQ(none.error(), "invalid plan: clips gradients to norm 0.000000 of type 0");
  scale(low, {1e-45, 2, 0.5, 2000});
  EXPECT_NE(low.error().find("scales its loss by 0.000000, growing by 2.000000"), std::string::npos)
      << low.error();
  scale(shrinks, {1, 0.5, 0.5, 2000});
  EXPECT_NE(shrinks.error().find("growing by 0.500000"), std::string::npos) << shrinks.error();
  scale(value, usual).plan.loss_scale_value = 1000;
  EXPECT_NE(value.error().find("the loss scale is value 1000 of "), std::string::npos)
      << value.error();
  PlanBuilder &other = scale(wide, usual);
  other.plan.loss_scale_value = other.addValue(FSDP_F32, {2});
  EXPECT_NE(wide.error().find("is no f32 number"), std::string::npos) << wide.error();
  left.builder.plan.loss_scale.growth_interval = 3;
  EXPECT_EQ(left.error(), "invalid plan: has options of a loss scale, but none to begin with");
}

// Collectives move exactly a shard per rank, within the arena, on a stream of their own.
TEST(CollectivePlanTest, Collectives) {
  SmallPlan bytes, place, stream, count;
  bytes.firstOf(FSDP_ALL_GATHER_START).bytes = 4;
  EXPECT_EQ(bytes.error(), "invalid plan: entry 0: gathers 4 bytes per rank, a shard has 64");
  place.firstOf(FSDP_ALL_GATHER_START).destination = place.builder.allocate(0) - 64;
  EXPECT_NE(place.error().find("entry 0: its output takes bytes"), std::string::npos);
  stream.firstOf(FSDP_REDUCE_SCATTER_START).stream = FSDP_COMPUTE;
  EXPECT_EQ(stream.error(), "invalid plan: entry 8: on stream 0, its communicator on 2");
  count.firstOf(FSDP_REDUCE_SCATTER_START).count = 3;
  EXPECT_EQ(count.error(),
            "invalid plan: entry 8: reduces 3 elements per rank, a shard's gradient has 16");
}

// Groups of f32 may travel in a narrower dtype, and their collectives are of that.
TEST(CollectivePlanTest, TravelDtypes) {
  auto group = [](SmallPlan &small) -> fsdp_group & { return small.builder.groupTable[0]; };
  SmallPlan gather, reduce, source, wide, split;
  group(gather).gather_dtype = FSDP_BF16;
  EXPECT_EQ(gather.error(), "invalid plan: entry 0: gathers 64 bytes per rank, a shard has 32");
  gather.firstOf(FSDP_ALL_GATHER_START).bytes = 32;
  EXPECT_EQ(gather.error().find("invalid plan: entry 0: gathers f32 from "), 0u);
  gather.firstOf(FSDP_ALL_GATHER_START).dtype = FSDP_BF16;
  EXPECT_EQ(gather.error(), "");
  EXPECT_NE(describePlan(gather.builder.plan).find("64 bytes per rank, gathered as bf16\n"),
            std::string::npos);
  group(reduce).reduce_dtype = FSDP_BF16;
  EXPECT_EQ(reduce.error(), "invalid plan: entry 8: reduces f32, its group bf16");
  group(source).gather_shard += 64;
  EXPECT_EQ(source.error().find("invalid plan: entry 0: gathers f32 from "), 0u);
  group(wide).gather_dtype = FSDP_F64;
  EXPECT_EQ(wide.error(),
            "invalid plan: group 0 (layers.0): gathered as f64 with parameters of f32");
  group(split).reduce_dtype = FSDP_F64;
  EXPECT_EQ(split.error(),
            "invalid plan: group 0 (layers.0): reduced as f64 with parameters of f32");
}

// Reductions have an operation and divisors, which the description tells.
TEST(CollectivePlanTest, Reductions) {
  SmallPlan operation, infinite, negative, scaled;
  operation.firstOf(FSDP_REDUCE_SCATTER_START).reduce_op = 3;
  EXPECT_EQ(operation.error(), "invalid plan: entry 8: reduces by operation 3");
  infinite.firstOf(FSDP_REDUCE_SCATTER_START).predivide = std::numeric_limits<double>::infinity();
  EXPECT_EQ(infinite.error(), "invalid plan: entry 8: divides by inf");
  negative.firstOf(FSDP_REDUCE_SCATTER_START).postdivide = -1;
  EXPECT_EQ(negative.error(), "invalid plan: entry 8: divides by -1.000000");
  fsdp_entry &entry = scaled.firstOf(FSDP_REDUCE_SCATTER_START);
  entry.reduce_op = FSDP_SUM;
  entry.predivide = 2;
  entry.postdivide = 1.5;
  EXPECT_EQ(scaled.error(), "");
  EXPECT_NE(describePlan(scaled.builder.plan)
                .find("bytes per rank, reduced by sum predivide 2 postdivide 1.5\n"),
            std::string::npos);
}

// A coalesced start stands directly behind one of its kind.
TEST(CollectivePlanTest, Coalesced) {
  SmallPlan alone;
  alone.firstOf(FSDP_REDUCE_SCATTER_START).coalesced = 1;
  EXPECT_EQ(alone.error(), "invalid plan: entry 8: coalesced, but not behind a start of its kind "
                           "and communicator");
}
