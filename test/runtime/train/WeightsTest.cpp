#include "checkpoint/Weights.h"
#include "Files.h"
#include "TinyPlan.h"
#include "device/CpuDevice.h"

#include <gtest/gtest.h>

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

SafetensorsFile openWeights(const Folder &folder, const std::vector<Named> &tensors) {
  auto file = SafetensorsFile::open(folder.write("w.safetensors", weightsFile(tensors)));
  EXPECT_TRUE(file.ok()) << file.status().message();
  return std::move(*file);
}

class EveryLayout : public testing::TestWithParam<std::tuple<unsigned, Layout>> {};

} // namespace

/// Every element of every parameter lies on exactly the rank and place that the plan's pieces say,
/// and everything else in the shard is zero.
TEST_P(EveryLayout, FillsShards) {
  auto [ranks, layout] = GetParam();
  TinyPlan tiny(ranks, layout);
  PlanView plan(tiny.tables());
  ASSERT_TRUE(validatePlan(tiny.tables()).ok()) << validatePlan(tiny.tables()).message();
  Folder folder;
  SafetensorsFile file = openWeights(folder, goodWeights());
  size_t elements = 0;
  double sum = 0, expected = 0;
  for (const Named &tensor : goodWeights())
    if (tensor.name != "count")
      for (float value : tensor.values)
        expected += value;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
    Status status = loadWeights(plan, rank, *CpuDevice().makeStream("weights"), arena.data(), file);
    ASSERT_TRUE(status.ok()) << status.message();
    for (const fsdp_group &group : plan.groups()) {
      const auto *shard = reinterpret_cast<const float *>(arena.data() + group.shard);
      for (int64_t i = 0; i < group.shard_elements; ++i)
        sum += shard[i];
      for (const fsdp_parameter &parameter : plan.parametersOf(group)) {
        const StoredTensor *stored = file.find(plan.string(parameter.name));
        for (const fsdp_piece &piece : plan.piecesOf(parameter)) {
          if (piece.rank != rank)
            continue;
          elements += static_cast<size_t>(piece.count);
          EXPECT_EQ(std::memcmp(shard + piece.shard_offset, stored->bytes.data() + 4 * piece.first,
                                static_cast<size_t>(4 * piece.count)),
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
  auto [ranks, layout] = GetParam();
  TinyPlan tiny(ranks, layout);
  PlanView plan(tiny.tables());
  Folder folder;
  SafetensorsFile file = openWeights(folder, goodWeights());
  auto communicators = makeLocalCommunicators(ranks, {});
  std::string path = folder.path("saved.safetensors");
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
      std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
      EXPECT_TRUE(loadWeights(plan, rank, *stream, arena.data(), file).ok());
      Status status = saveWeights(plan, *communicators[rank], *stream, arena.data(), path);
      EXPECT_TRUE(status.ok()) << status.message();
    });
  for (std::thread &thread : threads)
    thread.join();
  auto saved = SafetensorsFile::open(path);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_TRUE(checkWeights(plan, *saved).ok());
  EXPECT_EQ(saved->tensors().size(), 5u);
  for (const auto &[name, tensor] : saved->tensors()) {
    const StoredTensor *original = file.find(name == "tied.scale" ? "scale" : name);
    EXPECT_EQ(tensor.shape, original->shape);
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, original->bytes)) << name;
  }
  EXPECT_EQ(folder.numFiles(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Weights, EveryLayout,
                         testing::Combine(testing::Values(1u, 2u, 3u, 4u),
                                          testing::Values(Layout::Flat, Layout::PerParam)));

namespace {

std::string loadError(const std::vector<Named> &tensors) {
  TinyPlan tiny(1, Layout::Flat);
  Folder folder;
  SafetensorsFile file = openWeights(folder, tensors);
  std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
  std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
  return loadWeights(PlanView(tiny.tables()), 0, *stream, arena.data(), file).message();
}

void expectWords(const std::string &message, const std::vector<std::string> &words) {
  for (const std::string &word : words)
    EXPECT_NE(message.find(word), std::string::npos) << message;
}

} // namespace

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
  auto communicators = makeLocalCommunicators(2, {});
  std::vector<Status> statuses(2);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<std::byte> arena(static_cast<size_t>(tiny.tables().arena_bytes));
      std::unique_ptr<Stream> stream = CpuDevice().makeStream("weights");
      statuses[rank] = saveWeights(plan, *communicators[rank], *stream, arena.data(),
                                   "/nonexistent/w.safetensors");
    });
  for (std::thread &thread : threads)
    thread.join();
  expectWords(statuses[0].message(), {"/nonexistent/w.safetensors"});
  EXPECT_TRUE(statuses[1].ok());
}
