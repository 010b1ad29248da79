//===- FaultTest.cpp - Peers that die, stall, disagree or give up ---------===//

#include "Ranks.h"
#include "comm/Rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace fsdp::rt;
using std::chrono::milliseconds;
using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

namespace {

/// A pipe between processes: pass() waits until open() was called.
class Gate {
public:
  Gate() { EXPECT_EQ(pipe(ends), 0); }
  ~Gate() {
    close(ends[0]);
    close(ends[1]);
  }
  void open() const { EXPECT_EQ(write(ends[1], "", 1), 1); }
  void pass() const {
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
  }

private:
  int ends[2];
};

/// Gathers on `lane` until that fails; returns the message.
std::string gatherUntilError(Communicator &communicator, unsigned lane, size_t bytes) {
  std::vector<std::byte> input(bytes), output(bytes * communicator.size());
  for (;;) {
    Status status = communicator.allGather(lane, input.data(), output.data(), bytes);
    if (!status.ok())
      return status.message();
  }
}

bool wasKilled(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

class Processes : public testing::TestWithParam<Ranks> {};
class Everywhere : public testing::TestWithParam<Ranks> {};
class Memory : public testing::TestWithParam<Ranks> {};

std::string nameOf(const testing::TestParamInfo<Ranks> &info) {
  return info.param.backend + std::to_string(info.param.size);
}
INSTANTIATE_TEST_SUITE_P(Backends, Processes,
                         testing::Values(Ranks{"shm", 2}, Ranks{"shm", 3}, Ranks{"gloo", 2},
                                         Ranks{"gloo", 3}),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Backends, Everywhere,
                         testing::Values(Ranks{"local", 3}, Ranks{"shm", 3}, Ranks{"gloo", 3}),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Backends, Memory, testing::Values(Ranks{"local", 3}, Ranks{"shm", 3}),
                         nameOf);

// A rank that is killed between two collectives is noticed long before the deadline, by all ranks.
TEST_P(Processes, KilledPeer) {
  Ranks ranks = GetParam();
  RankProcesses processes(ranks, [&](Communicator &communicator) {
    std::vector<std::byte> input(1000), output(1000 * communicator.size());
    Status status;
    for (unsigned i = 0; status.ok(); ++i) {
      if (i == 20 && communicator.rank() == 1)
        raise(SIGKILL);
      status = communicator.allGather(kGatherLane, input.data(), output.data(), input.size());
    }
    EXPECT_THAT(status.message(),
                MatchesRegex("all_gather of 1000 bytes on the gather lane: rank 1 " +
                             std::string(ranks.backend == "shm" ? "\\(pid [0-9]+\\) died"
                                                                : "is lost: it does not answer")));
    EXPECT_EQ(status.abortedBy(), 1u);
    // The communicator has failed on all its lanes.
    EXPECT_FALSE(communicator.barrier(kControlLane).ok());
  });
  EXPECT_TRUE(wasKilled(processes.wait(1)));
}

/// Runs ranks with a deadline of one second. After a barrier rank 1 calls `delay`; then each rank
/// gives the status of a second barrier to `check`.
std::unique_ptr<RankProcesses> runWithDelay(const Ranks &ranks, const std::function<void()> &delay,
                                            const std::function<void(const Status &)> &check) {
  CommunicatorOptions options;
  options.deadline = milliseconds(1000);
  return std::make_unique<RankProcesses>(
      ranks,
      [=](Communicator &communicator) {
        EXPECT_TRUE(communicator.barrier(kControlLane).ok());
        if (communicator.rank() == 1)
          delay();
        check(communicator.barrier(kReduceLane));
      },
      options);
}

/// Waits for all ranks but `left`; each must end without a failure.
void waitForOthers(RankProcesses &processes, const Ranks &ranks, unsigned left) {
  for (unsigned rank = 0; rank < ranks.size; ++rank) {
    if (rank != left) {
      EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
    }
  }
}

/// Expects the failure of a barrier whose deadline of one second has passed. `reason` is a regular
/// expression for what is said of rank 1.
void expectDeadline(const Status &status, const std::string &reason) {
  const std::string &message = status.message();
  EXPECT_THAT(message, MatchesRegex("barrier on the reduce lane: rank 1 " + reason +
                                    "; rank [02] has waited [0-9.]+ s, the deadline is 1 s"));
  const std::string before = " has waited ";
  const size_t place = message.find(before);
  ASSERT_NE(place, std::string::npos);
  EXPECT_GE(std::atof(message.c_str() + place + before.size()), 1.0) << message;
}

// If a rank does not take part in a collective, it fails on all other ranks after the deadline. The
// late rank's own collective fails with the others' message.
TEST_P(Processes, StalledPeer) {
  Ranks ranks = GetParam();
  Gate gate;
  auto processes = runWithDelay(
      ranks, [&] { gate.pass(); },
      [&](const Status &status) {
        expectDeadline(status, std::string(ranks.backend == "shm" ? "\\(pid [0-9]+\\) " : "") +
                                   "did not take part");
        EXPECT_EQ(status.abortedBy(), 1u);
      });
  waitForOthers(*processes, ranks, 1);
  gate.open();
  EXPECT_EQ(processes->wait(1), 0);
}

// The error names the stopped rank, not a rank that waits or is late.
TEST_P(Processes, StoppedPeer) {
  Ranks ranks = GetParam();
  auto processes = runWithDelay(
      ranks, [] { raise(SIGSTOP); },
      [&](const Status &status) {
        expectDeadline(status, ranks.backend == "shm" ? "\\(pid [0-9]+\\) is stopped"
                                                      : "is lost: it does not answer");
      });
  waitForOthers(*processes, ranks, 1);
  kill(processes->pid(1), SIGKILL);
  EXPECT_TRUE(wasKilled(processes->wait(1)));
}

// The error of a rendezvous names the ranks that did not come, the address, and the time of the
// wait.
TEST_P(Processes, MissingAtTheRendezvous) {
  Ranks ranks = GetParam();
  uint16_t port = 0;
  c10::intrusive_ptr<c10d::TCPStore> store = serveStore(port);
  LaunchEnvironment environment = environmentAt(port, /*rank=*/0, ranks.size);
  CommunicatorOptions options;
  options.connectTimeout = milliseconds(200);
  auto communicator = connect(ranks.backend, environment, options);
  ASSERT_FALSE(communicator.ok());
  EXPECT_EQ(communicator.status().message(),
            (ranks.size == 2 ? "rank 1" : "ranks 1 and 2") +
                (" did not come to the rendezvous of " + std::to_string(ranks.size)) +
                " ranks at 127.0.0.1 port " + std::to_string(port) +
                " (launched by test; MASTER_ADDR and MASTER_PORT set the place) within 0.2 s");
}

// Ranks whose programs have different lanes do not connect: one has fewer lanes, or a lane of other
// ranks.
TEST_P(Processes, OtherLanes) {
  Ranks ranks = GetParam();
  for (bool isFewer : {true, false}) {
    uint16_t port = 0;
    c10::intrusive_ptr<c10d::TCPStore> store = serveStore(port);
    std::vector<std::string> messages(ranks.size);
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < ranks.size; ++rank)
      threads.emplace_back([&, rank] {
        CommunicatorOptions options{.lanes = standardLanes(ranks.size)};
        if (rank == 1 && isFewer)
          options.lanes.pop_back();
        else if (rank == 1)
          options.lanes.back().ranks = 1;
        LaunchEnvironment environment = environmentAt(port, rank, ranks.size);
        messages[rank] = connect(ranks.backend, environment, options).status().message();
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(messages[0], "rank 1 has other communicators than rank 0: do they run one program?");
    EXPECT_EQ(messages[1], "rank 0 has other communicators than rank 1: do they run one program?");
  }
}

// Lanes of one process may begin their first collectives at once, c10d's log of them
// notwithstanding.
TEST(Gloo, FirstCollectivesAtOnce) {
  constexpr unsigned kRanks = 3, kRounds = 8;
  for (unsigned round = 0; round < kRounds; ++round) {
    uint16_t port = 0;
    c10::intrusive_ptr<c10d::TCPStore> store = serveStore(port);
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        auto connected = connect("gloo", environmentAt(port, rank, kRanks),
                                 {.lanes = standardLanes(kRanks, 1, /*chunkRanks=*/kRanks)});
        ASSERT_TRUE(connected.ok()) << connected.status().message();
        Communicator &communicator = **connected;
        std::vector<std::thread> lanes;
        for (unsigned lane : {kGatherLane, kReduceLane, kChunkLane})
          lanes.emplace_back([&, lane] { EXPECT_TRUE(communicator.barrier(lane).ok()); });
        for (std::thread &lane : lanes)
          lane.join();
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

// If rank 0 ends while another rank waits at the rendezvous, that rank fails at once.
TEST(Rendezvous, RankZeroLeaves) {
  uint16_t port = 0;
  c10::intrusive_ptr<c10d::TCPStore> store = serveStore(port);
  LaunchEnvironment environment = environmentAt(port, /*rank=*/1, /*size=*/3);
  environment.runId = "run";
  std::string message;
  std::thread rank([&] { message = connect("shm", environment, {}).status().message(); });
  store->wait({"fsdpc/run/come/1"});
  store.reset();
  rank.join();
  EXPECT_THAT(message, HasSubstr("rank 0 left the rendezvous of 3 ranks at 127.0.0.1 port "));
  EXPECT_THAT(message, HasSubstr("before all had come"));
}

// Ranks on several hosts cannot share memory: the message names two of them.
TEST(Shm, RefusesSeveralHosts) {
  uint16_t port = 0;
  c10::intrusive_ptr<c10d::TCPStore> store = serveStore(port);
  store->set("fsdpc/run/come/0", {1});
  std::string elsewhere = "node0 another-boot/pid:[1] 4711 3 5 1";
  store->set("fsdpc/run/shm/0", std::vector<uint8_t>(elsewhere.begin(), elsewhere.end()));
  LaunchEnvironment environment = environmentAt(port, /*rank=*/1, /*size=*/2);
  environment.runId = "run";
  auto communicator = connect("shm", environment, {});
  ASSERT_FALSE(communicator.ok());
  EXPECT_THAT(communicator.status().message(),
              HasSubstr("the shm communicator needs all ranks on one host"));
  EXPECT_THAT(communicator.status().message(), HasSubstr("rank 0 is on node0, rank 1 on "));
}

// abort() ends the collectives of all peers, and every later message has the reason.
TEST_P(Everywhere, Abort) {
  onRanks(GetParam(), [](Communicator &communicator) {
    std::string first, second;
    if (communicator.rank() == 1) {
      std::vector<std::byte> output(100 * communicator.size());
      for (unsigned i = 0; i < 5; ++i)
        EXPECT_TRUE(communicator.allGather(kGatherLane, output.data(), output.data(), 100).ok());
      communicator.abort(Status::error("the loss is not a number"));
    } else {
      // Both lanes wait for rank 1 when it aborts.
      std::thread reductions([&] { second = gatherUntilError(communicator, kReduceLane, 64); });
      first = gatherUntilError(communicator, kGatherLane, 100);
      reductions.join();
      EXPECT_THAT(first,
                  HasSubstr("all_gather of 100 bytes on the gather lane: aborted by rank 1"));
      EXPECT_THAT(first, HasSubstr("the loss is not a number"));
      EXPECT_THAT(second,
                  HasSubstr("all_gather of 64 bytes on the reduce lane: aborted by rank 1"));
      EXPECT_THAT(second, HasSubstr("the loss is not a number"));
    }
    Status later = communicator.barrier(kControlLane);
    EXPECT_THAT(later.message(), HasSubstr("the loss is not a number"));
    EXPECT_EQ(later.abortedBy(), 1u);
    communicator.abort(Status::error("a second reason"));
    EXPECT_EQ(communicator.barrier(kControlLane).message(), later.message());
  });
}

// A rank that passes on the abort of another rank keeps that rank's number and message.
TEST_P(Everywhere, AbortPassedOn) {
  onRanks(GetParam(), [](Communicator &communicator) {
    if (communicator.rank() == 0)
      communicator.abort(Status::aborted(7, "aborted by rank 7: no memory"));
    Status later = communicator.barrier(kControlLane);
    EXPECT_EQ(later.abortedBy(), 7u);
    EXPECT_THAT(later.message(), EndsWith(": aborted by rank 7: no memory"));
  });
}

// If a rank destroys its communicator, the next collective of the others fails at once.
TEST_P(Everywhere, PeerLeaves) {
  Ranks ranks = GetParam();
  onRanks(ranks, [&](Communicator &communicator) {
    EXPECT_TRUE(communicator.barrier(kControlLane).ok());
    if (communicator.rank() == 2)
      return;
    Status status = communicator.barrier(kControlLane);
    EXPECT_THAT(status.message(), HasSubstr("barrier on the control lane: rank 2 "));
    EXPECT_THAT(status.message(), HasSubstr(ranks.backend == "gloo" ? "is lost: it does not answer"
                                                                    : "has left the run"));
  });
}

// If ranks issue different collectives, the message names both.
TEST_P(Memory, Mismatch) {
  auto check = [&](const std::function<Status(Communicator &)> &issue, const std::string &one,
                   const std::string &two) {
    onRanks(GetParam(), [&](Communicator &communicator) {
      std::string message = issue(communicator).message();
      EXPECT_THAT(message, HasSubstr("ranks disagree: rank "));
      EXPECT_THAT(message, HasSubstr(one));
      EXPECT_THAT(message, HasSubstr(two));
    });
  };
  float data[64] = {};
  auto odd = [](Communicator &communicator) { return communicator.rank() == 1; };
  check(
      [&](Communicator &communicator) {
        std::vector<float> output(64);
        return communicator.allGather(kGatherLane, data, output.data(), odd(communicator) ? 8 : 4);
      },
      "all_gather of 8 bytes", "all_gather of 4 bytes");
  check(
      [&](Communicator &communicator) {
        float output[64];
        return communicator.reduceScatter(kGatherLane, data, output, 4, FSDP_F32,
                                          odd(communicator) ? ReduceOp::Sum : ReduceOp::Average);
      },
      "reduce_scatter of 4 f32 (sum)", "reduce_scatter of 4 f32 (average)");
  check(
      [&](Communicator &communicator) {
        float own[64] = {};
        return communicator.broadcast(kGatherLane, own, 16, odd(communicator) ? 1 : 0);
      },
      "broadcast of 16 bytes from rank 1", "broadcast of 16 bytes from rank 0");
  check(
      [&](Communicator &communicator) {
        float own[64] = {};
        return odd(communicator)
                   ? communicator.barrier(kGatherLane)
                   : communicator.allReduce(kGatherLane, own, 16, FSDP_I32, ReduceOp::Max);
      },
      "barrier", "all_reduce of 16 i32 (max)");
}

// The input of a collective lies in the arena on all ranks or on none.
TEST_P(Memory, MismatchOfPlaces) {
  onRanks(GetParam(), [](Communicator &communicator) {
    Result<std::byte *> arena = communicator.makeArena(4096);
    ASSERT_TRUE(arena.ok());
    std::byte input[8] = {}, output[64];
    Status status = communicator.allGather(kGatherLane, communicator.rank() == 1 ? input : *arena,
                                           output, sizeof(input));
    EXPECT_THAT(status.message(),
                AnyOf(HasSubstr("all_gather of 8 bytes with its input in the arena"),
                      HasSubstr("all_gather of 8 bytes with its input outside")));
  });
}

TEST_P(Everywhere, ArenasOfDifferentSizes) {
  onRanks(GetParam(), [](Communicator &communicator) {
    Result<std::byte *> arena = communicator.makeArena(communicator.rank() == 1 ? 200 : 100);
    ASSERT_FALSE(arena.ok());
    EXPECT_THAT(arena.status().message(), HasSubstr("arenas differ: rank "));
    EXPECT_THAT(arena.status().message(), HasSubstr("200"));
    EXPECT_THAT(arena.status().message(), HasSubstr("100"));
  });
}

std::set<std::string> sharedMemoryFiles() {
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
    names.insert(entry.path());
  return names;
}

// A rank is killed at any moment, twenty times: the others end with a clear error every time, and
// nothing is left behind.
TEST(Stress, RankKilledInTheMiddle) {
  Ranks ranks{"shm", 3};
  std::set<std::string> filesBefore = sharedMemoryFiles();
  for (unsigned round = 0; round < 20; ++round) {
    Gate progress;
    unsigned victim = round % ranks.size;
    RankProcesses processes(ranks, [&](Communicator &communicator) {
      constexpr size_t kCount = 50000;
      Result<std::byte *> arena = communicator.makeArena(size_t(4) << 20);
      ASSERT_TRUE(arena.ok() || arena.status().message().find("died") != std::string::npos)
          << arena.status().message();
      if (!arena.ok())
        return;
      auto *values = reinterpret_cast<float *>(*arena);
      std::string first, second;
      std::thread gathers([&] { first = gatherUntilError(communicator, kGatherLane, 300000); });
      Status status;
      while (status.ok()) {
        status = communicator.reduceScatter(kReduceLane, values, values + ranks.size * kCount,
                                            kCount, FSDP_F32, ReduceOp::Average);
        if (communicator.rank() == victim)
          progress.open();
      }
      gathers.join();
      second = status.message();
      for (const std::string &message : {first, second}) {
        EXPECT_THAT(message, HasSubstr("rank " + std::to_string(victim) + " (pid "));
        EXPECT_THAT(message, HasSubstr(") died"));
      }
    });
    for (unsigned i = 0; i <= round * 3; ++i)
      progress.pass();
    kill(processes.pid(victim), SIGKILL);
    EXPECT_TRUE(wasKilled(processes.wait(victim)));
    SCOPED_TRACE("round " + std::to_string(round));
    waitForOthers(processes, ranks, victim);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
  }
  EXPECT_EQ(sharedMemoryFiles(), filesBefore);
}

} // namespace
