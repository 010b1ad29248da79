//===- CollectiveProfiler.cpp - The network between ranks -------------------===//

#include "CollectiveProfiler.h"

#include "HostDescription.h"
#include "NetworkProfiler.h"
#include "RankProcesses.h"
#include "backend/Backend.h"
#include "device/CpuDevice.h"
#include "llvm/Support/Format.h"

#include <ATen/Parallel.h>

using namespace fsdp;
using namespace fsdp::profile;

namespace {
/// Device and communicator of a rank.
struct RankResources {
  std::string description; // of the hardware
  std::unique_ptr<rt::Device> device;
  std::unique_ptr<rt::Communicator> communicator; // over `device`, which outlives it
};
} // namespace

/// Calls `body`, and turns exceptions into errors.
template <typename Body> static auto caught(Body &&body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception &exception) {
    return rt::Status::error(exception.what());
  }
}

/// Opens the rank's device and the communicator over it. On a CPU that is `control` itself; on a
/// GPU `control` is consumed only when nothing but the connection can fail any more.
static rt::Status open(const CollectiveOptions &options, std::unique_ptr<rt::Communicator> &control,
                       RankResources &rank) {
  rt::Result<rt::DeviceBackend *> backend = rt::loadDeviceBackend(options.device);
  if (!backend.ok())
    return backend.status();
  if (!*backend) {
    rank.description = describeHost();
    rank.device = std::make_unique<rt::CpuDevice>();
    rank.communicator = std::move(control);
    return {};
  }
  unsigned ordinal = options.launch ? options.launch->localRank : control->rank();
  auto device = (*backend)->openDevice({.ordinal = ordinal, .timedEvents = true});
  if (!device.ok())
    return device.status();
  rank.device = std::move(*device);
  rt::Result<std::string> name = (*backend)->nameDevice(ordinal);
  if (!name.ok())
    return name.status();
  rank.description = *name;
  auto connected =
      (*backend)->connectDevices(*rank.device, std::move(control), {.oneHost = options.oneHost});
  if (!connected.ok())
    return connected.status();
  rank.communicator = std::move(*connected);
  return {};
}

static void printFits(const cost::Network &network) {
  for (const cost::MeasuredCollective &collective : network.measured)
    llvm::errs() << llvm::format("fsdp-profile: %-14s %6.1f us + %.4f ns per byte\n",
                                 cost::getName(collective.kind).data(), collective.latencyNs / 1e3,
                                 collective.nsPerByte);
  const schedule::Contention &contention = network.contention;
  llvm::errs() << llvm::format("fsdp-profile: contention of lanes %.2f, of collectives with "
                               "computation %.2f\n",
                               contention.lanes, contention.computation);
  llvm::errs() << llvm::format("fsdp-profile: contention of computation with gathers %.2f, "
                               "reductions %.2f, both %.2f\n",
                               contention.gathers, contention.reductions, contention.several);
}

static rt::Result<std::string> profileRank(const CollectiveOptions &options,
                                           std::unique_ptr<rt::Communicator> control) {
  at::set_num_threads(1);
  RankResources rank;
  rt::Status opened = caught([&] { return open(options, control, rank); });
  if (!opened.ok()) {
    // Peers learn of the failure before their deadline.
    if (control)
      control->abort(opened);
    return opened;
  }
  bool isGpu = options.device != "cpu";
  rt::Result<cost::Network> network = caught([&] {
    return measureNetwork(*rank.device, *rank.communicator,
                          isGpu ? NetworkOptions::ofGpus(options.samples)
                                : NetworkOptions::ofCpus(options.samples));
  });
  if (!network.ok()) {
    rank.communicator->abort(network.status());
    return network.status();
  }
  network->name = (isGpu ? "nccl" : options.communicator) + ", " + std::to_string(options.ranks) +
                  " ranks" + (options.oneHost ? "" : " on several hosts");
  network->source = describeVersions() + ", " + rank.description;
  std::string text;
  llvm::raw_string_ostream os(text);
  cost::writeNetwork(*network, os);
  if (rank.communicator->rank() == 0)
    printFits(*network);
  return text;
}

llvm::Expected<std::string> fsdp::profile::profileCollectives(const CollectiveOptions &options) {
  RankBody body = [&](std::unique_ptr<rt::Communicator> control) {
    return profileRank(options, std::move(control));
  };
  if (options.launch)
    return runAsRank(options.communicator, *options.launch, body);
  return runOnRanks(options.communicator, options.ranks, body);
}
