//===- TrainMain.cpp - main of a training binary --------------------------===//

#include "comm/Rendezvous.h"
#include "plan/PlanView.h"
#include "train/Launch.h"
#include "train/StopSignals.h"
#include "train/TrainOptions.h"
#include "train/TrainRank.h"

#include <c10/util/Logging.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace fsdp::rt;

/// One line, whatever the message holds.
static int fail(const std::string &message) {
  std::string line = message.substr(0, message.find('\n'));
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", line.c_str());
  return 1;
}

/// Prints what a rank should tell. What all ranks know is rank 0's to say, as is what another rank
/// passed on through it; what may have cost rank 0 its life, every rank says.
static int report(unsigned rank, bool onlyProcess, const Outcome &outcome) {
  if (outcome.status.ok())
    return 0;
  std::string message = outcome.status.message(), relayed = relayedReason(message);
  if (!relayed.empty())
    message = relayed;
  if (rank == 0)
    return fail(message);
  if (!outcome.known && relayed.empty())
    return fail(onlyProcess ? message : abortReason(rank, message));
  return 1;
}

/// All ranks as threads of this process; rank 0 speaks for all.
static int runThreads(const PlanView &plan, const TrainOptions &options,
                      const CommunicatorOptions &communication) {
  auto communicators = makeLocalCommunicators(plan.tables().world_size, communication);
  std::vector<Outcome> outcomes(communicators.size());
  StopSignals signals;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < communicators.size(); ++rank)
    threads.emplace_back(
        [&, rank] { outcomes[rank] = trainRank(plan, options, "local", *communicators[rank]); });
  for (std::thread &thread : threads)
    thread.join();
  return report(0, true, outcomes[0]);
}

/// When a peer dies, torch's own log prints stack traces around our one line; what matters in it
/// comes back as a status. TORCH_CPP_LOG_LEVEL brings it back.
static void quietTorchLog() {
  constexpr int kFatal = 3;
  if (std::getenv("TORCH_CPP_LOG_LEVEL"))
    c10::initLogging();
  else
    FLAGS_caffe2_log_level = kFatal;
}

static int runProcess(const PlanView &plan, const TrainOptions &options, const Launch &launch,
                      const CommunicatorOptions &communication) {
  quietTorchLog();
  unsigned rank = launch.environment.rank;
  auto communicator = connect(launch.backend, launch.environment, communication);
  if (!communicator.ok())
    return report(rank, false, {communicator.status(), false});
  StopSignals signals;
  Outcome outcome = trainRank(plan, options, launch.backend.c_str(), **communicator);
  return report(rank, false, outcome);
}

static std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000)));
}

static int trainMain(int argc, char **argv, const fsdp_plan &tables) {
  auto get = [](const char *name) -> const char * { return std::getenv(name); };
  auto environment = readLaunchEnvironment(get);
  // Errors that every rank finds by itself are rank 0's to say.
  bool silent = environment.ok() && *environment && (*environment)->rank != 0;
  auto refuse = [&](const Status &status) { return silent ? 1 : fail(status.message()); };

  if (Status status = validatePlan(tables); !status.ok())
    return refuse(status);
  PlanView plan(tables);
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
  const TrainOptions &options = command->options;
  Result<Launch> launch = decideLaunch(options, *environment, get, plan);
  if (!launch.ok())
    return refuse(launch.status());

  CommunicatorOptions communication;
  communication.deadline = milliseconds(options.timeoutSeconds);
  communication.connectTimeout = milliseconds(options.connectTimeoutSeconds);
  if (launch->backend == "local")
    return runThreads(plan, options, communication);
  return runProcess(plan, options, *launch, communication);
}

extern "C" int fsdp_train_main(int argc, char **argv, const fsdp_plan *plan) {
  // A peer that dies closes its sockets: writing to one is an error to report, not a reason to die.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return trainMain(argc, argv, *plan);
  } catch (const std::exception &error) {
    return fail(error.what());
  }
}
