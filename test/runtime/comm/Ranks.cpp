//===- Ranks.cpp - Runs a function on every rank of a communicator --------===//

#include "Ranks.h"
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

c10::intrusive_ptr<c10d::TCPStore> fsdp::rt::serveStore(uint16_t &port) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  port = store->getPort();
  return store;
}

RankProcesses::RankProcesses(const Ranks &ranks, const RankBody &body,
                             CommunicatorOptions options) {
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
      close(portPipe[1]);
      LaunchEnvironment environment;
      if (read(portPipe[0], &environment.masterPort, sizeof(uint16_t)) != sizeof(uint16_t))
        _exit(kNoStore);
      close(portPipe[0]);
      environment.rank = rank;
      environment.worldSize = ranks.size;
      environment.masterAddress = "127.0.0.1";
      environment.agentStore = true;
      environment.launcher = "test";
      auto communicator = connect(ranks.backend, environment, options);
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
    onThreads(ranks.size, body, options);
  else
    RankProcesses(ranks, body, options);
}
