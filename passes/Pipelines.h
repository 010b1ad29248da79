//===- Pipelines.h - From a captured to a planned step ----------*- C++ -*-===//

#ifndef FSDP_PASSES_PIPELINES_H
#define FSDP_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "passes/Passes.h"

#include <optional>
#include <string>

namespace fsdp {

/// What a user chooses. Empty strings mean: as the YAML file says, else the default.
struct PipelineOptions : mlir::PassPipelineOptions<PipelineOptions> {
  Option<std::string> config{*this, "config", llvm::cl::desc("YAML file with mesh and groups")};
  Option<std::string> mesh{*this, "mesh",
                           llvm::cl::desc("Device mesh as AXIS=RANKS or replicate=R,shard=S")};
  Option<std::string> reshardAfterForward{
      *this, "reshard-after-forward",
      llvm::cl::desc("true, false, none, auto or a number of ranks")};
  Option<std::string> layout{*this, "layout", llvm::cl::desc("flat or per-param")};
  Option<std::string> shardPlacement{
      *this, "shard-placement",
      llvm::cl::desc("On which dimension per-param cuts parameters: a number or largest")};
  Option<std::string> prefetch{*this, "prefetch", llvm::cl::desc("fsdp2 or none")};
  Option<std::string> paramDtype{
      *this, "param-dtype",
      llvm::cl::desc("In which parameters are gathered: float32, bfloat16, float16")};
  Option<std::string> reduceDtype{
      *this, "reduce-dtype",
      llvm::cl::desc("In which gradients are reduced: float32, bfloat16, float16")};
  Option<int64_t> microbatches{*this, "microbatches", llvm::cl::init(0),
                               llvm::cl::desc("Forwards and backwards of a step, whose gradients "
                                              "are added up; 0: as the YAML file says, else 1")};
  Option<std::string> microbatchLoss{*this, "microbatch-loss", llvm::cl::desc("mean or sum")};
  Option<std::string> microbatchOrder{*this, "microbatch-order",
                                      llvm::cl::desc("sequential or 1f1b")};
  Option<std::string> stages{
      *this, "stages",
      llvm::cl::desc("Of microbatch-order 1f1b: the modules with which stages begin, with commas")};
  Option<std::string> gradientSync{
      *this, "gradient-sync",
      llvm::cl::desc("After which microbatches gradients are reduced: each, reduce_scatter, last")};
  Option<std::string> reshardAfterBackward{
      *this, "reshard-after-backward",
      llvm::cl::desc("false: parameters stay gathered between microbatches")};
  Option<std::string> splitRoot{
      *this, "split-root",
      llvm::cl::desc("true: what the root holds before, between and behind the other groups are "
                     "groups of their own; default: where schedules are searched for")};
  /// The default of splitRoot is true, whatever the schedule: for an evaluation beside a step that
  /// is searched for.
  bool splitsRoot = false;
  Option<std::string> offloadPolicy{
      *this, "offload-policy",
      llvm::cl::desc("cpu: parameters and the optimizer's state lie in the host's memory, as with "
                     "FSDP2's CPUOffloadPolicy; none")};
  Option<Transport> transport{
      *this, "transport", llvm::cl::init(Transport::Kernels),
      llvm::cl::desc("What moves the bytes of gathers; the bits are the same"),
      llvm::cl::values(clEnumValN(Transport::Kernels, "kernels", "NCCL's kernels"),
                       clEnumValN(Transport::CopyEngine, "copy-engine",
                                  "the devices' copy engines, between ranks of one host"),
                       clEnumValN(Transport::Auto, "auto", "as a search decides for each gather"))};
  Option<RecomputePolicy> recompute{
      *this, "recompute", llvm::cl::init(RecomputePolicy::Auto),
      llvm::cl::desc(
          "What the backward computes again instead of keeping it; the bits are the same"),
      llvm::cl::values(
          clEnumValN(RecomputePolicy::Auto, "auto",
                     "cheap; where schedules are searched for, what is fastest and fits"),
          clEnumValN(RecomputePolicy::Cheap, "cheap",
                     "results that cost about as much to compute as to read"),
          clEnumValN(RecomputePolicy::Selected, "selected",
                     "of every block, all but products and attention"),
          clEnumValN(RecomputePolicy::Full, "full", "of every block, all but what enters it"),
          clEnumValN(RecomputePolicy::None, "none", "nothing"))};
  Option<OffloadPolicy> offloadOptimizer{
      *this, "offload-optimizer", llvm::cl::init(OffloadPolicy::None),
      llvm::cl::desc(
          "Which groups keep their optimizer state in the host's memory between updates; "
          "the bits are the same"),
      llvm::cl::values(
          clEnumValN(OffloadPolicy::None, "none", "those that say so in the YAML file"),
          clEnumValN(OffloadPolicy::Auto, "auto",
                     "all, if a search under a memory cap finds nothing that fits without"),
          clEnumValN(OffloadPolicy::All, "all", "all that do not say otherwise"))};
  Option<OffloadPolicy> offloadActivations{
      *this, "offload-activations", llvm::cl::init(OffloadPolicy::None),
      llvm::cl::desc("Which blocks keep what their forward keeps for the backward in the host's "
                     "memory; the bits are the same without fusion=fast"),
      llvm::cl::values(
          clEnumValN(OffloadPolicy::None, "none", "those that say so in the YAML file"),
          clEnumValN(OffloadPolicy::Auto, "auto", "as many as a search under a memory cap decides"),
          clEnumValN(OffloadPolicy::All, "all", "all that do not say otherwise"))};
  Option<FusionChoice> fusion{
      *this, "fusion", llvm::cl::init(FusionChoice::Auto),
      llvm::cl::desc("Which operators become generated kernels"),
      llvm::cl::values(
          clEnumValN(FusionChoice::Auto, "auto",
                     "fast of steps captured for CUDA, exact of others"),
          clEnumValN(FusionChoice::Off, "off", "none"),
          clEnumValN(FusionChoice::Exact, "exact", "those whose kernels give torch's bits"),
          clEnumValN(FusionChoice::Fast, "fast", "also others: fp32 inside, one rounding"))};
  Option<std::string> report{*this, "report",
                             llvm::cl::desc("Write events and collectives to this JSON file")};
  Option<ScheduleChoice> schedule{
      *this, "schedule", llvm::cl::init(ScheduleChoice::Fsdp2),
      llvm::cl::desc("Who decides on the order of issue"),
      llvm::cl::values(
          clEnumValN(ScheduleChoice::Fsdp2, "fsdp2", "eager FSDP2, or prefetch=none"),
          clEnumValN(ScheduleChoice::Asap, "asap", "as soon as memory allows"),
          clEnumValN(ScheduleChoice::Auto, "auto", "a search for the least step time"))};
  Option<std::string> memoryCap{
      *this, "memory-cap", llvm::cl::init("0"),
      llvm::cl::desc("Bytes that the arena may have: 80000000, 70GiB; 0: no cap")};
  Option<bool> buckets{*this, "buckets", llvm::cl::init(true),
                       llvm::cl::desc("Let a search issue several collectives in one launch")};
  Option<std::string> maxBucketSize{
      *this, "max-bucket-size", llvm::cl::init("0"),
      llvm::cl::desc("The most bytes that a launch of several collectives may move: 1GiB; 0: all")};
  Option<uint64_t> seed{*this, "seed", llvm::cl::init(0), llvm::cl::desc("Of the search")};
  Option<int64_t> budget{*this, "budget", llvm::cl::init(3000),
                         llvm::cl::desc("Simulations that the search may take")};
  Option<std::string> device{*this, "device",
                             llvm::cl::desc("Whose durations: h100, h200, b200, a100, cpu")};
  Option<std::string> profile{*this, "profile",
                              llvm::cl::desc("Durations measured by fsdp-profile (JSON)")};
  Option<std::string> network{*this, "network", llvm::cl::desc("A preset or a JSON file")};
  Option<std::string> computeJitter{
      *this, "compute-jitter",
      llvm::cl::desc("How much durations of operations vary, percent (the profile's)")};
  Option<std::string> networkJitter{
      *this, "network-jitter",
      llvm::cl::desc("How much durations of collectives vary, percent (the network's)")};
  Option<ModulePhase> upTo{*this, "up-to", llvm::cl::init(ModulePhase::Planned),
                           llvm::cl::desc("Last phase"),
                           llvm::cl::values(clEnumValN(ModulePhase::Sharded, "sharded", ""),
                                            clEnumValN(ModulePhase::Scheduled, "scheduled", ""),
                                            clEnumValN(ModulePhase::Planned, "planned", ""))};
  Option<bool> verify{*this, "verify", llvm::cl::init(true),
                      llvm::cl::desc("Check the module after every phase")};
};

/// Flags that only a search, or only a search or a report, looks at.
inline constexpr llvm::StringLiteral kSearchFlags[] = {
    "max-bucket-size", "seed",    "budget",         "device",
    "profile",         "network", "compute-jitter", "network-jitter"};

/// Choices that decide whether a flag has an effect.
struct FlagUses {
  ScheduleChoice schedule = ScheduleChoice::Fsdp2;
  bool hasReport = false, hasCap = false, hasBuckets = true;
};
/// Why one of these flags would have no effect; none where it has one.
std::optional<std::string> explainUnused(llvm::StringRef flag, const FlagUses &uses);

/// Why this `--transport` would decide nothing; none where it decides.
std::optional<std::string> explainUnusedTransport(Transport transport, ScheduleChoice schedule);

/// Why the policy Auto of `--offload-optimizer` or `--offload-activations` would decide nothing;
/// none where it decides.
std::optional<std::string> explainUnusedOffload(OffloadPolicy policy, ScheduleChoice schedule,
                                                bool hasCap);

/// Adds the passes from captured to `options.upTo`, with a phase verifier after each phase.
void buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Adds fsdp-recompute with these options. Before whole blocks are recomputed, what is cheap gets a
/// copy of its own at its use in the backward, so that those of the block's repetition end early.
void addRecompute(mlir::OpPassManager &manager, RecomputeOptions options);

/// Adds fsdp-offload-optimizer and fsdp-offload-activations.
void addOffload(mlir::OpPassManager &manager, const OffloadChoices &offload);

/// Registers `--fsdp-pipeline`, which refuses options that would have no effect.
void registerFsdpPipelines();

} // namespace fsdp

#endif // FSDP_PASSES_PIPELINES_H
