//===- Pipelines.h - From a captured to a planned step ----------*- C++ -*-===//

#ifndef FSDP_PASSES_PIPELINES_H
#define FSDP_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "passes/Passes.h"

#include <optional>
#include <string>

namespace fsdp {

/// The user's choices. An empty string is the YAML file's choice, else the default.
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
      llvm::cl::desc(
          "Dimension on which the per-param layout shards parameters: a number or largest")};
  Option<std::string> prefetch{*this, "prefetch", llvm::cl::desc("fsdp2 or none")};
  Option<std::string> paramDtype{
      *this, "param-dtype",
      llvm::cl::desc("Dtype in which parameters are gathered: float32, bfloat16, float16")};
  Option<std::string> reduceDtype{
      *this, "reduce-dtype",
      llvm::cl::desc("Dtype in which gradients are reduced: float32, bfloat16, float16")};
  Option<int64_t> microbatches{*this, "microbatches", llvm::cl::init(0),
                               llvm::cl::desc("Number of microbatches of a step, whose gradients "
                                              "are added up; 0: the YAML file's, else 1")};
  Option<std::string> microbatchLoss{*this, "microbatch-loss", llvm::cl::desc("mean or sum")};
  Option<std::string> microbatchOrder{*this, "microbatch-order",
                                      llvm::cl::desc("sequential or 1f1b")};
  Option<std::string> stages{
      *this, "stages",
      llvm::cl::desc(
          "For microbatch-order 1f1b: the first module of each stage, separated by commas")};
  Option<std::string> gradientSync{
      *this, "gradient-sync",
      llvm::cl::desc("Microbatches after which gradients are reduced: each, reduce_scatter, last")};
  Option<std::string> reshardAfterBackward{
      *this, "reshard-after-backward",
      llvm::cl::desc("false: parameters stay gathered between microbatches")};
  Option<std::string> splitRoot{
      *this, "split-root",
      llvm::cl::desc("true: the root's parameters before, between and after the other groups form "
                     "groups of their own; default: true if a schedule is searched for")};
  Option<std::string> splitBlocks{
      *this, "split-blocks",
      llvm::cl::desc("a number: groups of one module with at least twice as many parameters become "
                     "parts of at least so many; true: of 450,000,000, the default if a schedule "
                     "is searched for; false: none is split")};
  /// Makes true the default of splitRoot and splitBlocks, whatever the schedule: for an evaluation
  /// whose training step is searched for.
  bool splitsGroups = false;
  Option<std::string> offloadPolicy{
      *this, "offload-policy",
      llvm::cl::desc("cpu: parameters and optimizer state are in host memory between their uses, "
                     "as with FSDP2's CPUOffloadPolicy; none")};
  Option<Transport> transport{
      *this, "transport", llvm::cl::init(Transport::Kernels),
      llvm::cl::desc("What moves the bytes of gathers; results are bitwise the same"),
      llvm::cl::values(clEnumValN(Transport::Kernels, "kernels", "NCCL's kernels"),
                       clEnumValN(Transport::CopyEngine, "copy-engine",
                                  "the devices' copy engines, between ranks of one host"),
                       clEnumValN(Transport::Auto, "auto", "a search decides for each gather"))};
  Option<RecomputePolicy> recompute{
      *this, "recompute", llvm::cl::init(RecomputePolicy::Auto),
      llvm::cl::desc(
          "What the backward recomputes instead of keeping it; results are bitwise the same"),
      llvm::cl::values(
          clEnumValN(RecomputePolicy::Auto, "auto",
                     "cheap, or if a schedule is searched for, the fastest choice that fits"),
          clEnumValN(RecomputePolicy::Cheap, "cheap",
                     "results that cost about as much to compute as to read"),
          clEnumValN(RecomputePolicy::Selected, "selected",
                     "of every block, all but matrix products and attention"),
          clEnumValN(RecomputePolicy::Full, "full", "of every block, all but its inputs"),
          clEnumValN(RecomputePolicy::None, "none", "nothing"))};
  Option<OffloadPolicy> offloadOptimizer{
      *this, "offload-optimizer", llvm::cl::init(OffloadPolicy::None),
      llvm::cl::desc("Groups whose optimizer state is in host memory between updates; results are "
                     "bitwise the same"),
      llvm::cl::values(
          clEnumValN(OffloadPolicy::None, "none", "only those for which the YAML file asks"),
          clEnumValN(OffloadPolicy::Auto, "auto",
                     "as all, if a search under a memory cap finds nothing else that fits"),
          clEnumValN(OffloadPolicy::All, "all", "all but those that the YAML file excludes"))};
  Option<OffloadPolicy> offloadActivations{
      *this, "offload-activations", llvm::cl::init(OffloadPolicy::None),
      llvm::cl::desc("Blocks whose activations wait for the backward in host memory; results are "
                     "bitwise the same, except with fusion=fast"),
      llvm::cl::values(
          clEnumValN(OffloadPolicy::None, "none", "only those for which the YAML file asks"),
          clEnumValN(OffloadPolicy::Auto, "auto", "as many as a search under a memory cap decides"),
          clEnumValN(OffloadPolicy::All, "all", "all but those that the YAML file excludes"))};
  Option<OffloadPolicy> offloadChunks{
      *this, "offload-chunks", llvm::cl::init(OffloadPolicy::None),
      llvm::cl::desc("Chunks, which the ranks of a host keep of a group between forward and "
                     "backward, in host memory; results are bitwise the same"),
      llvm::cl::values(
          clEnumValN(OffloadPolicy::None, "none", "none"),
          clEnumValN(OffloadPolicy::Auto, "auto", "those for which a search decides this"))};
  Option<FusionChoice> fusion{
      *this, "fusion", llvm::cl::init(FusionChoice::Auto),
      llvm::cl::desc("Operators that become generated kernels"),
      llvm::cl::values(
          clEnumValN(FusionChoice::Auto, "auto", "fast for steps captured for CUDA, else exact"),
          clEnumValN(FusionChoice::Off, "off", "none"),
          clEnumValN(FusionChoice::Exact, "exact", "those whose kernels give torch's bits"),
          clEnumValN(FusionChoice::Fast, "fast",
                     "more operators, computed in fp32 and rounded once"))};
  Option<std::string> report{*this, "report",
                             llvm::cl::desc("Write events and collectives to this JSON file")};
  Option<ScheduleChoice> schedule{
      *this, "schedule", llvm::cl::init(ScheduleChoice::Fsdp2),
      llvm::cl::desc("How the order of issue is decided"),
      llvm::cl::values(
          clEnumValN(ScheduleChoice::Fsdp2, "fsdp2",
                     "eager FSDP2's order, or that of prefetch=none"),
          clEnumValN(ScheduleChoice::Asap, "asap", "collectives start as soon as memory allows"),
          clEnumValN(ScheduleChoice::Auto, "auto", "a search for the least step time"))};
  Option<std::string> memoryCap{
      *this, "memory-cap", llvm::cl::init("0"),
      llvm::cl::desc("Bytes that the arena may have: 80000000, 70GiB; 0: no cap")};
  Option<bool> buckets{*this, "buckets", llvm::cl::init(true),
                       llvm::cl::desc("Let a search issue several collectives in one launch")};
  Option<std::string> maxBucketSize{
      *this, "max-bucket-size", llvm::cl::init("0"),
      llvm::cl::desc(
          "Upper limit on the bytes of one launch of several collectives, as 1GiB; 0: no limit")};
  Option<uint64_t> seed{*this, "seed", llvm::cl::init(0), llvm::cl::desc("Of the search")};
  Option<int64_t> budget{
      *this, "budget", llvm::cl::init(3000),
      llvm::cl::desc(
          "Number of simulations of a search; if its plan takes over 1 % longer than the "
          "bound, a second search of three times as many follows")};
  Option<std::string> device{
      *this, "device",
      llvm::cl::desc("Device that predicts durations: h100, h200, b200, a100, cpu")};
  Option<std::string> profile{*this, "profile",
                              llvm::cl::desc("Durations measured by fsdp-profile (JSON)")};
  Option<std::string> network{
      *this, "network",
      llvm::cl::desc("Network that predicts collectives: a preset or a JSON file")};
  Option<std::string> computeJitter{
      *this, "compute-jitter",
      llvm::cl::desc(
          "Relative standard deviation of operations' durations, percent (the profile's)")};
  Option<std::string> networkJitter{
      *this, "network-jitter",
      llvm::cl::desc(
          "Relative standard deviation of collectives' durations, percent (the network's)")};
  Option<ModulePhase> upTo{*this, "up-to", llvm::cl::init(ModulePhase::Planned),
                           llvm::cl::desc("Last phase"),
                           llvm::cl::values(clEnumValN(ModulePhase::Sharded, "sharded", ""),
                                            clEnumValN(ModulePhase::Scheduled, "scheduled", ""),
                                            clEnumValN(ModulePhase::Planned, "planned", ""))};
  Option<bool> verify{*this, "verify", llvm::cl::init(true),
                      llvm::cl::desc("Check the module after every phase")};
};

/// Flags that only a search reads, or only a search and a report.
inline constexpr llvm::StringLiteral kSearchFlags[] = {
    "buckets", "max-bucket-size", "seed",           "budget",        "device",
    "profile", "network",         "compute-jitter", "network-jitter"};

/// Choices that decide whether a flag has an effect.
struct FlagUses {
  ScheduleChoice schedule = ScheduleChoice::Fsdp2;
  bool hasReport = false, hasCap = false, hasBuckets = true;
};
/// The reason why a flag of kSearchFlags has no effect; none if it has one.
std::optional<std::string> explainUnused(llvm::StringRef flag, const FlagUses &uses);

/// The reason why this `--transport` has no effect; none if it has one.
std::optional<std::string> explainUnusedTransport(Transport transport, ScheduleChoice schedule);

/// The reason why the policy Auto of `--offload-optimizer` or `--offload-activations` has no
/// effect; none if it has one.
std::optional<std::string> explainUnusedOffload(OffloadPolicy policy, ScheduleChoice schedule,
                                                bool hasCap);

/// The reason why `--offload-chunks auto` has no effect; none if it has one.
std::optional<std::string> explainUnusedChunks(OffloadPolicy policy, ScheduleChoice schedule,
                                               bool hasCap);

/// Adds the passes from captured to `options.upTo`, with a phase verifier after each phase.
void buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Adds fsdp-recompute with these options and `cheap-first`: before whole blocks are recomputed,
/// cheap results get a copy of their own where the backward uses them, so that the live ranges of
/// the block's repeated results end early.
void addRecompute(mlir::OpPassManager &manager, RecomputeOptions options);

/// Adds fsdp-offload-optimizer and fsdp-offload-activations.
void addOffload(mlir::OpPassManager &manager, const OffloadChoices &offload);

/// Registers `--fsdp-pipeline`, which refuses options that would have no effect.
void registerFsdpPipelines();

} // namespace fsdp

#endif // FSDP_PASSES_PIPELINES_H
