//===- LaunchEnvironmentTest.cpp - What launchers tell processes ----------===//

#include "comm/Rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace fsdp::rt;
using testing::HasSubstr;

namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<LaunchEnvironment>> readFrom(const Variables &variables) {
  return readLaunchEnvironment([&](const char *name) -> const char * {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

LaunchEnvironment environmentOf(const Variables &variables) {
  auto result = readFrom(variables);
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok() || !result->has_value())
    return {};
  return **result;
}

std::string errorOf(const Variables &variables) { return readFrom(variables).status().message(); }

// Without a launcher's variables the process was started alone.
TEST(LaunchEnvironment, Alone) {
  auto result = readFrom({{"HOME", "/root"}});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->has_value());
  result = readFrom({{"WORLD_SIZE", "1"}});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->has_value());
}

TEST(LaunchEnvironment, Plain) {
  LaunchEnvironment read = environmentOf({{"RANK", "1"},
                                          {"WORLD_SIZE", "4"},
                                          {"LOCAL_RANK", "0"},
                                          {"MASTER_ADDR", "node0"},
                                          {"MASTER_PORT", "29400"}});
  EXPECT_EQ(read.rank, 1u);
  EXPECT_EQ(read.worldSize, 4u);
  EXPECT_EQ(read.localRank, 0u);
  EXPECT_EQ(read.masterAddress, "node0");
  EXPECT_EQ(read.masterPort, 29400);
  EXPECT_FALSE(read.agentStore);
  EXPECT_EQ(read.launcher, "environment");
}

// torchrun serves the store itself, and its restarts must not meet each other's keys.
TEST(LaunchEnvironment, Torchrun) {
  Variables variables{{"RANK", "2"},
                      {"WORLD_SIZE", "4"},
                      {"LOCAL_RANK", "2"},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", "29500"},
                      {"TORCHELASTIC_RUN_ID", "job7"},
                      {"TORCHELASTIC_RESTART_COUNT", "3"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  LaunchEnvironment read = environmentOf(variables);
  EXPECT_EQ(read.launcher, "torchrun");
  EXPECT_TRUE(read.agentStore);
  EXPECT_EQ(read.runId, "job7/3");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_FALSE(environmentOf(variables).agentStore);
}

// Ranks with another token meet nobody.
TEST(LaunchEnvironment, TokenOfTheRun) {
  Variables variables{{"RANK", "0"},
                      {"WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", "29500"},
                      {"FSDP_RUN_TOKEN", "secret"}};
  EXPECT_EQ(environmentOf(variables).runId, "token/secret");
  variables["TORCHELASTIC_RUN_ID"] = "job7";
  EXPECT_EQ(environmentOf(variables).runId, "job7/0/token/secret");
}

// On one host, mpirun's ranks meet on loopback, at a port that their job determines.
TEST(LaunchEnvironment, MpirunOnOneHost) {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"PMIX_NAMESPACE", "prterun-a-1@1"}};
  LaunchEnvironment read = environmentOf(variables);
  EXPECT_EQ(read.launcher, "mpirun");
  EXPECT_EQ(read.rank, 1u);
  EXPECT_EQ(read.masterAddress, "127.0.0.1");
  EXPECT_GE(read.masterPort, 1024);
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_EQ(environmentOf(variables).masterPort, read.masterPort);
  variables["PMIX_NAMESPACE"] = "prterun-a-2@1";
  EXPECT_NE(environmentOf(variables).masterPort, read.masterPort);
}

TEST(LaunchEnvironment, MpirunOnSeveralHosts) {
  Variables variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}};
  EXPECT_EQ(errorOf(variables),
            "the run spans several hosts (MPI_LOCALNRANKS is 2 of 4 ranks): set "
            "MASTER_ADDR to the host of rank 0, and MASTER_PORT");
  variables["MASTER_ADDR"] = "node0";
  variables["MASTER_PORT"] = "1234";
  EXPECT_EQ(environmentOf(variables).masterAddress, "node0");
}

TEST(LaunchEnvironment, Srun) {
  Variables variables{{"SLURM_PROCID", "3"},         {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_LOCALID", "3"},        {"SLURM_JOB_ID", "77"},
                      {"SLURM_STEP_ID", "0"},        {"SLURM_NNODES", "2"},
                      {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_NTASKS", "8"}};
  LaunchEnvironment read = environmentOf(variables);
  EXPECT_EQ(read.launcher, "srun");
  EXPECT_EQ(read.rank, 3u);
  EXPECT_EQ(read.runId, "77/0");
  EXPECT_EQ(read.masterAddress, "127.0.0.1");
  variables["SLURM_STEP_NUM_NODES"] = "2";
  EXPECT_THAT(errorOf(variables),
              HasSubstr("the run spans several hosts (SLURM_STEP_NUM_NODES is 2)"));
}

// With --mpi=pmi2 srun's ranks have PMI's variables, which do not say which rank of its host one
// is.
TEST(LaunchEnvironment, SrunWithPmi) {
  LaunchEnvironment read = environmentOf({{"PMI_RANK", "3"},
                                          {"PMI_SIZE", "4"},
                                          {"PMI_JOBID", "77.0"},
                                          {"SLURM_PROCID", "3"},
                                          {"SLURM_STEP_NUM_TASKS", "4"},
                                          {"SLURM_STEP_NUM_NODES", "2"},
                                          {"SLURM_LOCALID", "1"},
                                          {"MASTER_ADDR", "node0"},
                                          {"MASTER_PORT", "29500"}});
  EXPECT_EQ(read.launcher, "srun");
  EXPECT_EQ(read.localRank, 1u);
}

// mpirun that has begun its helpers by srun.
TEST(LaunchEnvironment, MpirunWithinSlurm) {
  LaunchEnvironment read = environmentOf({{"PMI_RANK", "3"},
                                          {"PMI_SIZE", "4"},
                                          {"MPI_LOCALRANKID", "3"},
                                          {"MPI_LOCALNRANKS", "4"},
                                          {"SLURM_PROCID", "0"},
                                          {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_EQ(read.launcher, "mpirun");
  EXPECT_EQ(read.rank, 3u);
}

// The script of a Slurm job is no rank: it may start ranks as threads.
TEST(LaunchEnvironment, ScriptOfSlurmJob) {
  auto result = readFrom({{"SLURM_JOB_ID", "77"},
                          {"SLURM_PROCID", "0"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NTASKS", "2"},
                          {"SLURM_NNODES", "1"}});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_FALSE(result->has_value());
}

// The first launcher in the documented order wins: torchrun inside srun is torchrun.
TEST(LaunchEnvironment, Order) {
  LaunchEnvironment read = environmentOf({{"SLURM_PROCID", "0"},
                                          {"SLURM_STEP_NUM_TASKS", "1"},
                                          {"RANK", "5"},
                                          {"WORLD_SIZE", "8"},
                                          {"MASTER_ADDR", "a"},
                                          {"MASTER_PORT", "1"}});
  EXPECT_EQ(read.rank, 5u);
}

// Errors name the variable, its value and what was expected.
TEST(LaunchEnvironment, Errors) {
  Variables good{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  auto with = [&](const char *name, const char *value) {
    Variables changed = good;
    changed[name] = value;
    return errorOf(changed);
  };
  EXPECT_EQ(with("RANK", "2"), "RANK is '2', expected a number from 0 to 1");
  EXPECT_EQ(with("RANK", "-1"), "RANK is '-1', expected a number from 0 to 1");
  EXPECT_EQ(with("RANK", "1x"), "RANK is '1x', expected a number from 0 to 1");
  EXPECT_EQ(with("WORLD_SIZE", "0"), "WORLD_SIZE is '0', expected a number from 1 to 1048576");
  EXPECT_EQ(with("MASTER_PORT", "70000"),
            "MASTER_PORT is '70000', expected a number from 1 to 65535");
  EXPECT_EQ(with("LOCAL_RANK", "two"), "LOCAL_RANK is 'two', expected a number from 0 to 1");
  EXPECT_EQ(with("WORLD_SIZE", ""), "RANK is set, but WORLD_SIZE is not");
  EXPECT_EQ(with("MASTER_ADDR", ""),
            "MASTER_ADDR and MASTER_PORT must be set where RANK and WORLD_SIZE are");
  EXPECT_EQ(errorOf({{"WORLD_SIZE", "2"}}), "WORLD_SIZE is 2, but RANK is not set");
}

// Backends between processes are named; others are refused before anything is connected.
TEST(Connect, UnknownBackend) {
  auto result = connect("local", LaunchEnvironment(), {});
  EXPECT_EQ(result.status().message(),
            "no communicator 'local' between processes, expected shm or gloo");
}

// A place where nobody serves the rendezvous is an error within the timeout, and named. What c10d
// says of it depends on how soon it gives up, on a busy host not before the timeout.
TEST(Connect, NobodyThere) {
  LaunchEnvironment environment;
  environment.rank = 1;
  environment.worldSize = 2;
  environment.masterAddress = "127.0.0.1";
  environment.masterPort = 1;
  environment.launcher = "environment";
  CommunicatorOptions options;
  options.connectTimeout = std::chrono::milliseconds(100);
  auto result = connect("shm", environment, options);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(
      result.status().message(),
      HasSubstr("no rendezvous with rank 0 at 127.0.0.1 port 1 (launched by environment; "));
}

// A place that takes connections, but never answers, is an error within the timeout too.
TEST(Connect, NoAnswer) {
  int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto *generic = reinterpret_cast<sockaddr *>(&address);
  ASSERT_EQ(bind(server, generic, length), 0);
  ASSERT_EQ(listen(server, 4), 0);
  ASSERT_EQ(getsockname(server, generic, &length), 0);
  LaunchEnvironment environment;
  environment.rank = 1;
  environment.worldSize = 2;
  environment.masterAddress = "127.0.0.1";
  environment.masterPort = ntohs(address.sin_port);
  environment.launcher = "environment";
  CommunicatorOptions options;
  options.connectTimeout = std::chrono::milliseconds(100);
  auto result = connect("gloo", environment, options);
  close(server);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(
      result.status().message(),
      "no rendezvous with rank 0 at 127.0.0.1 port " + std::to_string(environment.masterPort) +
          " (launched by environment; MASTER_ADDR and MASTER_PORT set the place): no answer within "
          "0.1 s");
}

} // namespace
