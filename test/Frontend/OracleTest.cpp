//===- OracleTest.cpp - Compiled steps of the reference models ------------===//

#include "Oracle.h"

#include "mlir/IR/Builders.h"

using namespace fsdp;
using namespace fsdp::frontend;

namespace {
class OracleTest : public testing::TestWithParam<Configuration> {};

constexpr ModulePhase kPhases[] = {ModulePhase::Sharded, ModulePhase::Scheduled,
                                   ModulePhase::Planned};
} // namespace

// Loss, averaged gradients, buffers and updated parameters of every rank are those of the captured
// step, bit for bit, in every phase.
TEST_P(OracleTest, EveryPhaseEqualsTheCapturedStep) {
  Oracle oracle(GetParam());
  for (ModulePhase phase : kPhases) {
    auto module = oracle.compile(phase);
    ASSERT_TRUE(module);
    EXPECT_EQ(oracle.compare(*module), "") << stringifyModulePhase(phase).str();
  }
}

static std::vector<Configuration> makeConfigurations() {
  std::vector<Configuration> all;
  for (std::string model :
       {"mlp", "vit", "convnet", "llama", "llama_bf16", "gpt2", "gpt2_dropout", "shared"})
    for (auto [replicas, shards] : {std::pair(1u, 2u), {1, 3}, {1, 4}, {2, 2}}) {
      Configuration base{.model = model, .replicas = replicas, .shards = shards};
      all.push_back(base);
      Configuration perParam = base;
      perParam.layout = "per-param";
      all.push_back(perParam);
      perParam.schedule = ScheduleChoice::Auto;
      all.push_back(perParam);
      perParam.encodes = model != "llama_bf16"; // fp32 alone
      if (perParam.encodes)
        all.push_back(perParam);
      perParam.schedule = ScheduleChoice::Fsdp2;
      if (perParam.encodes)
        all.push_back(perParam);
      perParam.encodes = false;
      perParam.shardPlacement = "largest";
      all.push_back(perParam);
      Configuration searched = base;
      searched.schedule = ScheduleChoice::Auto;
      all.push_back(searched);
      if (shards == 4) {
        searched.chunks = true;
        all.push_back(searched);
        searched.layout = "per-param";
        searched.microbatches = 2;
        all.push_back(searched);
      }
      Configuration divided = base;
      divided.splitBlocks = 100;
      divided.recompute = RecomputePolicy::Full;
      divided.microbatches = replicas;
      all.push_back(divided);
      divided.schedule = ScheduleChoice::Auto;
      divided.layout = "per-param";
      all.push_back(divided);
      Configuration fused = base;
      fused.fusion = FusionChoice::Exact;
      all.push_back(fused);
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, OracleTest, testing::ValuesIn(makeConfigurations()),
                         [](const testing::TestParamInfo<Configuration> &info) {
                           std::string name = info.param.describe();
                           std::string result;
                           for (char c : name)
                             result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return result;
                         });

//===----------------------------------------------------------------------===//
// Wrong programs show
//===----------------------------------------------------------------------===//

template <typename OpT> static std::vector<OpT> collect(mlir::ModuleOp module) {
  std::vector<OpT> ops;
  module.walk([&](OpT op) { ops.push_back(op); });
  return ops;
}

// Two gradients of one type change places.
TEST(Oracle, SeesSwappedGradients) {
  Oracle oracle({.model = "llama"});
  auto module = oracle.compile(ModulePhase::Scheduled);
  ASSERT_TRUE(module);
  auto start = collect<ReduceScatterStartOp>(*module).back();
  for (unsigned i = 0; i < start->getNumOperands(); ++i)
    for (unsigned j = i + 1; j < start->getNumOperands(); ++j)
      if (start->getOperand(i).getType() == start->getOperand(j).getType()) {
        mlir::Value first = start->getOperand(i);
        start->setOperand(i, start->getOperand(j));
        start->setOperand(j, first);
        EXPECT_NE(oracle.compare(*module).find("the gradient of "), std::string::npos);
        return;
      }
  FAIL() << "no two gradients of one type";
}

// A parameter is read after its reshard.
TEST(Oracle, SeesUseAfterReshard) {
  Oracle oracle({.model = "mlp"});
  auto module = oracle.compile(ModulePhase::Sharded);
  ASSERT_TRUE(module);
  auto reshard = collect<ReshardOp>(*module).front();
  reshard->moveAfter(reshard.getStart().getWait());
  EXPECT_EQ(oracle.compare(*module),
            "parameter @layers.0.up.weight of group @layers.0 is used after its reshard by "
            "'t.default' in module 'layers.0.up'");
}

// A reduction over replicas meets along the axis of the shards.
TEST(Oracle, SeesWrongAxes) {
  Oracle oracle({.model = "mlp", .replicas = 2});
  auto module = oracle.compile(ModulePhase::Sharded);
  ASSERT_TRUE(module);
  auto start = collect<AllReduceStartOp>(*module).front();
  start.setAxesAttr(mlir::Builder(module->getContext()).getStrArrayAttr({"shard"}));
  EXPECT_NE(oracle.compare(*module).find("the gradient of "), std::string::npos);
}

// A group is not updated.
TEST(Oracle, SeesMissingUpdate) {
  Oracle oracle({.model = "mlp"});
  auto module = oracle.compile(ModulePhase::Scheduled);
  ASSERT_TRUE(module);
  collect<UpdateOp>(*module).front().erase();
  EXPECT_NE(oracle.compare(*module).find("gradients, expected"), std::string::npos);
}

// Two results that are live at once lie at one offset.
TEST(Oracle, SeesOverlappingBuffers) {
  Oracle oracle({.model = "mlp"});
  auto module = oracle.compile(ModulePhase::Planned);
  ASSERT_TRUE(module);
  ASSERT_EQ(oracle.compare(*module), "");
  for (auto call : collect<aten::CallOp>(*module)) {
    if (call.getBaseName() != "addmm")
      continue;
    // Its result takes the place of its own operand.
    mlir::Operation *source = call.getOperand(1).getDefiningOp();
    if (auto producer = llvm::dyn_cast<aten::CallOp>(source);
        producer && producer.getOffsets() && producer.getNumResults() == 1) {
      call.setOffsets(*producer.getOffsets());
      EXPECT_NE(oracle.compare(*module), "");
      return;
    }
  }
  FAIL() << "no product of a computed operand";
}

// A collective's place in the arena is written while it is in flight.
TEST(Oracle, SeesWritesToBytesInFlight) {
  Oracle oracle({.model = "mlp"});
  auto module = oracle.compile(ModulePhase::Planned);
  ASSERT_TRUE(module);
  for (auto start : collect<ReduceScatterStartOp>(*module))
    for (mlir::Operation *op = start->getNextNode(); op != start.getWait(); op = op->getNextNode())
      if (auto call = llvm::dyn_cast<aten::CallOp>(op); call && call.getOffsets() &&
                                                        call.getNumResults() == 1 &&
                                                        call.getOffsets()->front() >= 0) {
        call.setOffsets(llvm::ArrayRef<int64_t>{start.getOffsets()->back()});
        EXPECT_NE(oracle.compare(*module).find("before its wait"), std::string::npos)
            << oracle.compare(*module);
        return;
      }
  FAIL() << "nothing is computed while a reduction is in flight";
}
