#include "checkpoint/Weights.h"
#include "Files.h"
#include "TinyPlan.h"
#include "checkpoint/CheckpointFiles.h"
#include "comm/StandardLanes.h"
#include "device/CpuDevice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

using namespace fsdp::rt;
using namespace fsdp::test;
using fsdp::plan::Layout;

namespace {

struct Named {
  std::string name, shape;
  std::vector<float> values;
};

/// A weights file of f32 tensors.
std::string weightsFile(const std::vector<Named> &tensors) {
  std::string header = "{", data;
  for (const Named &tensor : tensors) {
    std::string bytes = rawBytes(tensor.values);
    header += (header.size() > 1 ? ",\"" : "\"") + tensor.name + R"(":{"dtype":"F32","shape":)" +
              tensor.shape + R"(,"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + bytes.size()) + "]}";
    data += bytes;
  }
  return safetensorsBytes(header + "}", data);
}

std::vector<Named> goodWeights() {
  std::vector<float> w;
  for (int i = 0; i < 15; ++i)
    w.push_back(static_cast<float>(i + 1));
  return {{"l.w", "[5,3]", w},
          {"l.b", "[3]", {101, 102, 103}},
          {"scale", "[3]", {201, 202, 203}},
          {"count", "[]", {5}}};
}

WeightsFiles openWeights(const Folder &folder, const std::vector<Named> &tensors) {
  auto file = WeightsFiles::open(folder.write("w.safetensors", weightsFile(tensors)));
  EXPECT_TRUE(file.ok()) << file.status().message();
  return std::move(*file);
}

/// Ranks, layout, and whether l.w is cut on dimension 1.
class EveryLayout : public testing::TestWithParam<std::tuple<unsigned, Layout, bool>> {};

} // namespace

/// Every element of every parameter lies on exactly the rank and place that the plan's pieces say,
/// and everything else in the shard is zero.
TEST_P(EveryLayout, FillsShards) {
  auto [ranks, layout, cutsColumns] = GetParam();
  TinyPlan tiny(ranks, layout, cutsColumns);
  PlanView plan(tiny.tables());
  ASSERT_TRUE(validatePlan(tiny.tables()).ok()) << validatePlan(tiny.tables()).message();
  Folder folder;
  WeightsFiles file = openWeights(folder, goodWeights());
  size_t elements = 0;
  double sum = 0, expected = 0;
  for (const Named &tensor : goodWeights())
    if (tensor.name != "count")
      for (float value : tensor.values)
        expected += value;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
    Status status =
        loadWeights(plan, rank, *CpuDevice().makeStream("weights"), arena.data(), nullptr, file);
    ASSERT_TRUE(status.ok()) << status.message();
    for (const fsdp_group &group : plan.groups()) {
      const auto *shard = reinterpret_cast<const float *>(arena.data() + group.shard);
      for (int64_t i = 0; i < group.shard_elements; ++i)
        sum += shard[i];
      for (const fsdp_parameter &parameter : plan.parametersOf(group)) {
        const StoredTensor *stored = file.find(plan.string(parameter.name))->tensor;
        for (const fsdp_piece &piece : plan.piecesOf(parameter)) {
          if (piece.rank != rank)
            continue;
          elements += static_cast<size_t>(piece.count);
          const PlanView::Runs runs = plan.runsOf(parameter);
          const int64_t length = piece.count / runs.count;
          for (int64_t run = 0; run < runs.count; ++run)
            EXPECT_EQ(std::memcmp(shard + piece.shard_offset + run * length,
                                  stored->bytes.data() + 4 * (piece.first + run * runs.stride),
                                  static_cast<size_t>(4 * length)),
                      0);
        }
      }
    }
    float count;
    std::memcpy(&count, arena.data() + plan.values()[plan.buffers()[0].value].offset, 4);
    EXPECT_EQ(count, 5);
  }
  EXPECT_EQ(elements, 21u);
  EXPECT_EQ(sum, expected);
}

/// What is loaded is what is saved, and a saved file holds every name of a tied parameter.
TEST_P(EveryLayout, SavesWhatWasLoaded) {
  auto [ranks, layout, cutsColumns] = GetParam();
  TinyPlan tiny(ranks, layout, cutsColumns);
  PlanView plan(tiny.tables());
  Folder folder;
  WeightsFiles file = openWeights(folder, goodWeights());
  auto communicators = makeLocalCommunicators(ranks, {.lanes = standardLanes(ranks)});
  std::string path = folder.path("saved.safetensors");
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
      std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
      EXPECT_TRUE(loadWeights(plan, rank, *stream, arena.data(), nullptr, file).ok());
      Status status = saveWeights(plan, *communicators[rank], *stream, arena.data(), nullptr, path);
      EXPECT_TRUE(status.ok()) << status.message();
    });
  for (std::thread &thread : threads)
    thread.join();
  auto saved = WeightsFiles::open(path);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_TRUE(checkWeights(plan, *saved).ok());
  EXPECT_EQ(saved->tensors().size(), 5u);
  for (const auto &[name, tensor] : saved->tensors()) {
    const StoredTensor *original = file.find(name == "tied.scale" ? "scale" : name)->tensor;
    EXPECT_EQ(tensor.tensor->shape, original->shape);
    EXPECT_TRUE(std::ranges::equal(tensor.tensor->bytes, original->bytes)) << name;
  }
  EXPECT_EQ(folder.numFiles(), 2u);
}

// Files of weights have no transient buffers, and checkpoints another name for them.
TEST(Weights, TransientBuffers) {
  TinyPlan tiny(1, Layout::Flat);
  tiny.makeCountTransient(7);
  ASSERT_TRUE(validatePlan(tiny.tables()).ok()) << validatePlan(tiny.tables()).message();
  PlanView plan(tiny.tables());
  Folder folder;
  std::vector<Named> weights = goodWeights();
  EXPECT_EQ(checkWeights(plan, openWeights(folder, weights)).message(),
            "'" + folder.path("w.safetensors") +
                "' holds 'count' (F32[]), which the model does not have");
  weights.pop_back();
  WeightsFiles file = openWeights(folder, weights);
  std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
  std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
  int64_t read = 0, toRead = -1;
  auto told = [&](int64_t done, int64_t total) { read = done, toRead = total; };
  ASSERT_TRUE(loadWeights(plan, 0, *stream, arena.data(), nullptr, file, told).ok());
  EXPECT_EQ(read, toRead);
  auto communicators = makeLocalCommunicators(1, {.lanes = standardLanes(1)});
  std::string path = folder.path("saved.safetensors");
  ASSERT_TRUE(saveWeights(plan, *communicators[0], *stream, arena.data(), nullptr, path).ok());
  auto saved = WeightsFiles::open(path);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_FALSE(saved->find("count"));
  EXPECT_TRUE(checkWeights(plan, *saved).ok());
  std::vector<std::string> stored;
  for (const StoredFile &one : filesOf(plan, 0))
    for (const StoredPart &part : one)
      stored.push_back(part.name);
  EXPECT_EQ(std::ranges::count(stored, "count"), 0);
  EXPECT_EQ(std::ranges::count(stored, "fsdpc.rank0.count"), 1);
}

INSTANTIATE_TEST_SUITE_P(Weights, EveryLayout,
                         testing::Combine(testing::Values(1u, 2u, 3u, 4u),
                                          testing::Values(Layout::Flat, Layout::PerParam),
                                          testing::Values(false)));
INSTANTIATE_TEST_SUITE_P(Columns, EveryLayout,
                         testing::Combine(testing::Values(1u, 3u),
                                          testing::Values(Layout::PerParam),
                                          testing::Values(true)));

namespace {

std::string loadError(const std::vector<Named> &tensors) {
  TinyPlan tiny(1, Layout::Flat);
  Folder folder;
  WeightsFiles file = openWeights(folder, tensors);
  std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
  std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
  return loadWeights(PlanView(tiny.tables()), 0, *stream, arena.data(), nullptr, file).message();
}

void expectWords(const std::string &message, const std::vector<std::string> &words) {
  for (const std::string &word : words)
    EXPECT_NE(message.find(word), std::string::npos) << message;
}

} // namespace

// An index names the file of each tensor; what it says has to be so.
TEST(Weights, OfAnIndex) {
  std::vector<Named> all = goodWeights();
  Folder folder;
  folder.write("a.safetensors", weightsFile({all[0], all[3]}));
  folder.write("b.safetensors", weightsFile({all[1], all[2]}));
  auto open = [&](const std::string &map) {
    return WeightsFiles::open(
        folder.write("model.safetensors.index.json", R"({"weight_map":)" + map + "}"));
  };
  const std::string good =
      R"({"l.w":"a.safetensors","count":"a.safetensors","l.b":"b.safetensors","scale":"b.safetensors"})";
  auto files = open(good);
  ASSERT_TRUE(files.ok()) << files.status().message();
  WeightsFiles whole = openWeights(folder, all);
  for (Layout layout : {Layout::Flat, Layout::PerParam}) {
    TinyPlan tiny(2, layout);
    for (unsigned rank = 0; rank < 2; ++rank) {
      std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes)), other(arena);
      std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
      PlanView plan(tiny.tables());
      EXPECT_TRUE(loadWeights(plan, rank, *stream, arena.data(), nullptr, *files).ok());
      EXPECT_TRUE(loadWeights(plan, rank, *stream, other.data(), nullptr, whole).ok());
      EXPECT_EQ(arena, other);
    }
  }
  auto refused = [&](std::string from, const std::string &to,
                     const std::vector<std::string> &words) {
    std::string map = good;
    map.replace(map.find(from), from.size(), to);
    expectWords(open(map).status().message(), words);
  };
  refused(R"("l.w":"a.)", R"("l.w":"b.)", {"b.safetensors' holds 'l.w', which it does not"});
  refused(R"("l.w":)", R"("l.x":)", {"a.safetensors' holds 'l.x', which it does not"});
  refused(R"("l.w":"a.safetensors",)", "", {"holds 'l.w', which", "does not name"});
  refused("a.safetensors", "../a.safetensors",
          {"'l.w' is in", "../a.safetensors", "in its folder"});
  refused(R"("a.safetensors")", "3", {"'l.w' is in 3"});
  refused("a.safetensors", "none.safetensors", {"none.safetensors"});
  for (const char *map : {"{}", "[]", "3"})
    expectWords(open(map).status().message(), {"is no index", "weight_map"});
  folder.write("b.safetensors", weightsFile({all[0], all[1], all[2]}));
  expectWords(open(good).status().message(), {"both hold 'l.w'"});
}

TEST(Weights, AcceptsAliases) {
  std::vector<Named> weights = goodWeights();
  weights[2].name = "tied.scale";
  EXPECT_EQ(loadError(weights), "");
  weights.push_back(goodWeights()[2]);
  EXPECT_EQ(loadError(weights), "");
  weights.back().values[1] = 0;
  expectWords(loadError(weights), {"different values for 'scale'"});
}

TEST(Weights, NamesWhatIsMissingOrUnknown) {
  std::vector<Named> weights = goodWeights();
  std::vector<Named> noScale{weights[0], weights[1], weights[3]};
  expectWords(loadError(noScale), {"lacks parameter 'scale'", "F32[3]", "'tied.scale'"});
  std::vector<Named> noBuffer{weights[0], weights[1], weights[2]};
  expectWords(loadError(noBuffer), {"lacks buffer 'count'", "F32[]"});
  weights.push_back({"more", "[1]", {1}});
  expectWords(loadError(weights), {"holds 'more' (F32[1])", "does not have"});
}

TEST(Weights, ShowsBothShapes) {
  std::vector<Named> weights = goodWeights();
  weights[0].shape = "[3,5]";
  expectWords(loadError(weights), {"'l.w' is F32[3,5]", "the model has F32[5,3]"});
  weights = goodWeights();
  weights[3].shape = "[1]";
  expectWords(loadError(weights), {"'count' is F32[1]", "the model has F32[]"});
}

TEST(Weights, AFailedDiskStopsNoOtherRank) {
  TinyPlan tiny(2, Layout::Flat);
  PlanView plan(tiny.tables());
  auto communicators = makeLocalCommunicators(2, {.lanes = standardLanes(2)});
  std::vector<Status> statuses(2);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
      std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
      statuses[rank] = saveWeights(plan, *communicators[rank], *stream, arena.data(), nullptr,
                                   "/nonexistent/w.safetensors");
    });
  for (std::thread &thread : threads)
    thread.join();
  expectWords(statuses[0].message(), {"/nonexistent/w.safetensors"});
  EXPECT_TRUE(statuses[1].ok());
}
