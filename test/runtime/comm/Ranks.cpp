//===- Ranks.cpp - Runs a function on every rank of a communicator --------===//

#include "Ranks.h"
#include "StagedCommunicator.h"
#include "backend/Backend.h"
#include "comm/Rendezvous.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace fsdp::rt;

/// Ranks share the cores already: OpenMP's threads would only wait for each other.
static void runBody(const RankBody &body, Communicator &communicator) {
  at::set_num_threads(1);
  body(communicator);
}

static void onThreads(unsigned size, const RankBody &body, CommunicatorOptions options) {
  auto communicators = makeLocalCommunicators(size, options);
  ASSERT_EQ(communicators.size(), size);
  std::vector<std::thread> threads;
  for (auto &communicator : communicators)
    threads.emplace_back([&body, own = std::move(communicator)] { runBody(body, *own); });
  for (std::thread &thread : threads)
    thread.join();
}

/// What the CUDA library says of this machine, in a process of its own: once CUDA is in use a
/// process must not fork. "ok N": N devices.
static std::string askForDevices() {
  int answer[2];
  if (pipe(answer) != 0)
    return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    std::string text;
    if (auto backend = loadDeviceBackend("cuda"); !backend.ok())
      text = backend.status().message();
    else if (auto devices = (*backend)->countDevices(); !devices.ok())
      text = devices.status().message();
    else
      text = "ok " + std::to_string(*devices);
    _exit(write(answer[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  close(answer[1]);
  std::string text;
  char piece[256];
  for (ssize_t length; (length = read(answer[0], piece, sizeof(piece))) > 0;)
    text.append(piece, static_cast<size_t>(length));
  close(answer[0]);
  waitpid(child, nullptr, 0);
  return text;
}

std::string fsdp::rt::whyNot(const Ranks &ranks) {
  if (ranks.backend != "nccl")
    return "";
  static const std::string answer = askForDevices();
  if (!answer.starts_with("ok "))
    return answer;
  unsigned long devices = std::stoul(answer.substr(3));
  return devices >= ranks.size ? ""
                               : std::to_string(ranks.size) + " ranks need as many devices, but " +
                                     "there are " + std::to_string(devices);
}

/// A communicator between processes; for devices, one that takes memory of the host.
static Result<std::unique_ptr<Communicator>> connectRank(const std::string &backend,
                                                         const LaunchEnvironment &environment,
                                                         CommunicatorOptions options) {
  if (backend != "nccl")
    return connect(backend, environment, options);
  // Every thread of the process sees the rank's device alone.
  setenv("CUDA_VISIBLE_DEVICES", std::to_string(environment.rank).c_str(), 1);
  auto cuda = loadDeviceBackend("cuda");
  if (!cuda.ok())
    return cuda.status();
  auto device = (*cuda)->openDevice({});
  if (!device.ok())
    return device.status();
  auto control = connect("shm", environment, options);
  if (!control.ok())
    return control.status();
  auto devices = (*cuda)->connectDevices(**device, std::move(*control),
                                         {.communication = options, .oneHost = true});
  if (!devices.ok())
    return devices.status();
  return std::unique_ptr<Communicator>(
      std::make_unique<StagedCommunicator>(std::move(*device), std::move(*devices)));
}

c10::intrusive_ptr<c10d::TCPStore> fsdp::rt::serveStore(uint16_t &port) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  port = store->getPort();
  return store;
}

LaunchEnvironment fsdp::rt::environmentAt(uint16_t port, unsigned rank, unsigned size) {
  LaunchEnvironment environment;
  environment.rank = rank;
  environment.worldSize = size;
  environment.masterAddress = "127.0.0.1";
  environment.masterPort = port;
  environment.agentStore = true;
  environment.launcher = "test";
  return environment;
}

/// Lanes as those of a step, unless the test asks for others.
static CommunicatorOptions withLanes(CommunicatorOptions options, unsigned size) {
  if (options.lanes.empty())
    options.lanes = standardLanes(size);
  return options;
}

RankProcesses::RankProcesses(const Ranks &ranks, const RankBody &body, CommunicatorOptions asked) {
  const CommunicatorOptions options = withLanes(std::move(asked), ranks.size);
  // Ranks start before this process serves the store on a port of the system's choice: a process
  // with threads must not fork.
  std::vector<int> portPipes;
  for (unsigned rank = 0; rank < ranks.size; ++rank) {
    int portPipe[2];
    if (pipe(portPipe) != 0) {
      ADD_FAILURE() << "no pipe";
      return;
    }
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // As a training binary does: gloo may write to a peer that has closed its socket.
      std::signal(SIGPIPE, SIG_IGN);
      close(portPipe[1]);
      uint16_t port = 0;
      if (read(portPipe[0], &port, sizeof(port)) != sizeof(port))
        _exit(kNoStore);
      close(portPipe[0]);
      auto communicator =
          connectRank(ranks.backend, environmentAt(port, rank, ranks.size), options);
      EXPECT_TRUE(communicator.ok()) << communicator.status().message();
      if (communicator.ok()) {
        runBody(body, **communicator);
        *communicator = nullptr;
      }
      std::fflush(nullptr);
      _exit(testing::Test::HasFailure() ? kFailed : 0);
    }
    close(portPipe[0]);
    portPipes.push_back(portPipe[1]);
    processes.push_back(child);
  }
  uint16_t port = 0;
  store = serveStore(port);
  for (int portPipe : portPipes) {
    EXPECT_EQ(write(portPipe, &port, sizeof(port)), ssize_t(sizeof(port)));
    close(portPipe);
  }
}

int RankProcesses::wait(unsigned rank) {
  int status = 0;
  if (waitpid(processes[rank], &status, 0) != processes[rank])
    return -1;
  processes[rank] = -1;
  return status;
}

RankProcesses::~RankProcesses() {
  for (unsigned rank = 0; rank < processes.size(); ++rank)
    if (processes[rank] != -1) {
      int status = wait(rank);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << " ended with status " << status;
    }
}

void fsdp::rt::onRanks(const Ranks &ranks, const RankBody &body, CommunicatorOptions options) {
  if (ranks.backend == "local")
    onThreads(ranks.size, body, withLanes(options, ranks.size));
  else
    RankProcesses(ranks, body, options);
}
