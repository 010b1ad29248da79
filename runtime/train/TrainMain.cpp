//===- TrainMain.cpp - main of a training binary --------------------------===//

#include "comm/LauncherProcess.h"
#include "comm/Rendezvous.h"
#include "cpu/MathLibraries.h"
#include "executor/OperatorLibrary.h"
#include "fsdp/Plan/Meshes.h"
#include "plan/ValidateProgram.h"
#include "train/ChooseProgram.h"
#include "train/Launch.h"
#include "train/RankResources.h"
#include "train/StopSignals.h"
#include "train/TrainOptions.h"
#include "train/TrainRank.h"

#include <c10/util/Logging.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace fsdp::rt;

/// Prints the first line of the message as an error.
static int fail(const std::string &message) {
  std::string line = message.substr(0, message.find('\n'));
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", line.c_str());
  return 1;
}

/// Prints a rank's error, if this rank should. Errors that all ranks know, or that another rank has
/// passed on, are printed by rank 0 only. Errors that may have ended rank 0 are printed by every
/// rank.
static int report(unsigned rank, bool onlyProcess, const Outcome &outcome) {
  if (outcome.status.ok())
    return 0;
  const std::string &message = outcome.status.message(), said = outcome.status.said();
  if (rank == 0)
    return fail(said.empty() ? message : said);
  if (!outcome.known && said.empty())
    return fail(onlyProcess ? message : Status::saidBy(rank, outcome.status).message());
  return 1;
}

/// One rank, on the calling thread, from opening its device to the end of its run.
static Outcome runRank(const PlanView &plan, const TrainOptions &options, DeviceBackend *backend,
                       const Launch &launch, unsigned localRank,
                       std::unique_ptr<Communicator> control) {
  Result<RankResources> opened =
      openRank(plan, options, backend, localRank, launch.oneHost, std::move(control));
  if (!opened.ok())
    return {opened.status(), false};
  const char *name = backend && launch.backend != "fake" ? "nccl" : launch.backend.c_str();
  return trainRank(plan, options, name, *opened->device, *opened->communicator);
}

/// Runs all ranks as threads of this process, or the one rank of a fake run. Rank 0 prints for all.
static int runThreads(const PlanView &plan, const TrainOptions &options, DeviceBackend *backend,
                      const Launch &launch) {
  StopSignals signals;
  if (launch.backend == "fake")
    return report(0, true, runRank(plan, options, backend, launch, 0, nullptr));
  auto communicators =
      makeLocalCommunicators(plan.tables().world_size, communicatorOptions(options, plan));
  std::vector<Outcome> outcomes(communicators.size());
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < communicators.size(); ++rank)
    threads.emplace_back([&, rank] {
      outcomes[rank] =
          runRank(plan, options, backend, launch, rank, std::move(communicators[rank]));
    });
  for (std::thread &thread : threads)
    thread.join();
  return report(0, true, outcomes[0]);
}

/// Silences torch's log: when a peer dies, it would print stack traces around our one line, and its
/// errors are returned as a status anyway. TORCH_CPP_LOG_LEVEL turns it on again.
static void quietTorchLog() {
  constexpr int kFatal = 3;
  if (std::getenv("TORCH_CPP_LOG_LEVEL"))
    c10::initLogging();
  else
    FLAGS_caffe2_log_level = kFatal;
}

static int runProcess(const PlanView &plan, const TrainOptions &options, DeviceBackend *backend,
                      const Launch &launch) {
  quietTorchLog();
  unsigned rank = launch.environment.rank;
  auto communicator =
      connect(launch.backend, launch.environment, communicatorOptions(options, plan));
  if (!communicator.ok())
    return report(rank, false, {communicator.status(), false});
  StopSignals signals;
  return report(rank, false,
                runRank(plan, options, backend, launch, launch.environment.localRank,
                        std::move(*communicator)));
}

/// --describe, without other flags, for a binary with several programs.
static int describeAll(std::span<const fsdp_plan *const> programs) {
  for (const fsdp_plan *program : programs)
    std::printf("%s%s", program == programs.front() ? "" : "\n", describePlan(*program).c_str());
  return 0;
}

static int trainMain(int argc, char **argv, std::span<const fsdp_plan *const> programs) {
  auto get = [](const char *name) -> const char * { return std::getenv(name); };
  auto environment = readLaunchEnvironment(get);
  // Rank 0 prints errors that every rank finds by itself.
  bool silent = environment.ok() && *environment && (*environment)->rank != 0;
  auto refuse = [&](const Status &status) { return silent ? 1 : fail(status.message()); };

  for (const fsdp_plan *program : programs)
    if (Status status = validateProgram(*program); !status.ok())
      return refuse(status);
  if (programs.size() > 1 && argc == 2 && std::string_view(argv[1]) == "--describe")
    return silent ? 0 : describeAll(programs);
  Result<const fsdp_plan *> chosen = chooseProgram(
      programs, argc, argv, environment.ok() ? *environment : std::optional<LaunchEnvironment>());
  if (!chosen.ok())
    return refuse(chosen.status());
  PlanView plan(*chosen ? **chosen : *programs.front());
  Result<TrainCommand> command = parseTrainOptions(argc, argv, plan, get("OMP_NUM_THREADS"));
  if (!command.ok())
    return refuse(command.status());
  if (command->textToPrint) {
    if (!silent)
      std::fputs(command->textToPrint->c_str(), stdout);
    return 0;
  }
  if (!environment.ok())
    return refuse(environment.status());
  if (!*chosen)
    return refuse(startedAlone(programs));
  const TrainOptions &options = command->options;
  for (const std::string &path : options.libraries)
    if (Status status = loadOperatorLibrary(path); !status.ok())
      return fail(status.message());
  Result<Launch> launch = decideLaunch(options, *environment, get, plan);
  if (!launch.ok())
    return refuse(launch.status());

  if (*environment)
    if (Status status = followLauncher(**environment); !status.ok())
      return fail(status.message());

  // The library may be missing on one host only, so every rank prints this error.
  Result<DeviceBackend *> backend = loadDeviceBackend(options.device);
  if (!backend.ok())
    return *environment && (*environment)->localRank != 0 ? 1 : fail(backend.status().message());
  startMathLibraries(); // before ranks that are threads, and before threads of an operator
  if (launch->backend == "local" || launch->backend == "fake")
    return runThreads(plan, options, *backend, *launch);
  return runProcess(plan, options, *backend, *launch);
}

extern "C" int fsdp_train_main(int argc, char **argv, const fsdp_plan *plan) {
  return fsdp_train_meshes_main(argc, argv, &plan, 1);
}

extern "C" int fsdp_train_meshes_main(int argc, char **argv, const fsdp_plan *const *programs,
                                      uint32_t count) {
  // A peer that dies closes its sockets. Writing to one is then an error to report, not a signal
  // that ends this process.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return trainMain(argc, argv, {programs, count});
  } catch (const std::exception &error) {
    return fail(error.what());
  }
}
