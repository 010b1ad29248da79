//===- NetworkTest.cpp - Costs of collectives, worked by hand --------------===//

#include "fsdp/CostModel/Network.h"
#include "Calls.h"

using namespace fsdp;
using namespace fsdp::cost;

/// Nodes of 4 ranks at 100 GB/s, joined by adapters of 10 GB/s per rank.
static Network makeNetwork(CollectiveAlgorithm algorithm) {
  Network network;
  network.name = "test";
  network.algorithm = algorithm;
  network.baseNs = 1000;
  network.levels = {{"inside", 4, 100, std::nullopt, 100e9, ""},
                    {"between", 0, 500, std::nullopt, 10e9, ""}};
  return network;
}

TEST(Network, OneRankCostsNothing) {
  CollectiveCost cost =
      makeNetwork(CollectiveAlgorithm::Ring).getCost(CollectiveKind::AllGather, 1);
  EXPECT_EQ(cost.latencyNs, 0);
  EXPECT_EQ(cost.nsPerByte, 0);
}

TEST(Network, RingInsideANode) {
  CollectiveCost cost =
      makeNetwork(CollectiveAlgorithm::Ring).getCost(CollectiveKind::ReduceScatter, 4);
  EXPECT_DOUBLE_EQ(cost.latencyNs, 1000 + 3 * 100);
  EXPECT_DOUBLE_EQ(cost.nsPerByte, 3. / 4 / 100);
  EXPECT_EQ(cost.origin, Origin::Roofline);
}

// 3 nodes: 11 hops, of which 2 between nodes. The four adapters of a node together reach 40 GB/s.
TEST(Network, RingOverNodesIsAsFastAsItsSlowestLevel) {
  CollectiveCost cost =
      makeNetwork(CollectiveAlgorithm::Ring).getCost(CollectiveKind::AllGather, 12);
  EXPECT_DOUBLE_EQ(cost.latencyNs, 1000 + 9 * 100 + 2 * 500);
  EXPECT_DOUBLE_EQ(cost.nsPerByte, 11. / 12 / 40);
}

// Between 3 nodes each rank moves its quarter, then the node shares the whole.
TEST(Network, HierarchicalGathersBetweenNodesThenInside) {
  CollectiveCost cost =
      makeNetwork(CollectiveAlgorithm::Hierarchical).getCost(CollectiveKind::AllGather, 12);
  EXPECT_DOUBLE_EQ(cost.latencyNs, 1000 + 3 * 100 + 2 * 500);
  EXPECT_DOUBLE_EQ(cost.nsPerByte, 3. / 4 / 100 + 2. / 3 / 4 / 10);
}

// A tree over 8 nodes has 3 levels, up and down; the bytes pass twice.
TEST(Network, AllReduceHasATreesLatency) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  CollectiveCost cost = network.getCost(CollectiveKind::AllReduce, 32);
  EXPECT_DOUBLE_EQ(cost.latencyNs, 1000 + 2 * (3 * 100 + 3 * 500));
  EXPECT_DOUBLE_EQ(cost.nsPerByte, 2 * 31. / 32 / 40);
}

// Replicas of shards that fill a node meet one rank per node, over one adapter; of smaller ones,
// several, inside the node and with their adapters together.
TEST(Network, RanksThatAreApart) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  CollectiveCost nodes = network.getCost(CollectiveKind::AllReduce, 3, /*stride=*/4);
  EXPECT_DOUBLE_EQ(nodes.latencyNs, 1000 + 2 * 2 * 500);
  EXPECT_DOUBLE_EQ(nodes.nsPerByte, 2 * 2. / 3 / 10);
  CollectiveCost inside = network.getCost(CollectiveKind::AllReduce, 2, /*stride=*/2);
  EXPECT_DOUBLE_EQ(inside.latencyNs, 1000 + 2 * 100);
  EXPECT_DOUBLE_EQ(inside.nsPerByte, 2 * 1. / 2 / 100);
  CollectiveCost both = network.getCost(CollectiveKind::AllReduce, 4, /*stride=*/2);
  EXPECT_DOUBLE_EQ(both.latencyNs, 1000 + 2 * (100 + 500));
  EXPECT_DOUBLE_EQ(both.nsPerByte, 2 * 3. / 4 / 20);
}

// So do hops of a ring whose ranks are alone in their nodes.
TEST(Network, TreesHaveHopsOfTheirOwn) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  network.levels[0].treeHopNs = 50;
  network.levels[1].treeHopNs = 800;
  EXPECT_DOUBLE_EQ(network.getCost(CollectiveKind::AllReduce, 32).latencyNs,
                   1000 + 2 * (3 * 50 + 3 * 800));
  EXPECT_DOUBLE_EQ(network.getCost(CollectiveKind::AllGather, 12).latencyNs,
                   1000 + 9 * 100 + 2 * 500);
  EXPECT_DOUBLE_EQ(network.getCost(CollectiveKind::AllGather, 3, /*stride=*/4).latencyNs,
                   1000 + 2 * 800);
}

TEST(Network, RingLatencyGrowsWithRanks) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  double previous = 0;
  for (int64_t ranks = 2; ranks <= 4096; ranks *= 2) {
    CollectiveCost cost = network.getCost(CollectiveKind::AllGather, ranks);
    EXPECT_GT(cost.latencyNs, previous);
    previous = cost.latencyNs;
  }
}

TEST(Network, HostsAreTheFirstOfSeveralLevels) {
  EXPECT_EQ(llvm::cantFail(loadNetwork("dgx-h100")).getRanksPerHost(), 8);
  EXPECT_EQ(llvm::cantFail(loadNetwork("shared-memory")).getRanksPerHost(), 0);
  Network network = llvm::cantFail(loadNetwork("dgx-h100"));
  network.levels.pop_back();
  EXPECT_EQ(network.getRanksPerHost(), 0);
}

TEST(Network, MeasurementsComeBeforeLevels) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  network.measured = {{CollectiveKind::AllGather, 4, 7000, 0.5, 0.1, {}}};
  CollectiveCost measured = network.getCost(CollectiveKind::AllGather, 4);
  EXPECT_EQ(measured.latencyNs, 7000);
  EXPECT_EQ(measured.nsPerByte, 0.5);
  EXPECT_EQ(measured.spread, 0.1);
  EXPECT_EQ(measured.origin, Origin::Measured);
  EXPECT_EQ(network.getCost(CollectiveKind::AllGather, 8).origin, Origin::Roofline);
  EXPECT_EQ(network.getCost(CollectiveKind::ReduceScatter, 4).origin, Origin::Roofline);
}

// Between measured sizes durations lie on the straight line through them, behind the last in
// proportion; none falls.
TEST(Network, MeasuredDurationsComeBeforeTheirLine) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  network.measured = {{CollectiveKind::AllGather,
                       4,
                       7000,
                       0.5,
                       0.1,
                       {{1000, 5000, 0.1, 9}, {2000, 4000, 0.1, 9}, {4000, 9000, 0.1, 9}}}};
  CollectiveCost cost = network.getCost(CollectiveKind::AllGather, 4);
  EXPECT_DOUBLE_EQ(cost.durationNs(1000), 4000);
  EXPECT_DOUBLE_EQ(cost.durationNs(2000), 4000);
  EXPECT_DOUBLE_EQ(cost.durationNs(3000), 6500);
  EXPECT_DOUBLE_EQ(cost.durationNs(8000), 18000);
  for (int64_t bytes : {0, 500, 1500, 3000, 9000})
    EXPECT_GE(cost.durationNs(bytes) * (1 + 1e-12),
              cost.latencyNs + cost.nsPerByte * static_cast<double>(bytes));
  EXPECT_EQ(cost.origin, Origin::Measured);
  schedule::CollectiveCost twice = cost.scaled(2), more = cost.plus(10, 1);
  EXPECT_DOUBLE_EQ(twice.durationNs(3000), 13000);
  EXPECT_DOUBLE_EQ(more.durationNs(3000), 6500 + 10 + 3000);
  EXPECT_EQ(network.getCost(CollectiveKind::AllGather, 4), cost); // not the same, but equal
}

// Without levels: 3 hops instead of 1, 3/4 of the bytes instead of 1/2.
TEST(Network, OtherNumbersOfRanksAreScaledAsARing) {
  Network network;
  network.measured = {{CollectiveKind::AllGather, 2, 100, 0.5, 0, {}},
                      {CollectiveKind::ReduceScatter, 2, 300, 1, 0, {}}};
  CollectiveCost gather = network.getCost(CollectiveKind::AllGather, 4);
  EXPECT_DOUBLE_EQ(gather.latencyNs, 300);
  EXPECT_DOUBLE_EQ(gather.nsPerByte, 0.75);
  EXPECT_EQ(gather.origin, Origin::Roofline);
  CollectiveCost both = network.getCost(CollectiveKind::AllReduce, 2);
  EXPECT_DOUBLE_EQ(both.latencyNs, 400);
  EXPECT_DOUBLE_EQ(both.nsPerByte, 1.5);
}

// Each of 4 ranks copies its quarter to 3 others.
TEST(Network, CopyEngines) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  network.copyEngines = CopyEngines{.baseNs = 100, .hopNs = 10, .bytesPerSec = 1e9};
  CollectiveCost cost = network.getCost(CollectiveKind::CopyEngineGather, 4);
  EXPECT_DOUBLE_EQ(cost.latencyNs, 130);
  EXPECT_DOUBLE_EQ(cost.nsPerByte, 0.75);
  EXPECT_EQ(cost.origin, Origin::Roofline);
  network.measured = {{CollectiveKind::CopyEngineGather, 4, 7000, 0.5, 0.1, {}}};
  EXPECT_EQ(network.getCost(CollectiveKind::CopyEngineGather, 4).latencyNs, 7000);
  EXPECT_EQ(network.getCost(CollectiveKind::AllGather, 4).origin, Origin::Roofline);
}

// 3 doublings and 8 ranks. The ring takes 7 hops and moves 7/8 of the bytes at 10 GB/s, PAT moves
// all at 5 GB/s. From 28.6 KB on the ring is faster.
TEST(Network, PatGathersBetweenHostsOfOneRank) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  const CollectiveCost ring = network.getCost(CollectiveKind::AllGather, 8, /*stride=*/4);
  EXPECT_DOUBLE_EQ(ring.latencyNs, 1000 + 7 * 500);
  EXPECT_DOUBLE_EQ(ring.nsPerByte, 7. / 8 / 10);
  network.pat = Pat{.baseNs = 600, .hopNs = 200, .perRankNs = 10, .rateShare = 0.5};
  const CollectiveCost cost = network.getCost(CollectiveKind::AllGather, 8, /*stride=*/4);
  EXPECT_DOUBLE_EQ(cost.latencyNs, 600 + 3 * 200 + 8 * 10);
  EXPECT_DOUBLE_EQ(cost.nsPerByte, ring.nsPerByte);
  EXPECT_DOUBLE_EQ(cost.durationNs(0), 1280);
  EXPECT_NEAR(cost.durationNs(10'000), 1280 + 10'000 / 5., 1);
  for (int64_t bytes : {29'000, 1'000'000, 1'000'000'000})
    EXPECT_DOUBLE_EQ(cost.durationNs(bytes), ring.durationNs(bytes));
  EXPECT_EQ(cost.origin, Origin::Roofline);

  Network hosts = network; // the same by levels, of hosts with one rank each
  hosts.levels[0].units = 1;
  EXPECT_EQ(hosts.getCost(CollectiveKind::AllGather, 8), cost);
  // Averages do not use PAT, nor do collectives of which a host has several ranks.
  network.pat = std::nullopt;
  for (CollectiveKind kind : {CollectiveKind::ReduceScatter, CollectiveKind::AllReduce})
    EXPECT_EQ(hosts.getCost(kind, 8), network.getCost(kind, 8, /*stride=*/4));
  hosts.levels[0].units = 4;
  EXPECT_EQ(hosts.getCost(CollectiveKind::AllGather, 32),
            network.getCost(CollectiveKind::AllGather, 32));
  hosts.levels.erase(hosts.levels.begin()); // a host's ranks are unknown
  network.levels.erase(network.levels.begin());
  EXPECT_EQ(hosts.getCost(CollectiveKind::AllGather, 8),
            network.getCost(CollectiveKind::AllGather, 8));
}

TEST(Network, OneOfPatAndRingMayBeFasterForAllBytes) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  const CollectiveCost ring = network.getCost(CollectiveKind::AllGather, 8, /*stride=*/4);
  network.pat = Pat{.baseNs = 5000, .hopNs = 200, .perRankNs = 10, .rateShare = 0.5};
  EXPECT_EQ(network.getCost(CollectiveKind::AllGather, 8, /*stride=*/4), ring);
  network.levels[1].hopNs = 1e12;
  const CollectiveCost pat = network.getCost(CollectiveKind::AllGather, 8, /*stride=*/4);
  EXPECT_EQ(pat.curve, nullptr);
  EXPECT_DOUBLE_EQ(pat.durationNs(1'000'000'000), 5000 + 3 * 200 + 8 * 10 + 1e9 / 5);
}

TEST(Network, PresetsGrowMonotonically) {
  for (const char *name : {"dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "shared-memory"}) {
    llvm::Expected<Network> network = loadNetwork(name);
    ASSERT_TRUE(static_cast<bool>(network)) << name;
    for (CollectiveKind kind :
         {CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce}) {
      CollectiveCost two = network->getCost(kind, 2), many = network->getCost(kind, 1024);
      EXPECT_GT(two.latencyNs, 0) << name;
      EXPECT_GT(two.nsPerByte, 0) << name;
      EXPECT_GT(many.latencyNs, two.latencyNs) << name;
      EXPECT_GT(many.nsPerByte, two.nsPerByte) << name;
    }
  }
}

TEST(NetworkFile, ReadsWhatItWrites) {
  Network network = makeNetwork(CollectiveAlgorithm::Ring);
  network.measured = {{CollectiveKind::ReduceScatter, 2, 123.5, 0.25, 0.05, {{1024, 400, 0.1, 9}}}};
  network.contention.lanes = 1.5;
  network.coalesces = false;
  network.contention.computation = 1.25;
  network.contention.gathers = 3;
  network.contention.reductions = 2;
  network.contention.several = 4;
  network.copyEngines = CopyEngines{
      .baseNs = 1, .hopNs = 2, .bytesPerSec = 3, .computeContention = 1.5, .source = "here"};
  network.pat = Pat{.baseNs = 5, .hopNs = 6, .perRankNs = 7, .rateShare = 0.5, .source = "there"};
  std::string text;
  llvm::raw_string_ostream os(text);
  writeNetwork(network, os);
  TemporaryFile file(text);
  llvm::Expected<Network> read = loadNetwork(file.path);
  ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
  std::string again;
  llvm::raw_string_ostream second(again);
  writeNetwork(*read, second);
  EXPECT_EQ(again, text);
  EXPECT_EQ(read->contention, network.contention);
  EXPECT_EQ(read->pat->perRankNs, 7);
  EXPECT_DOUBLE_EQ(read->measured[0].latencyNs, 123.5);
  EXPECT_DOUBLE_EQ(read->getCost(CollectiveKind::ReduceScatter, 2).durationNs(1024), 400);
}

TEST(NetworkFile, ReadsTheAlgorithmThatItWrites) {
  for (CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::Ring, CollectiveAlgorithm::Hierarchical}) {
    std::string text;
    llvm::raw_string_ostream os(text);
    writeNetwork(makeNetwork(algorithm), os);
    TemporaryFile file(text);
    llvm::Expected<Network> read = loadNetwork(file.path);
    ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
    EXPECT_EQ(read->algorithm, algorithm);
  }
}

// Without factors of their own, reductions and several collectives have that of one gather.
TEST(NetworkFile, ContentionHasDefaults) {
  TemporaryFile file(R"({"format": "fsdp-network", "version": 1, "name": "n", "source": "s",
    "levels": [{"name": "l", "units": 0, "hopNs": 1, "bytesPerSec": 1}],
    "laneContention": 1.5, "computeContention": 2})");
  llvm::Expected<Network> read = loadNetwork(file.path);
  ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
  schedule::Contention expected{.lanes = 1.5, .replicas = 1.5, .copyEngines = 2};
  expected.setOfComputation(2);
  EXPECT_EQ(read->getContention(), expected);
}

static std::string errorOf(const std::string &content) {
  TemporaryFile file(content);
  std::string message = messageOf(loadNetwork(file.path));
  EXPECT_NE(message.find("network '" + file.path + "': "), std::string::npos) << message;
  return message;
}

TEST(NetworkFile, ErrorsNameTheFileAndTheField) {
  using testing::HasSubstr;
  EXPECT_THAT(messageOf(loadNetwork("no-such-network")),
              HasSubstr("network 'no-such-network' is neither a file nor one of dgx-a100, "));
  EXPECT_THAT(errorOf("{\"format\": \"fsdp-network\", "), HasSubstr("not JSON, or cut off: "));
  EXPECT_THAT(errorOf("{\"format\": \"fsdp-profile\", \"version\": 1}"),
              HasSubstr("its format is 'fsdp-profile', expected 'fsdp-network'"));
  EXPECT_THAT(errorOf("{\"format\": \"fsdp-network\", \"version\": 7}"),
              HasSubstr("its version is 7, expected 1"));
  const std::string head =
      R"({"format": "fsdp-network", "version": 1, "name": "n", "source": "s", )";
  const std::string tail = R"("laneContention": 1, "computeContention": 1})";
  EXPECT_THAT(errorOf(head + R"("levels": [], )" + tail), HasSubstr("neither levels nor measured"));
  EXPECT_THAT(errorOf(head +
                      R"("levels": [{"name": "l", "units": 8, "hopNs": 1, "bytesPerSec": 1}], )" +
                      tail),
              HasSubstr("the last level, and no other"));
  EXPECT_THAT(errorOf(head +
                      R"("levels": [{"name": "l", "units": 0, "hopNs": 1, "bytesPerSec": 0}], )" +
                      tail),
              HasSubstr("levels[0].bytesPerSec"));
  EXPECT_THAT(
      errorOf(head +
              R"("measured": [{"kind": "gather", "ranks": 2, "latencyNs": 1, "nsPerByte": 1}], )" +
              tail),
      HasSubstr("expected all_gather, reduce_scatter, all_reduce or copy_engine_all_gather"));
  EXPECT_THAT(
      errorOf(
          head +
          R"("measured": [{"kind": "all_gather", "ranks": 2, "latencyNs": 1, "nsPerByte": 1}], )" +
          tail),
      HasSubstr("all_gather and reduce_scatter are both needed"));
  const std::string levels =
      R"("levels": [{"name": "l", "units": 0, "hopNs": 1, "bytesPerSec": 1}], )";
  auto copyEngines = [](const std::string &contention) {
    return R"("copyEngines": {"baseNs": 1, "hopNs": 1, "bytesPerSec": 1, "computeContention": )" +
           contention + "}, ";
  };
  EXPECT_THAT(errorOf(head + levels + copyEngines("0.5") + tail),
              HasSubstr("copyEngines.computeContention"));
  EXPECT_THAT(errorOf(head + levels + copyEngines("1.5") + tail),
              HasSubstr("expected at most the computeContention of kernels"));
  auto pat = [](const std::string &share) {
    return R"("pat": {"baseNs": 1, "hopNs": 1, "perRankNs": 1, "rateShare": )" + share + "}, ";
  };
  EXPECT_THAT(errorOf(head + levels + pat("1.5") + tail), HasSubstr("pat.rateShare"));
  EXPECT_THAT(errorOf(head + levels + pat("0.5") + tail),
              HasSubstr("needs the algorithm ring, and a level of hosts before another level"));
  auto contention = [&](const std::string &fields) {
    return errorOf(head + levels + R"("laneContention": 1, "computeContention": 2, )" + fields +
                   "}");
  };
  EXPECT_THAT(errorOf(head + R"("measured": [{"kind": "all_gather", "ranks": 2, "latencyNs": 1,
                        "nsPerByte": 1, "durations": [
                        {"bytes": 8, "medianNs": 1, "spread": 0, "samples": 1},
                        {"bytes": 8, "medianNs": 1, "spread": 0, "samples": 1}]}], )" +
                      tail),
              HasSubstr("durations[1].bytes"));
  for (const char *field :
       {"computeContentionOfReductions", "computeContentionOfSeveral", "collectiveContention"})
    EXPECT_THAT(contention("\"" + std::string(field) + "\": 1e999"),
                HasSubstr("expected at most 1e18 at network." + std::string(field)));
  for (const char *spread : {"-1", "1e999"})
    EXPECT_THAT(errorOf(head + R"("measured": [{"kind": "all_gather", "ranks": 2, "latencyNs": 1,
                          "nsPerByte": 1, "spread": )" +
                        spread + "}], " + tail),
                HasSubstr("measured[0].spread"));
  EXPECT_THAT(contention(R"("computeContentionOfReductions": 0.5)"),
              HasSubstr("computeContentionOfReductions"));
  EXPECT_THAT(contention(R"("computeContentionOfSeveral": 1.5)"),
              HasSubstr("computeContentionOfSeveral"));
  EXPECT_THAT(contention(R"("collectiveContention": 0.5)"), HasSubstr("collectiveContention"));
  EXPECT_THAT(
      errorOf(
          head + levels +
          R"("measured": [{"kind": "copy_engine_all_gather", "ranks": 2, "latencyNs": 1, "nsPerByte": 1}], )" +
          tail),
      HasSubstr("copy_engine_all_gather needs copyEngines"));
}
