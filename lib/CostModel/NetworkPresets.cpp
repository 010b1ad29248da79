//===- NetworkPresets.cpp - Networks that come with the compiler -----------===//
//
// Sources
//
//   latencies   NCCL 2.28, src/graph/tuning.cc, protocol LL128 (microseconds): 14.0 per collective;
//               ring 1.9 per NVLink hop, 4.0 per hop over the network; tree, and a ring of one GPU
//               per node, 1.25 and 8.5. PAT, which has the protocol Simple: 8.0 per collective, a
//               tree's 14 / 3.5 per doubling, 2.8 per rank; 0.75 of a ring's rate. What is left
//               out: docs/costs.md.
//   NVLink      H100, 8 GPUs: 360 GB/s bus bandwidth of all-gather, "exactly what we'd expect"
//               (github.com/NVIDIA/nccl-tests/issues/326), 0.8 of 450 GB/s per direction. B200: 0.8
//               of 900 GB/s, no measurement found. A100: 0.77 of 300 GB/s, likewise.
//   InfiniBand  NDR, 400 Gbit/s: 46 to 48 GB/s per adapter
//   (github.com/NVIDIA/nccl-tests/issues/290).
//               HDR, 200 Gbit/s: the same share. One adapter per GPU, as in DGX and HGX systems.
//   contention  two bandwidth-bound lanes share their links: 2. Computation gives up the SMs that
//               NCCL's kernels occupy: 16 channels of 132 SMs, 132 / 116, and twice as many where
//               two run at once; 108 SMs on A100, 148 on B200. How much computation slows down
//               collectives is not known: 1.
//   copy engines   assumed, without measurements of our own: the rate of NVLink that all-gathers by
//               kernels reach; twice the latency per collective, since NCCL copies between two
//               synchronizations of all ranks, and says that the zero-CTA policy "may sacrifice
//               some performance" (its user guide, communicator CTA policy flags); no SM, so that
//               computation does not slow down. Reports say that overlapped products gain
//               (pytorch/pytorch pull 176613: 15 % of a microbenchmark), and that some steps become
//               slower (NVIDIA/Megatron-LM pull 5657).
//   shared-memory   fsdp-profile --collectives --ranks 2 (shm) on two cores of a cloud machine's
//               AMD EPYC, where a collective beside computation is delayed by its own duration.
//
//===----------------------------------------------------------------------===//

#include "NetworkPresets.h"

using namespace fsdp::cost;

static constexpr double kNvlinkHopNs = 1900, kNvlinkTreeHopNs = 1250, kNetworkHopNs = 4000,
                        kNetworkTreeHopNs = 8500, kBaseNs = 14000;
static constexpr int64_t kGpusPerNode = 8;
static constexpr double kChannels = 16;

static Network makeDgx(const char *name, double nvlinkBytesPerSec, const char *adapter,
                       double adapterBytesPerSec, double numSms) {
  Network network;
  network.name = name;
  network.source = "NVIDIA data sheets, NCCL's tuning model; not measured";
  network.baseNs = kBaseNs;
  network.levels = {
      {"NVLink", kGpusPerNode, kNvlinkHopNs, kNvlinkTreeHopNs, nvlinkBytesPerSec,
       "nccl-tests issue 326"},
      {adapter, 0, kNetworkHopNs, kNetworkTreeHopNs, adapterBytesPerSec, "nccl-tests issue 290"}};
  network.contention = {.lanes = 2,
                        .gathers = numSms / (numSms - kChannels),
                        .reductions = numSms / (numSms - kChannels),
                        .several = numSms / (numSms - 2 * kChannels)};
  network.copyEngines = CopyEngines{.baseNs = 2 * kBaseNs,
                                    .hopNs = kNvlinkHopNs,
                                    .bytesPerSec = nvlinkBytesPerSec,
                                    .computeContention = 1,
                                    .source = "assumed, not measured"};
  network.pat = Pat{.baseNs = 8000,
                    .hopNs = 4000,
                    .perRankNs = 2800,
                    .rateShare = 0.75,
                    .source = "NCCL's tuning model"};
  return network;
}

static Network makeSharedMemory() {
  Network network;
  network.name = "shared-memory";
  network.source = "shm communicator, 2 ranks, 2 cores";
  network.measured = {{CollectiveKind::AllGather, 2, 13e3, 0.125, 0.1, {}},
                      {CollectiveKind::ReduceScatter, 2, 14e3, 0.095, 0.1, {}}};
  network.coalesces = false;
  network.contention = {.lanes = 2, .gathers = 100, .reductions = 100, .several = 100};
  return network;
}

const std::vector<Network> &fsdp::cost::getNetworkPresets() {
  static const std::vector<Network> presets = {
      makeDgx("dgx-a100", 230e9, "InfiniBand HDR", 23.5e9, 108),
      makeDgx("dgx-h100", 360e9, "InfiniBand NDR", 47e9, 132),
      makeDgx("dgx-h200", 360e9, "InfiniBand NDR", 47e9, 132),
      makeDgx("dgx-b200", 720e9, "InfiniBand NDR", 47e9, 148),
      makeSharedMemory(),
  };
  return presets;
}
