//===- GeneratedOracleTest.cpp - Compiled steps of drawn configurations ---===//
//
//   OracleTests --configurations=300 --seed=7 --gtest_filter=GeneratedOracle.*
//
//===----------------------------------------------------------------------===//

#include "Oracle.h"

#include <ATen/Parallel.h>

#include <iostream>
#include <random>

using namespace fsdp;
using namespace fsdp::frontend;

static unsigned numConfigurations = 24;
static uint64_t firstSeed = 1;

/// The same configuration for the same seed, on every machine.
static Configuration drawConfiguration(uint64_t seed) {
  std::mt19937_64 numbers(seed);
  auto draw = [&](auto... choices) {
    std::common_type_t<decltype(choices)...> all[] = {choices...};
    return all[numbers() % sizeof...(choices)];
  };
  using Text = const char *;
  Configuration c;
  c.model = draw(Text("mlp"), Text("vit"), Text("convnet"), Text("llama"), Text("llama_bf16"),
                 Text("gpt2"), Text("gpt2_dropout"), Text("shared"));
  c.shards = draw(1, 2, 2, 3, 4, 5);
  c.replicas = c.shards == 1 ? 1 : draw(1, 1, 2, 3);
  const unsigned ranks = c.replicas * c.shards;
  if (ranks > 1 && draw(false, false, true)) // of the root, another mesh
    c.rootShards = draw(1u, ranks, ranks % 2 == 0 ? 2u : ranks);
  c.schedule = draw(ScheduleChoice::Fsdp2, ScheduleChoice::Auto, ScheduleChoice::Asap);
  if (c.rootShards > 0 && (c.rootShards == 1 || c.shards == 1))
    c.schedule = ScheduleChoice::Fsdp2; // others refuse groups that are whole beside sharded ones
  bool isSearched = c.schedule != ScheduleChoice::Fsdp2;
  c.layout = draw(Text("flat"), Text("per-param"));
  c.reshard = draw(Text(""), Text("true"), Text("false"), Text("none"));
  if (!isSearched && c.shards == 4 && c.rootShards != 1 && draw(false, true))
    c.reshard = "2";
  c.prefetch = isSearched ? "" : draw(Text(""), Text("fsdp2"), Text("none"));
  c.recompute = draw(RecomputePolicy::Auto, RecomputePolicy::None, RecomputePolicy::Cheap,
                     RecomputePolicy::Selected, RecomputePolicy::Full);
  c.reduceDtype = draw(Text(""), Text(""), Text("bfloat16"), Text("float32"));
  if (c.model == "llama_bf16") // whose parameters are bf16
    c.reduceDtype = {};
  c.buckets = !isSearched || draw(true, false);
  c.optimizer.kind = draw(OptimizerKind::SGD, OptimizerKind::Adam, OptimizerKind::AdamW,
                          OptimizerKind::RMSprop, OptimizerKind::Adagrad, OptimizerKind::Adamax,
                          OptimizerKind::NAdam, OptimizerKind::RAdam, OptimizerKind::Adadelta);
  if (c.optimizer.kind == OptimizerKind::SGD && draw(false, true))
    c.optimizer.options["momentum"] = {0.9};
  c.optimizer.options["lr"] = {0.05};
  const auto states = getStateNames(*c.optimizer.kind, c.optimizer.options);
  bool hasState = !states.empty();
  c.fusion = draw(FusionChoice::Off, FusionChoice::Exact, FusionChoice::Fast);
  c.offload = hasState && draw(false, true);
  c.offloadParameters = draw(false, false, true) && (c.shards > 1 || !isSearched);
  if (draw(false, false, true))
    c.optimizer.clipGradNorm = 0.5;
  c.frozenEvery = draw(0, 0, 2, 3);
  if (draw(false, true)) {
    c.microbatches = draw(2, 3);
    c.gradientSync = draw(GradientSync::Each, GradientSync::Last, GradientSync::ReduceScatter);
    const bool hasReplicas = c.replicas > 1 || c.rootShards > 0;
    if ((!hasReplicas || isSearched) && c.gradientSync == GradientSync::ReduceScatter)
      c.gradientSync = GradientSync::Each;
    c.reshardAfterBackward = draw(true, false);
  }
  if (c.optimizer.clipGradNorm)
    c.optimizer.clipNormType = draw(NormType::Two, NormType::One, NormType::Infinity);
  if (c.layout == "per-param" && draw(false, true))
    c.shardPlacement = "largest";
  if (c.layout == "per-param" && c.shards > 1 && c.shardPlacement.empty() && c.reshard != "2" &&
      !c.offloadParameters && c.model != "llama_bf16" && c.rootShards != 1)
    c.encodes = draw(false, true);
  bool hasStages = c.model == "mlp" || c.model == "convnet" || c.model == "llama";
  if (c.microbatches > 1 && !isSearched && hasStages && c.rootShards == 0)
    c.isInterleaved = draw(false, true);
  using Dtypes = StateDtypes;
  if (hasState && c.model == "llama_bf16")
    c.optimizer.stateDtypes = draw(Dtypes(), Dtypes{{"", "float32"}});
  else if (hasState && c.optimizer.kind != OptimizerKind::SGD)
    c.optimizer.stateDtypes =
        draw(Dtypes(), Dtypes{{"", "bfloat16"}}, Dtypes{{states.front().str(), "bfloat16"}});
  c.transport = draw(Transport::Kernels, Transport::CopyEngine,
                     c.schedule == ScheduleChoice::Auto ? Transport::Auto : Transport::Kernels);
  if (draw(false, false, true))
    c.optimizer.options["ema_decay"] = {0.9};
  if (!c.optimizer.clipGradNorm && draw(false, false, true))
    c.optimizer.options["clip_grad_value"] = {0.01};
  if (draw(false, false, true))
    c.optimizer.lossScaling = {.init = 1000};
  return c;
}

TEST(GeneratedOracle, EveryPhaseEqualsTheCapturedStep) {
  std::cout << "seeds " << firstSeed << " to " << firstSeed + numConfigurations - 1 << '\n';
  for (uint64_t seed = firstSeed; seed < firstSeed + numConfigurations; ++seed) {
    Configuration configuration = drawConfiguration(seed);
    SCOPED_TRACE("--configurations=1 --seed=" + std::to_string(seed) + ": " +
                 configuration.describe());
    Oracle oracle(configuration);
    for (ModulePhase phase : {ModulePhase::Sharded, ModulePhase::Scheduled, ModulePhase::Planned}) {
      auto module = oracle.compile(phase);
      if (!module)
        break;
      EXPECT_EQ(oracle.compare(*module), "") << stringifyModulePhase(phase).str();
    }
  }
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  at::set_num_threads(1); // the models are small, and threads wait for each other on a busy machine
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef flag = argv[i];
    bool isRead = flag.consume_front("--configurations=")
                      ? !flag.getAsInteger(10, numConfigurations)
                  : flag.consume_front("--seed=") ? !flag.getAsInteger(10, firstSeed)
                                                  : false;
    if (!isRead) {
      std::cerr << "unknown argument '" << argv[i] << "'\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
