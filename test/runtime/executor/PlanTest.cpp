//===- PlanTest.cpp - Validation and description of plans -----------------===//

#include "SmallPlan.h"

using namespace fsdp::test;
using fsdp::rt::describePlan;
using fsdp::rt::validatePlan;

TEST(PlanTest, ValidPlan) { EXPECT_EQ(SmallPlan().error(), ""); }

// A plan of another ABI, or with a header of another size, is refused before anything is read.
TEST(PlanTest, Abi) {
  SmallPlan version, header;
  version.builder.plan.abi_version = 99;
  EXPECT_EQ(version.error(), "invalid plan: ABI version 99, this runtime speaks " +
                                 std::to_string(FSDP_PLAN_ABI_VERSION) +
                                 "; compile the step again");
  header.builder.plan.struct_bytes = 8;
  EXPECT_EQ(header.error(),
            "invalid plan: header of 8 bytes, expected " + std::to_string(sizeof(fsdp_plan)));
}

// Every value lies within the arena.
TEST(PlanTest, ValueOutsideTheArena) {
  SmallPlan small;
  small.builder.valueTable[0].offset = 1 << 20;
  EXPECT_EQ(small.error(),
            "invalid plan: value 0: it takes bytes [1048576, 1048640) of an arena of 704");
  small.builder.valueTable[0].offset = INT64_MAX - 1; // its end is no number
  EXPECT_EQ(small.error(), "invalid plan: value 0: it takes bytes [9223372036854775806, "
                           "9223372036854775807) of an arena of 704");
}

// Sizes whose product is no number are larger than any arena.
TEST(PlanTest, SizesBeyondAllNumbers) {
  for (int64_t stride : {int64_t(1) << 62, int64_t(3036027435679219713)}) {
    SmallPlan small;
    uint32_t huge = small.builder.addStrided(FSDP_F32, {4, 64}, {1, stride}, 0);
    EXPECT_EQ(small.error(), "invalid plan: value " + std::to_string(huge) +
                                 ": it takes bytes [0, 9223372036854775807) of an arena of 704");
  }
}

// A handle belongs to an entry that starts something.
TEST(PlanTest, MoreHandlesThanEntries) {
  SmallPlan small;
  small.builder.plan.num_handles = 1u << 31;
  EXPECT_EQ(small.error(), "invalid plan: 2147483648 handles of " +
                               std::to_string(small.builder.entryTable.size()) + " entries");
}

// State is kept in the parameters' dtype, or in fp32 or bf16 where updates can compute in fp32.
TEST(PlanTest, StateDtypes) {
  SmallPlan narrow, other, wide;
  narrow.builder.groupTable[narrow.group].state_dtype[1] = FSDP_BF16;
  EXPECT_EQ(narrow.error(), "");
  EXPECT_NE(describePlan(narrow.builder.plan).find("optimizer state as f32, bf16"),
            std::string::npos);
  other.builder.groupTable[other.group].state_dtype[0] = FSDP_F16;
  EXPECT_EQ(other.error(), "invalid plan: group 0 (layers.0): optimizer state of dtype f16 with "
                           "parameters of f32");
  fsdp_group &group = wide.builder.groupTable[wide.group];
  group.dtype = group.gather_dtype = group.reduce_dtype = FSDP_F64;
  EXPECT_NE(wide.error().find("optimizer state of dtype f32 with parameters of f64"),
            std::string::npos);
}

// Optimizer state on the host is copied whole, on the stream of its direction, and has its place
// there.
TEST(PlanTest, StateCopies) {
  auto offload = [](SmallPlan &small) -> fsdp_entry & {
    PlanBuilder &builder = small.builder;
    builder.plan.host_arena_bytes = 128;
    fsdp_group &group = builder.groupTable[small.group];
    group.state_on_host = 1;
    group.host_state[1] = 64;
    fsdp_entry &fetch = builder.entry(FSDP_FETCH_STATE_START);
    fetch.stream = FSDP_HOST_TO_DEVICE;
    fetch.target = small.group;
    fetch.handle = builder.plan.num_handles++;
    fetch.bytes = 128;
    builder.wait(fetch.handle);
    return small.firstOf(FSDP_FETCH_STATE_START);
  };
  SmallPlan right, stream, bytes, place, nowhere;
  offload(right);
  EXPECT_EQ(right.error(), "");
  EXPECT_NE(describePlan(right.builder.plan).find("\n  on the host: 128 bytes of optimizer state"),
            std::string::npos);
  offload(stream).stream = FSDP_GATHER;
  EXPECT_EQ(stream.error(),
            "invalid plan: entry 11: a copy of optimizer state on stream 1, expected 4");
  offload(bytes).bytes = 4;
  EXPECT_EQ(bytes.error(), "invalid plan: entry 11: copies 4 bytes of state, which has 128");
  offload(place);
  place.builder.groupTable[0].host_state[1] = 128;
  EXPECT_EQ(place.error(), "invalid plan: group 0: its optimizer state takes bytes [128, 192) of a "
                           "host's arena of 128");
  offload(nowhere);
  nowhere.builder.groupTable[0].state_on_host = 0;
  EXPECT_NE(nowhere.error().find("which is not on the host"), std::string::npos);
}

// A gradient or an activation on the host is copied on the stream of its direction, between places
// within both arenas.
TEST(PlanTest, ValueCopies) {
  auto copy = [](SmallPlan &small, fsdp_entry_kind kind) -> fsdp_entry & {
    PlanBuilder &builder = small.builder;
    builder.plan.host_arena_bytes = 128;
    fsdp_entry &entry = builder.entry(kind);
    entry.stream = kind == FSDP_STORE_START ? FSDP_DEVICE_TO_HOST : FSDP_HOST_TO_DEVICE;
    (kind == FSDP_STORE_START ? entry.destination : entry.source) = 64;
    entry.handle = builder.plan.num_handles++;
    entry.bytes = 64;
    builder.wait(entry.handle);
    return small.firstOf(kind);
  };
  SmallPlan right, stream, arena, host, before, other;
  copy(right, FSDP_STORE_START);
  copy(right, FSDP_FETCH_START);
  EXPECT_EQ(right.error(), "");
  EXPECT_NE(describePlan(right.builder.plan)
                .find("\n  on the host: 64 bytes of gradients, activations and chunks"),
            std::string::npos);
  copy(stream, FSDP_STORE_START).stream = FSDP_HOST_TO_DEVICE;
  EXPECT_EQ(stream.error(),
            "invalid plan: entry 11: a copy to or from the host on stream 4, expected 5");
  copy(arena, FSDP_FETCH_START).destination = 1 << 20;
  EXPECT_NE(arena.error().find("what it copies takes bytes [1048576, "), std::string::npos);
  copy(host, FSDP_STORE_START).destination = 65;
  EXPECT_EQ(host.error(), "invalid plan: entry 11: 64 bytes at byte 65 of a host's arena of 128");
  copy(before, FSDP_FETCH_START).source = -1;
  EXPECT_EQ(before.error(), "invalid plan: entry 11: 64 bytes at byte -1 of a host's arena of 128");
  copy(other, FSDP_STORE_START);
  copy(other, FSDP_FETCH_START).source = 0;
  EXPECT_EQ(other.error(), "invalid plan: entry 13: fetches 64 bytes at byte 0 of a host's arena, "
                           "which were not stored there");
}

TEST(PlanTest, UnknownDtype) {
  SmallPlan small;
  small.builder.valueTable[1].dtype = 8;
  EXPECT_EQ(small.error(), "invalid plan: value 1: unknown dtype 8");
}

TEST(PlanTest, UnknownEntry) {
  SmallPlan small;
  small.builder.entryTable[0].kind = 77;
  EXPECT_EQ(small.error(), "invalid plan: entry 0: unknown kind 77");
}

// Arguments and results refer to values that exist.
TEST(PlanTest, ArgumentsOutOfRange) {
  SmallPlan small;
  small.firstOf(FSDP_CALL).num_arguments = 1000;
  EXPECT_EQ(small.error(), "invalid plan: entry 3: arguments out of range");
}

// A group index beyond the table is refused wherever one stands.
TEST(PlanTest, GroupOutOfRange) {
  for (fsdp_entry_kind kind : {FSDP_ALL_GATHER_START, FSDP_RELEASE, FSDP_UPDATE}) {
    SmallPlan small;
    small.firstOf(kind).target = 5;
    EXPECT_NE(small.error().find("group 5 of 1"), std::string::npos) << small.error();
  }
}

// Each group says over how many ranks it is sharded. Where groups differ in that, the norm of all
// gradients is that of all ranks, and of a shard that several of them hold the first one counts.
TEST(PlanTest, ShardsOfGroups) {
  SmallPlan odd, mixed;
  odd.builder.groupTable[0].shards = 3;
  EXPECT_EQ(odd.error(), "invalid plan: group 0 (layers.0): sharded over 3 of 2 ranks");
  EXPECT_EQ(fsdp::rt::PlanView(mixed.builder.finish(mixed.loss)).normRanks(), 2u);
  SmallPlan whole;
  fsdp_group &group = whole.builder.groupTable[0];
  group.shards = 1;
  EXPECT_EQ(fsdp::rt::PlanView(whole.builder.finish(whole.loss)).normRanks(), 1u);
  mixed.builder.groupTable.push_back(group);
  const fsdp::rt::PlanView view(mixed.builder.finish(mixed.loss));
  EXPECT_EQ(view.normRanks(), 2u);
  for (unsigned rank : {0u, 1u}) {
    EXPECT_TRUE(view.countsInNorm(view.groups()[0], rank));
    EXPECT_EQ(view.countsInNorm(view.groups()[1], rank), rank == 0);
    EXPECT_EQ(fsdp::rt::PlanView::shardOf(view.groups()[0], rank), rank);
    EXPECT_EQ(fsdp::rt::PlanView::shardOf(view.groups()[1], rank), 0u);
  }
}

// Each start has one wait, after it.
TEST(PlanTest, Handles) {
  SmallPlan unmatched, twice;
  unmatched.firstOf(FSDP_WAIT).handle = 1;
  EXPECT_EQ(unmatched.error(), "invalid plan: entry 1: waits for handle 1, which is not in flight");
  twice.firstOf(FSDP_WAIT).kind = FSDP_RELEASE;
  twice.firstOf(FSDP_REDUCE_SCATTER_START).handle = 0;
  EXPECT_EQ(twice.error(), "invalid plan: entry 8: handle 0 is already in flight");
  SmallPlan open;
  open.builder.entryTable.back().kind = FSDP_RELEASE;
  open.builder.entryTable[9].kind = FSDP_RELEASE;
  EXPECT_EQ(open.error(), "invalid plan: nothing waits for handle 1");
}

// Optimizers update floating-point parameters only.
TEST(PlanTest, GroupOfIntegers) {
  SmallPlan small;
  small.builder.groupTable[0].dtype = FSDP_I32;
  EXPECT_EQ(small.error(),
            "invalid plan: group 0 (layers.0): parameters of dtype i32, expected f32, "
            "bf16, f16 or f64, or frozen parameters");
}

// Copies keep shape and dtype.
TEST(PlanTest, CopyOfAnotherShape) {
  SmallPlan small;
  small.firstOf(FSDP_COPY).source_value = 0;
  EXPECT_EQ(small.error(),
            "invalid plan: entry 7: copies %0: f32[2, 8] strides [8, 1] to %5: f32[4, "
            "8] strides [8, 1]");
}

// The pieces of a parameter hold all of it.
TEST(PlanTest, PiecesHoldTheWholeParameter) {
  SmallPlan small;
  fsdp_plan &plan = small.builder.finish(small.loss);
  std::vector<fsdp_piece> pieces(plan.pieces, plan.pieces + plan.num_pieces);
  pieces[1].count = 15;
  plan.pieces = pieces.data();
  EXPECT_EQ(validatePlan(plan).message(),
            "invalid plan: parameter 0 (layers.0.w): pieces hold 31 of its 32 elements");
}

// Only a dimension of the per-param layout is cut. A run stays within its row.
TEST(PlanTest, ShardDim) {
  SmallPlan small;
  fsdp_plan &plan = small.builder.finish(small.loss);
  std::vector<fsdp_parameter> parameters(plan.parameters, plan.parameters + plan.num_parameters);
  std::vector<fsdp_group> groups(plan.groups, plan.groups + plan.num_groups);
  std::vector<fsdp_piece> pieces(plan.pieces, plan.pieces + plan.num_pieces);
  plan.parameters = parameters.data();
  plan.groups = groups.data();
  plan.pieces = pieces.data();
  parameters[0].shard_dim = 1;
  EXPECT_EQ(validatePlan(plan).message(),
            "invalid plan: parameter 0 (layers.0.w): cut on dimension 1 of 2, in the flat layout");
  groups[parameters[0].group].layout = FSDP_LAYOUT_PER_PARAM;
  parameters[0].shard_dim = 2;
  EXPECT_EQ(validatePlan(plan).message(),
            "invalid plan: parameter 0 (layers.0.w): cut on dimension 2 of 2");
  parameters[0].shard_dim = 1;
  pieces[1].first = 4; // the second half of each row of 8
  EXPECT_EQ(validatePlan(plan).message(), "");
  EXPECT_NE(describePlan(plan).find("\n    cut on dimension 1: layers.0.w\n"), std::string::npos);
  const char *const outOfRange =
      "invalid plan: parameter 0 (layers.0.w): piece of rank 1 out of range";
  pieces[1].first = 5;
  EXPECT_EQ(validatePlan(plan).message(), outOfRange);
  // Two planes of two rows of eight: a piece of half a row is none of a whole one.
  std::vector<int64_t> integers(plan.integers, plan.integers + plan.num_integers);
  parameters[0].first_size = plan.num_integers;
  parameters[0].num_dims = 3;
  integers.insert(integers.end(), {2, 2, 8});
  plan.integers = integers.data();
  plan.num_integers += 3;
  pieces[1].first = 8;
  EXPECT_EQ(validatePlan(plan).message(), "");
  pieces[1].first = 4;
  EXPECT_EQ(validatePlan(plan).message(), outOfRange);
}

TEST(PlanTest, Describe) {
  SmallPlan small;
  std::string text = describePlan(small.builder.finish(small.loss));
  EXPECT_EQ(text, "model: test\n"
                  "mesh: dp = 2\n"
                  "optimizer: adamw lr 0.001, weight decay 0.1, betas 0.9, 0.999, eps 1e-08\n"
                  "input: x f32[2,8]\n"
                  "groups: 1, 1 parameters of 32 elements\n"
                  "  layers.0: 1 parameters, f32, flat layout, 64 bytes per rank\n"
                  "collectives per step:\n"
                  "  all_gather in forward: 1, 128 bytes whole\n"
                  "  reduce_scatter in backward: 1, 128 bytes whole\n"
                  "memory per rank:\n"
                  "  arena: 704 bytes\n"
                  "  largest sum of live buffers: 704 bytes\n"
                  "  kept between steps: 256 bytes\n"
                  "  activations, gathered parameters and gradients: 448 bytes\n"
                  "  copied per step: 128 bytes\n"
                  "entries: 11, of which 2 calls and 1 views\n");
}
