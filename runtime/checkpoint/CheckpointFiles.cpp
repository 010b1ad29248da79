//===- CheckpointFiles.cpp - Files that a rank writes ---------------------===//

#include "checkpoint/CheckpointFiles.h"
#include "DType.h"
#include "checkpoint/AppendedFile.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

using namespace fsdp::rt;

namespace {
/// Distributes the tensors of a shard over its replicas: each goes to the replica with the fewest
/// bytes so far. Groups with equally many shards have the same replicas, and all of these see the
/// same tensors.
class Replicas {
public:
  Replicas(const PlanView &plan, unsigned rank) : worldSize(plan.tables().world_size), rank(rank) {}

  bool isMine(uint32_t shards, int64_t tensorBytes) {
    std::vector<int64_t> &bytes = bytesOf[shards];
    bytes.resize(worldSize / shards);
    auto least = std::ranges::min_element(bytes);
    *least += tensorBytes;
    return static_cast<unsigned>(least - bytes.begin()) == rank / shards;
  }

private:
  const unsigned worldSize, rank;
  // Bytes of each replica, for each number of shards.
  std::map<uint32_t, std::vector<int64_t>> bytesOf;
};

class Files {
public:
  explicit Files(std::vector<StoredFile> &files) : files(files) {}

  /// Adds a range under a name, each of its rectangles to a file of its own.
  void add(const StateRange &range, const std::string &name) {
    const auto elementSize = static_cast<int64_t>(elementBytes(range.dtype));
    std::vector<StoredPart> parts;
    int64_t offset = range.offset;
    for (const Rectangle &rectangle : range.parts) {
      const int64_t bytes = rectangle.elements() * elementSize;
      parts.push_back({name, range.dtype, rectangle,
                       range.onHost ? StoredPart::Source::HostArena : StoredPart::Source::Arena,
                       offset});
      offset += bytes;
    }
    std::ranges::sort(parts, {}, [](const StoredPart &part) {
      return std::pair(-part.part.elements(), part.offset);
    });
    for (size_t i = 0; i < parts.size(); ++i)
      add(i, std::move(parts[i]));
  }
  /// Adds a tensor without elements, which no rank holds.
  void addEmpty(const std::string &name, uint32_t dtype, std::span<const int64_t> shape) {
    Rectangle whole{std::vector<int64_t>(shape.size(), 0), {shape.begin(), shape.end()}};
    add(0, {name, static_cast<fsdp_dtype>(dtype), std::move(whole), StoredPart::Source::Arena, 0});
  }
  void addNumber(const std::string &name, StoredPart::Source source, uint32_t optimizer) {
    add(0, {name, FSDP_F32, {}, source, 0, optimizer});
  }

private:
  void add(size_t file, StoredPart part) {
    if (file == files.size())
      files.emplace_back();
    files[file].push_back(std::move(part));
  }

  std::vector<StoredFile> &files;
};
} // namespace

/// Adds the tensors that rank 0 writes for all ranks.
static void addCommon(const PlanView &plan, Files &files) {
  for (const fsdp_parameter &parameter : plan.parameters()) {
    if (plan.numElements(parameter) == 0)
      for (const std::string &name : namesOf(plan, parameter))
        files.addEmpty(name, parameter.dtype, plan.sizes(parameter));
    if (!isTrained(plan, parameter))
      continue;
    auto addNumber = [&](const char *state, StoredPart::Source source) {
      files.addNumber(optimizerTensorName(plan.string(parameter.name), state), source,
                      parameter.optimizer);
    };
    if (hasStepNumber(plan))
      addNumber("step", StoredPart::Source::StepNumber);
    if (momentumProduct(plan.tables().optimizer, 0))
      addNumber("mu_product", StoredPart::Source::MomentumProduct);
  }
}

/// Adds a buffer, under all its names if it is rank 0's, as in torch's state dicts.
static void addBuffer(const StateRange &range, unsigned rank, Files &files) {
  if (rank > 0) {
    if (range.ownOfRank && range.count() > 0)
      files.add(range, bufferNameOfRank(range.name, rank, range.isTransient));
    return;
  }
  std::vector<std::string> names{bufferNameOfRank(range.name, rank, range.isTransient)};
  names.insert(names.end(), range.aliases.begin(), range.aliases.end());
  for (const std::string &name : names) {
    if (range.count() == 0)
      files.addEmpty(name, range.dtype, range.shape);
    else
      files.add(range, name);
  }
}

std::vector<StoredFile> fsdp::rt::filesOf(const PlanView &plan, unsigned rank) {
  std::vector<StoredFile> result;
  Files files(result);
  Replicas replicas(plan, rank);
  for (const StateRange &range : stateOf(plan, rank)) {
    if (range.kind == StateRange::Kind::Buffer) {
      addBuffer(range, rank, files);
      continue;
    }
    if (replicas.isMine(range.shards, range.bytes()))
      files.add(range, range.name);
    // torch's state dicts hold a shared parameter under all its names, and its optimizer state
    // under the first name.
    if (range.kind == StateRange::Kind::Parameter)
      for (const std::string &alias : range.aliases)
        if (replicas.isMine(range.shards, range.bytes()))
          files.add(range, alias);
  }
  if (rank == 0)
    addCommon(plan, files);
  for (StoredFile &file : result)
    std::ranges::sort(file, {}, [](const StoredPart &part) {
      return std::tuple(-static_cast<int64_t>(elementBytes(part.dtype)),
                        std::string_view(part.name));
    });
  return result;
}

std::string fsdp::rt::checkpointFileName(unsigned rank, size_t index, size_t numFiles) {
  char name[96];
  std::snprintf(name, sizeof(name), "shard-%05u-model-%05zu-of-%05zu.safetensors", rank + 1,
                index + 1, numFiles);
  return name;
}

std::string fsdp::rt::fileHeader(const StoredFile &file) {
  std::vector<TensorToStore> tensors;
  nlohmann::json sharding = nlohmann::json::object();
  for (const StoredPart &part : file) {
    tensors.push_back(part.tensor());
    sharding[part.name] = {{"saved_offsets", part.part.offsets}};
  }
  return safetensorsHeader(tensors,
                           {{kShardingKey, sharding.dump()},
                            {"DCP_VERSION", "1.0"},
                            {"format", "pt"},
                            {kWriterKey, "1"}},
                           AppendedFile::kBlockBytes);
}
