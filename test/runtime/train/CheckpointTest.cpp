#include "Files.h"
#include "GoodManifest.h"
#include "TinyPlan.h"
#include "checkpoint/CheckpointFolder.h"
#include "checkpoint/CheckpointReader.h"
#include "device/CpuDevice.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace fsdp::rt;
using namespace fsdp::test;
using fsdp::plan::Layout;

namespace {

/// The ranks of a tiny step, each with memory full of numbers of its own, or zeroed.
class TinyRanks {
public:
  TinyRanks(unsigned ranks, Layout layout, bool filled, bool cutsColumns = false)
      : tiny(ranks, layout, cutsColumns), plan(tiny.tables()),
        stream(CpuDevice().makeStream("checkpoint")) {
    // Smaller than most tensors, so that these are copied in several pieces.
    staging.resize(20);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      arenas.emplace_back(static_cast<size_t>(tiny.tables().arena_bytes));
      auto *numbers = reinterpret_cast<float *>(arenas.back().data());
      for (size_t i = 0; filled && i < arenas.back().size() / sizeof(float); ++i)
        numbers[i] = static_cast<float>(1000 * (rank + 1) + i);
    }
  }

  /// Writes all ranks' files, with a manifest; of copies, the ranks' memory is overwritten before.
  void write(const std::string &folder, bool copied = false) {
    std::vector<std::vector<std::byte>> copies;
    std::filesystem::create_directory(folder);
    Manifest manifest = goodManifest();
    manifest.ranks = tiny.tables().world_size;
    manifest.files.clear();
    for (unsigned rank = 0; rank < arenas.size(); ++rank) {
      RankMemory memory = memoryOf(rank);
      CheckpointWriter writer(plan, rank, 7, memory, folder);
      if (copied) { // and then the state changes
        copies.emplace_back(writer.copyBytes());
        memory.staging = copies.back();
        ASSERT_TRUE(writer.copyState().ok());
        std::ranges::fill(arenas[rank], std::byte(0x55));
      }
      for (bool done = false; !done;) {
        Result<bool> written = writer.write(64);
        ASSERT_TRUE(written.ok()) << written.status().message();
        done = *written;
      }
      manifest.files.insert(manifest.files.end(), writer.files().begin(), writer.files().end());
    }
    std::ofstream(folder + "/checkpoint.json") << formatManifest(manifest);
  }

  Status load(const CheckpointReader &reader) {
    for (unsigned rank = 0; rank < arenas.size(); ++rank) {
      auto copies = reader.copiesFor(plan, rank);
      if (!copies.ok())
        return copies.status();
      RankMemory memory = memoryOf(rank);
      CheckpointLoader loader(reader, *copies, memory);
      for (bool done = false; !done;) {
        Result<bool> loaded = loader.read(64);
        if (!loaded.ok())
          return loaded.status();
        done = *loaded;
      }
    }
    return {};
  }

  /// What the ranks hold, by tensor: elements of the whole tensor.
  std::map<std::string, std::vector<float>> state() {
    std::map<std::string, std::vector<float>> result;
    for (unsigned rank = 0; rank < arenas.size(); ++rank)
      for (const StateRange &range : stateOf(plan, rank)) {
        int64_t elements = 1;
        for (int64_t size : range.shape)
          elements *= size;
        std::vector<float> &whole =
            result[range.ownOfRank ? bufferNameOfRank(range.name, rank, range.isTransient)
                                   : range.name];
        whole.resize(static_cast<size_t>(elements));
        const std::vector<float> numbers = heldBy(arenas[rank].data(), range);
        const float *held = numbers.data();
        Rectangle all{std::vector<int64_t>(range.shape.size(), 0), range.shape};
        for (const Rectangle &part : range.parts) {
          forEachRun(part, all, [&](const ElementRun &run) {
            std::copy_n(held + run.own, run.count, whole.data() + run.part);
          });
          held += part.elements();
        }
      }
    return result;
  }

  TinyPlan tiny;
  PlanView plan;

private:
  static std::vector<float> heldBy(const std::byte *arena, const StateRange &range) {
    at::Tensor held = at::from_blob(const_cast<std::byte *>(arena) + range.offset, {range.count()},
                                    static_cast<at::ScalarType>(range.dtype))
                          .to(at::kFloat);
    return {held.const_data_ptr<float>(), held.const_data_ptr<float>() + held.numel()};
  }
  RankMemory memoryOf(unsigned rank) { return {*stream, arenas[rank].data(), nullptr, staging}; }

  std::unique_ptr<Stream> stream;
  std::vector<std::byte> staging;
  std::vector<std::vector<std::byte>> arenas;
};

/// The error that opening, verifying, checking and loading a folder gives on 2 flat ranks.
std::string refusal(const std::string &folder) {
  auto reader = CheckpointReader::open(folder);
  if (!reader.ok())
    return reader.status().message();
  std::vector<std::byte> staging(100);
  for (size_t share = 0; share < 2; ++share) {
    CheckpointVerifier verifier(*reader, share, 2, staging);
    for (bool done = false; !done;) {
      Result<bool> verified = verifier.read(50);
      if (!verified.ok())
        return verified.status().message();
      done = *verified;
    }
  }
  TinyRanks ranks(2, Layout::Flat, false);
  if (Status status = reader->checkNames(ranks.plan); !status.ok())
    return status.message();
  return ranks.load(*reader).message();
}

void expectRefused(const std::string &folder, const std::vector<std::string> &words) {
  const std::string message = refusal(folder);
  for (const std::string &word : words)
    EXPECT_NE(message.find(word), std::string::npos) << message << "\nlacks " << word;
}

const char *const kFirst = "/shard-00001-model-00001-of-00001.safetensors";

/// A file of zeros as torch's HuggingFaceStorageWriter writes it, of names and shapes.
std::string torchFile(const std::vector<std::pair<std::string, std::string>> &tensors) {
  nlohmann::json header = nlohmann::json::object(), sharding = nlohmann::json::object();
  std::string data;
  for (const auto &[name, shape] : tensors) {
    auto sizes = nlohmann::json::parse(shape);
    size_t elements = 1;
    for (const auto &size : sizes)
      elements *= size.get<size_t>();
    std::vector<float> values(elements);
    header[name] = {{"dtype", "F32"},
                    {"shape", sizes},
                    {"data_offsets", {data.size(), data.size() + values.size() * sizeof(float)}}};
    sharding[name] = {{"saved_offsets", std::vector<int64_t>(sizes.size(), 0)}};
    data += rawBytes(values);
  }
  header["__metadata__"] = {{"DCP_SHARDING_INFO", sharding.dump()}};
  return safetensorsBytes(header.dump(), data);
}

std::vector<std::pair<std::string, std::string>> torchTensors() {
  std::vector<std::pair<std::string, std::string>> tensors{{"model.count", "[]"}};
  for (const auto &[name, shape] :
       {std::pair<std::string, std::string>{"l.w", "[5,3]"}, {"l.b", "[3]"}, {"scale", "[3]"}}) {
    tensors.emplace_back("model." + name, shape);
    for (const char *state : {"exp_avg", "exp_avg_sq"})
      tensors.emplace_back("optimizer.state." + name + "." + state, shape);
    tensors.emplace_back("optimizer.state." + name + ".step", "[]");
  }
  return tensors;
}

} // namespace

// The files of a checkpoint that is written from a copy of the state have the bytes of the state at
// the time of the copy.
TEST(Checkpoint, OfACopyIsThatOfTheState) {
  for (Layout layout : {Layout::Flat, Layout::PerParam}) {
    Folder folder;
    TinyRanks(3, layout, true).write(folder.path("state"));
    TinyRanks(3, layout, true).write(folder.path("copy"), true);
    size_t files = 0;
    for (const auto &file : std::filesystem::directory_iterator(folder.path("state"))) {
      EXPECT_EQ(readFile(file.path()),
                readFile(folder.path("copy/" + file.path().filename().string())));
      ++files;
    }
    EXPECT_EQ(files, 4u); // one of each of three ranks, and the manifest
  }
}

// Any number of ranks in any layout reads, bit for bit, what any other number in any layout has
// written.
TEST(Checkpoint, IsReadByEveryLayout) {
  const std::tuple<unsigned, Layout, bool> kinds[] = {
      {1, Layout::Flat, false}, {2, Layout::Flat, false},     {2, Layout::PerParam, false},
      {3, Layout::Flat, false}, {4, Layout::PerParam, false}, {3, Layout::PerParam, true}};
  for (auto [ranks, layout, cutsColumns] : kinds) {
    Folder folder;
    TinyRanks writer(ranks, layout, true, cutsColumns);
    writer.write(folder.path("c"));
    auto reader = CheckpointReader::open(folder.path("c"));
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(*reader->step(writer.plan), 7);
    for (auto [otherRanks, otherLayout, otherColumns] : kinds) {
      TinyRanks other(otherRanks, otherLayout, false, otherColumns);
      EXPECT_TRUE(reader->checkNames(other.plan).ok());
      Status status = other.load(*reader);
      ASSERT_TRUE(status.ok()) << status.message();
      auto expected = writer.state(), found = other.state();
      for (const auto &[name, values] : expected)
        EXPECT_TRUE(name.starts_with("fsdpc.") || found.contains(name)) << name;
      ASSERT_TRUE(found.contains("l.w") && found.contains("count"));
      if (ranks != otherRanks) // each rank begins with rank 0's buffers
        for (auto &[name, values] : found)
          if (name.starts_with("fsdpc."))
            values = found["count"], expected[name] = expected["count"];
      for (const auto &[name, values] : found)
        EXPECT_EQ(values, expected[name]) << name;
    }
  }
}

// Optimizer state is rounded or widened to the dtype in which the plan keeps it.
TEST(Checkpoint, OptimizerStateIsCast) {
  for (Layout layout : {Layout::Flat, Layout::PerParam}) {
    Folder folder;
    const std::string first = folder.path("first"), second = folder.path("second");
    TinyRanks written(2, layout, true), narrow(2, layout, false), wide(2, layout, false);
    narrow.tiny.keepStateIn(FSDP_BF16);
    written.write(first);
    auto reader = CheckpointReader::open(first);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(reader->describeDifferences(written.plan), std::vector<std::string>());
    EXPECT_EQ(
        reader->describeDifferences(narrow.plan),
        (std::vector<std::string>{
            "optimizer state exp_avg is F32 in the checkpoint and BF16 here: it is cast, of 3 "
            "parameters",
            "optimizer state exp_avg_sq is F32 in the checkpoint and BF16 here: it is cast, of 3 "
            "parameters"}));
    Status loaded = narrow.load(*reader);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    std::map<std::string, std::vector<float>> expected = written.state();
    for (auto &[name, values] : expected)
      for (float &value : values)
        if (name.starts_with("optim."))
          value = c10::BFloat16(value);
    EXPECT_NE(expected, written.state());
    EXPECT_EQ(narrow.state(), expected);

    narrow.write(second);
    reader = CheckpointReader::open(second);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    loaded = wide.load(*reader);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    EXPECT_EQ(wide.state(), expected);
  }
}

TEST(Checkpoint, DamageIsFoundAndNamed) {
  Folder folder;
  const std::string good = folder.path("good"), bad = folder.path("bad");
  TinyRanks(2, Layout::Flat, true).write(good);
  EXPECT_EQ(refusal(good), "");
  auto broken = [&](const std::function<void()> &breakIt, const std::vector<std::string> &words) {
    std::filesystem::remove_all(bad);
    std::filesystem::copy(good, bad);
    breakIt();
    expectRefused(bad, words);
  };
  auto edit = [&](const std::string &path, const std::function<void(std::string &)> &change) {
    std::string bytes = readFile(path);
    change(bytes);
    std::ofstream(path, std::ios::binary) << bytes;
  };
  const std::string file = bad + kFirst, manifest = bad + "/checkpoint.json";
  broken([&] { edit(file, [](std::string &bytes) { bytes.back() ^= 1; }); },
         {file, "is damaged", "CRC-32C", "checkpoint.json"});
  broken([&] { edit(file, [](std::string &bytes) { bytes.resize(bytes.size() - 4); }); },
         {file, "truncated"});
  broken([&] { edit(file, [](std::string &bytes) { bytes[0] ^= 64; }); },
         {file, "the tensors take", "but the file holds"});
  broken([&] { edit(file, [](std::string &bytes) { bytes[8] ^= 64; }); },
         {file, "the header is not a JSON object"});
  broken([&] { std::filesystem::remove(file); }, {file, "No such file"});
  broken([&] { std::filesystem::remove(manifest); },
         {"is part of a checkpoint that is not complete", "checkpoint.json"});
  broken([&] { edit(manifest, [](std::string &text) { text.resize(text.size() / 2); }); },
         {manifest, "cannot be read"});
  broken([&] { std::filesystem::copy(file, bad + "/other.safetensors"); },
         {bad + "/other.safetensors", "foreign"});
  // Files of another checkpoint with the same names and sizes.
  TinyRanks(2, Layout::PerParam, false).write(folder.path("else"));
  broken(
      [&] {
        std::filesystem::copy_file(folder.path("else") + kFirst, file,
                                   std::filesystem::copy_options::overwrite_existing);
      },
      {file, "is damaged"});
  std::filesystem::remove_all(bad);
  expectRefused(bad, {"cannot read folder '" + bad + "'", "No such file"});
  std::filesystem::create_directory(bad);
  expectRefused(bad, {"is no checkpoint"});
}

// Checkpoints of torch have no manifest, and other prefixes; the number of the step is in the
// optimizer's state.
TEST(Checkpoint, OfTorch) {
  Folder folder;
  auto good = torchTensors();
  auto write = [&](const std::vector<std::pair<std::string, std::string>> &tensors) {
    std::filesystem::remove_all(folder.path("c"));
    std::filesystem::create_directory(folder.path("c"));
    folder.write("c/shard-00001-model-00001-of-00001.safetensors", torchFile(tensors));
  };
  write(good);
  EXPECT_EQ(refusal(folder.path("c")), "");
  TinyRanks ranks(2, Layout::Flat, false);
  EXPECT_EQ(*CheckpointReader::open(folder.path("c"))->step(ranks.plan), 0);
  for (size_t i = 0; i < good.size(); ++i) {
    auto without = good, reshaped = good;
    without.erase(without.begin() + static_cast<int64_t>(i));
    write(without);
    std::string name = good[i].first;
    if (name.ends_with(".step")) { // which only the step's number needs
      EXPECT_NE(CheckpointReader::open(folder.path("c"))
                    ->step(ranks.plan)
                    .status()
                    .message()
                    .find("lacks 'optim." + name.substr(name.find("state."))),
                std::string::npos);
      continue;
    }
    name = name.substr(name.find('.') + 1);
    expectRefused(folder.path("c"), {"lacks", name});
    reshaped[i].second = "[9,2]";
    write(reshaped);
    expectRefused(folder.path("c"), {name, "F32[9,2]", "the model has"});
  }
  auto more = good;
  more.emplace_back("model.other", "[2]");
  write(more);
  expectRefused(folder.path("c"), {"holds 'model.other' (F32[2])", "does not have"});
  // Two files hold the same tensor, each as a whole: the elements are ambiguous.
  write(good);
  folder.write("c/two.safetensors", torchFile({{"model.l.w", "[5,3]"}}));
  expectRefused(folder.path("c"), {"holds twice elements 0 to 14 of 'l.w'"});
}

TEST(CheckpointFolder, ListsWhatIsCompleteAndRemovesTheRest) {
  Folder folder;
  const std::string run = folder.path("run");
  EXPECT_TRUE(listCheckpoints(run)->empty());
  auto save = [&](int64_t step) {
    Status begun = beginCheckpoint(run, step);
    ASSERT_TRUE(begun.ok()) << begun.message();
    EXPECT_TRUE(std::filesystem::is_directory(partialPath(run, step)));
    Result<std::string> path = commitCheckpoint(run, step, formatManifest(goodManifest()));
    ASSERT_TRUE(path.ok()) << path.status().message();
    EXPECT_EQ(*path, run + "/" + checkpointName(step));
  };
  save(10);
  save(1'000'000'000'000); // more digits than names usually have
  save(9);
  // Folders that killed runs leave, and folders that are no checkpoints.
  std::filesystem::create_directory(partialPath(run, 11));
  std::filesystem::create_directory(run + "/step-000000012");
  std::filesystem::create_directory(run + "/step-13");
  std::filesystem::create_directory(run + "/mine.partial");
  std::vector<std::pair<int64_t, bool>> found;
  Result<std::vector<CheckpointEntry>> listed = listCheckpoints(run);
  for (const CheckpointEntry &entry : *listed)
    found.emplace_back(entry.step, entry.complete);
  EXPECT_EQ(found, (std::vector<std::pair<int64_t, bool>>{
                       {9, true}, {10, true}, {12, false}, {1'000'000'000'000, true}}));
  ASSERT_TRUE(removeOldCheckpoints(run, 1, 9).ok());
  EXPECT_TRUE(std::filesystem::exists(run + "/step-000000009"));
  EXPECT_FALSE(std::filesystem::exists(run + "/step-000000010"));
  save(10);
  ASSERT_TRUE(removeOldCheckpoints(run, 2).ok());
  EXPECT_FALSE(std::filesystem::exists(run + "/step-000000009"));
  EXPECT_TRUE(std::filesystem::exists(run + "/step-000000010"));
  EXPECT_TRUE(beginCheckpoint(run, 14).ok());
  EXPECT_FALSE(std::filesystem::exists(partialPath(run, 11)));
  EXPECT_TRUE(std::filesystem::exists(run + "/mine.partial"));
  EXPECT_TRUE(std::filesystem::exists(run + "/step-000000012"));
  // A checkpoint that exists is not replaced.
  EXPECT_TRUE(commitCheckpoint(run, 14, "{}").ok());
  EXPECT_TRUE(beginCheckpoint(run, 14).ok());
  EXPECT_NE(commitCheckpoint(run, 14, "{}").status().message().find("step-000000014"),
            std::string::npos);
}
