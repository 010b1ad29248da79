//===- Passes.td - Passes over captured training steps -----*- tablegen -*-===//

#ifndef FSDP_PASSES
#define FSDP_PASSES

include "mlir/Pass/PassBase.td"

class Fsdp_Pass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::fsdp::FsdpDialect"];
}

/// Options of passes that use a cost model.
defvar costOptions = [
  Option<"device", "device", "std::string", "\"\"",
         "Device that predicts durations: h100, h200, b200, a100, cpu; default the profile's, "
         "else cpu">,
  Option<"profile", "profile", "std::string", "\"\"", "Durations measured by fsdp-profile (JSON)">,
  Option<"network", "network", "std::string", "\"\"",
         "Network that predicts collectives: a preset or a JSON file; default the device's">,
  Option<"computeJitter", "compute-jitter", "std::string", "\"\"",
         "Relative standard deviation of operations' durations, percent; default the profile's">,
  Option<"networkJitter", "network-jitter", "std::string", "\"\"",
         "Relative standard deviation of collectives' durations, percent; default the network's">
];

defvar offloadOptions = [
  Option<"offload", "offload", "::fsdp::OffloadPolicy", "::fsdp::OffloadPolicy::None",
         "Groups whose optimizer state is on the host",
         [{::llvm::cl::values(
           clEnumValN(::fsdp::OffloadPolicy::None, "none", "only those that ask for it"),
           clEnumValN(::fsdp::OffloadPolicy::Auto, "auto",
                      "as all, if a search finds nothing that fits otherwise"),
           clEnumValN(::fsdp::OffloadPolicy::All, "all", "all but those that ask not to be"))}]>
];

defvar offloadActivationsOption =
  Option<"activations", "activations", "::fsdp::OffloadPolicy", "::fsdp::OffloadPolicy::None",
         "Blocks whose activations are on the host",
         [{::llvm::cl::values(
           clEnumValN(::fsdp::OffloadPolicy::None, "none", "only those that ask for it"),
           clEnumValN(::fsdp::OffloadPolicy::Auto, "auto", "as many as a search decides"),
           clEnumValN(::fsdp::OffloadPolicy::All, "all", "all but those that ask not to be"))}]>;

/// Options of passes that search for a schedule (ScheduleSearch.h).
defvar searchOptions = [
  Option<"choice", "schedule", "::fsdp::ScheduleChoice", "::fsdp::ScheduleChoice::Auto",
         "How the schedule is decided: auto, asap or fsdp2",
         [{::llvm::cl::values(
           clEnumValN(::fsdp::ScheduleChoice::Auto, "auto", "a search"),
           clEnumValN(::fsdp::ScheduleChoice::Asap, "asap",
                      "collectives start as soon as memory allows, no group stays gathered"),
           clEnumValN(::fsdp::ScheduleChoice::Fsdp2, "fsdp2",
                      "FSDP2's decisions, checked against the cap"))}]>,
  Option<"memoryCap", "memory-cap", "std::string", "\"0\"",
         "Bytes that the arena may have: 80000000, 70GiB; 0: no cap">,
  Option<"buckets", "buckets", "bool", "true", "Issue several collectives in one launch">,
  Option<"maxBucketSize", "max-bucket-size", "std::string", "\"0\"",
         "Upper limit on the bytes of one launch of several collectives, as 1GiB; 0: no limit">,
  Option<"offloadChunks", "offload-chunks", "bool", "false",
         "Chunks that neighbours keep may wait on the host">,
  Option<"seed", "seed", "uint64_t", "0", "Seed of the search">,
  Option<"budget", "budget", "int64_t", "3000",
         "Number of simulations of a search; if its plan takes over 1 % longer than the bound, a second "
         "search of three times as many follows">
] # costOptions;

defvar fusionValues = [{::llvm::cl::values(
  clEnumValN(::fsdp::FusionChoice::Auto, "auto", "fast for CUDA, exact for CPUs"),
  clEnumValN(::fsdp::FusionChoice::Off, "off", "none"),
  clEnumValN(::fsdp::FusionChoice::Exact, "exact", "those with torch's bits"),
  clEnumValN(::fsdp::FusionChoice::Fast, "fast",
             "more operators, computed in fp32 and rounded once"))}];

/// Options of passes that fuse a step and then search for its schedule.
defvar fusionOptions = [
  Option<"fusion", "fusion", "::fsdp::FusionChoice", "::fsdp::FusionChoice::Off",
         "Operators that become kernels before the search", fusionValues>
];

include "ShardingPasses.td"
include "SchedulingPasses.td"
include "VerifierPasses.td"

#endif // FSDP_PASSES
