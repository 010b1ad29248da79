//===- RankProcesses.cpp - Runs a function on every rank --------------------===//

#include "RankProcesses.h"

#include "comm/Rendezvous.h"
#include "comm/StandardLanes.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::profile;

/// Runs the body, and turns exceptions into errors.
static rt::Result<std::string> runBody(const RankBody &body,
                                       std::unique_ptr<rt::Communicator> communicator) {
  try {
    return body(std::move(communicator));
  } catch (const std::exception &exception) {
    return rt::Status::error(exception.what());
  }
}

static llvm::Error failureOf(unsigned rank, const rt::Status &status) {
  const std::string &message = status.message();
  return llvm::createStringError("rank " + std::to_string(rank) + ": " +
                                 message.substr(0, message.find('\n')));
}

/// Rank 0's text, or the first error. `outcomes` are in the order of ranks.
static llvm::Expected<std::string>
chooseOutcome(const std::vector<rt::Result<std::string>> &outcomes) {
  for (unsigned rank = 0; rank < outcomes.size(); ++rank)
    if (!outcomes[rank].ok())
      return failureOf(rank, outcomes[rank].status());
  return *outcomes[0];
}

static llvm::Expected<std::string> runOnThreads(unsigned ranks, const RankBody &body) {
  auto communicators = rt::makeLocalCommunicators(ranks, {.lanes = rt::standardLanes(ranks)});
  if (communicators.empty())
    return llvm::createStringError("no memory for " + std::to_string(ranks) + " communicators");
  std::vector<rt::Result<std::string>> outcomes(ranks, std::string());
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank)
    threads.emplace_back(
        [&, rank] { outcomes[rank] = runBody(body, std::move(communicators[rank])); });
  for (std::thread &thread : threads)
    thread.join();
  return chooseOutcome(outcomes);
}

namespace {
/// A forked rank: it reads the port of the store from one pipe and writes its outcome to another,
/// after `kSuccess` or `kFailure`.
struct RankProcess {
  pid_t process = -1;
  int port = -1, outcome = -1;
};
constexpr char kSuccess = '+', kFailure = '-';
} // namespace

[[noreturn]] static void runChild(unsigned rank, unsigned ranks, int portPipe, int outcomePipe,
                                  const RankBody &body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  rt::LaunchEnvironment environment;
  std::string text = kFailure + std::string("the parent process is gone");
  if (read(portPipe, &environment.masterPort, sizeof(uint16_t)) == sizeof(uint16_t)) {
    environment.rank = rank;
    environment.worldSize = ranks;
    environment.masterAddress = "127.0.0.1";
    environment.agentStore = true;
    environment.launcher = "fsdp-profile";
    auto communicator =
        rt::connect("shm", environment, {.lanes = rt::standardLanes(environment.worldSize)});
    rt::Result<std::string> outcome =
        communicator.ok() ? runBody(body, std::move(*communicator)) : communicator.status();
    text = outcome.ok() ? kSuccess + *outcome : kFailure + outcome.status().message();
  }
  for (size_t written = 0; written < text.size();) {
    ssize_t count = write(outcomePipe, text.data() + written, text.size() - written);
    if (count <= 0)
      break;
    written += static_cast<size_t>(count);
  }
  _exit(0);
}

static rt::Result<std::string> readOutcome(const RankProcess &rank) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(rank.outcome, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  close(rank.outcome);
  int status = 0;
  waitpid(rank.process, &status, 0);
  if (!text.empty() && text[0] == kSuccess)
    return text.substr(1);
  return rt::Status::error(text.empty() ? "ended with status " + std::to_string(status)
                                        : text.substr(1));
}

static llvm::Expected<std::string> runOnProcesses(unsigned ranks, const RankBody &body) {
  std::vector<RankProcess> processes;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    int port[2], outcome[2];
    if (pipe2(port, O_CLOEXEC) != 0 || pipe2(outcome, O_CLOEXEC) != 0)
      return llvm::createStringError(std::string("no pipe: ") + std::strerror(errno));
    pid_t process = fork();
    if (process == 0) {
      close(port[1]);
      close(outcome[0]);
      runChild(rank, ranks, port[0], outcome[1], body);
    }
    close(port[0]);
    close(outcome[1]);
    processes.push_back({process, port[1], outcome[0]});
    if (process < 0)
      return llvm::createStringError(std::string("cannot fork: ") + std::strerror(errno));
  }
  // The store is created after the forks, since a process with threads must not fork. The system
  // chooses the port.
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  uint16_t number = store->getPort();
  std::vector<rt::Result<std::string>> outcomes;
  for (const RankProcess &process : processes) {
    // The outcome shows whether the rank is gone already.
    (void)!write(process.port, &number, sizeof(number));
    close(process.port);
  }
  for (const RankProcess &process : processes)
    outcomes.push_back(readOutcome(process));
  return chooseOutcome(outcomes);
}

llvm::Expected<std::string> fsdp::profile::runOnRanks(const std::string &communicator,
                                                      unsigned ranks, const RankBody &body) {
  return communicator == "local" ? runOnThreads(ranks, body) : runOnProcesses(ranks, body);
}

llvm::Expected<std::string> fsdp::profile::runAsRank(const std::string &communicator,
                                                     const rt::LaunchEnvironment &environment,
                                                     const RankBody &body) {
  auto connected =
      rt::connect(communicator, environment, {.lanes = rt::standardLanes(environment.worldSize)});
  if (!connected.ok())
    return failureOf(environment.rank, connected.status());
  rt::Result<std::string> outcome = runBody(body, std::move(*connected));
  if (!outcome.ok())
    return failureOf(environment.rank, outcome.status());
  return *outcome;
}
