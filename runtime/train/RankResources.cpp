//===- RankResources.cpp - A rank's device and communicator ---------------===//

#include "train/RankResources.h"
#include "comm/Agreement.h"
#include "comm/LibraryCollectives.h"
#include "device/CpuDevice.h"
#include "executor/FakeRun.h"

using namespace fsdp::rt;

static Result<std::unique_ptr<Communicator>>
makeCommunicator(const PlanView &plan, const TrainOptions &options, DeviceBackend *backend,
                 Device &device, bool oneHost, std::unique_ptr<Communicator> control) {
  if (options.communicator == "fake") {
    FakeOptions fake = fakeOptionsOf(plan);
    fake.latencyNs = options.fakeLatencyUs * 1e3;
    fake.bandwidthBytesPerSec = options.fakeGbPerSec * 1e9;
    return backend ? backend->makeFakeCommunicator(device, fake)
                   : FakeCommunicator::create(fake, makeCpuFakeTransport());
  }
  if (!backend)
    return control;
  NcclOptions nccl;
  nccl.communication = communicatorOptions(options, plan);
  nccl.oneHost = oneHost;
  return backend->connectDevices(device, std::move(control), nccl);
}

Result<RankResources> fsdp::rt::openRank(const PlanView &plan, const TrainOptions &options,
                                         DeviceBackend *backend, unsigned localRank, bool oneHost,
                                         std::unique_ptr<Communicator> control) {
  RankResources resources;
  if (!backend) {
    resources.device = std::make_unique<CpuDevice>();
  } else {
    Result<std::unique_ptr<Device>> device =
        backend->openDevice({.ordinal = localRank, .timedEvents = !options.trace.empty()});
    if (!device.ok()) {
      Status status =
          Status::error("--device " + options.device + ": " + device.status().message());
      if (control)
        control->abort(Status::saidBy(control->rank(), status));
      return status;
    }
    resources.device = std::move(*device);
  }
  auto communicator =
      makeCommunicator(plan, options, backend, *resources.device, oneHost, std::move(control));
  if (!communicator.ok())
    return communicator.status();
  resources.communicator = std::move(*communicator);
  if (!options.collectives.empty()) {
    Result<const fsdp_collectives *> library = loadCollectives(options.collectives);
    if (!library.ok()) {
      resources.communicator->abort(
          Status::saidBy(resources.communicator->rank(), library.status()));
      return library.status();
    }
    resources.communicator = makeLibraryCommunicator(std::move(resources.communicator), **library,
                                                     communicatorOptions(options, plan).deadline);
  }
  return resources;
}
