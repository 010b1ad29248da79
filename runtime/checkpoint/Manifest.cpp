//===- Manifest.cpp - The manifest of a checkpoint ------------------------===//

#include "checkpoint/Manifest.h"
#include "checkpoint/Crc32c.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

using namespace fsdp::rt;
using nlohmann::ordered_json;

static constexpr const char *kFormat = "fsdpc checkpoint";
static constexpr uint64_t kVersion = 1;

int64_t fsdp::rt::totalBytes(const std::vector<ManifestFile> &files) {
  int64_t bytes = 0;
  for (const ManifestFile &file : files)
    bytes += static_cast<int64_t>(file.bytes);
  return bytes;
}

/// The last key: the checksum of all keys before it.
static constexpr const char *kChecksum = "crc32c";

static uint32_t checksumOf(const ordered_json &json) {
  const std::string text = json.dump(1);
  return crc32c(0, std::as_bytes(std::span(text)));
}

std::string fsdp::rt::formatManifest(const Manifest &manifest) {
  ordered_json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["model"] = manifest.model;
  json["fingerprint"] = manifest.fingerprint;
  json["optimizer"] = manifest.optimizer;
  json["ranks"] = manifest.ranks;
  json["replicas"] = manifest.replicas;
  json["step"] = manifest.step;
  json["steps"] = manifest.steps;
  json["skipped_steps"] = manifest.skippedSteps;
  json["samples"] = manifest.samples;
  json["samples_in_data"] = manifest.samplesInData;
  if (!manifest.shapes.empty()) {
    ordered_json shapes = ordered_json::array();
    for (const Manifest::Shape &shape : manifest.shapes)
      shapes.push_back(
          {{"samples_per_step", shape.samplesPerStep}, {"samples_in_data", shape.samplesInData}});
    json["shapes"] = std::move(shapes);
  }
  if (manifest.evalSplit != 0)
    json["eval_split"] = {{"fraction", manifest.evalSplit}, {"seed", manifest.evalSplitSeed}};
  json["shuffle"] = manifest.shuffle;
  json["overfit"] = manifest.overfit;
  json["seed"] = manifest.seed;
  json["lr_schedule"] = manifest.schedule;
  json["lr"] = manifest.learningRate;
  json["min_lr"] = manifest.minimumLearningRate;
  json["group_lr"] = manifest.groupLearningRates;
  json["warmup_steps"] = manifest.warmupSteps;
  json["decay_steps"] = manifest.decaySteps;
  json["clip_grad_norm"] = manifest.clipGradNorm;
  json["clip_norm_type"] = manifest.clipNormType;
  if (manifest.clipGradValue != 0)
    json["clip_grad_value"] = manifest.clipGradValue;
  if (manifest.lossScale != 0)
    json["loss_scale"] = {{"scale", manifest.lossScale},
                          {"growth_tracker", manifest.growthTracker}};
  if (manifest.stopOutliers != 0 || manifest.skipOutliers != 0)
    json["guard"] = {{"stop_outliers", manifest.stopOutliers},
                     {"skip_outliers", manifest.skipOutliers},
                     {"losses", manifest.guardLosses},
                     {"grad_norms", manifest.guardNorms}};
  ordered_json files = ordered_json::array();
  for (const ManifestFile &file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32c", file.checksum}});
  json["files"] = std::move(files);
  json[kChecksum] = checksumOf(json);
  return json.dump(1) + "\n";
}

namespace {
/// Reads keys of an object. The error names the first key that is missing or malformed.
class Reader {
public:
  Reader(const ordered_json &json, std::string where) : json(json), where(std::move(where)) {}

  void read(const char *key, std::string &value) {
    if (const ordered_json *item = find(key, "a text", &ordered_json::is_string))
      value = item->get<std::string>();
  }
  void read(const char *key, bool &value) {
    if (const ordered_json *item = find(key, "true or false", &ordered_json::is_boolean))
      value = item->get<bool>();
  }
  void read(const char *key, double &value) {
    if (const ordered_json *item = find(key, "a number", &ordered_json::is_number))
      value = item->get<double>();
  }
  void read(const char *key, std::vector<double> &values) {
    const ordered_json *list = find(key, "a list of numbers", &ordered_json::is_array);
    if (!list)
      return;
    for (const ordered_json &item : *list) {
      if (!item.is_number())
        return fail(key, "a list of numbers");
      values.push_back(item.get<double>());
    }
  }
  /// A whole number from 0 to the largest of its type.
  template <typename T> void readWhole(const char *key, T &value) {
    const ordered_json *item = find(key, "a whole number", &ordered_json::is_number_unsigned);
    if (!item)
      return;
    auto number = item->get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<T>::max()))
      return fail(key, "a number that fits its type");
    value = static_cast<T>(number);
  }
  Status status() const { return problem; }

private:
  const ordered_json *find(const char *key, const char *expected,
                           bool (ordered_json::*is)() const noexcept) {
    auto position = json.find(key);
    if (position != json.end() && ((*position).*is)())
      return &*position;
    fail(key, expected);
    return nullptr;
  }
  void fail(const char *key, const char *expected) {
    if (problem.ok())
      problem = Status::error(where + "'" + key + "' is missing or not " + expected);
  }

  const ordered_json &json;
  std::string where;
  Status problem;
};
} // namespace

static Result<ManifestFile> parseFile(const ordered_json &json, size_t index) {
  std::string where = "of file " + std::to_string(index + 1) + " ";
  if (!json.is_object())
    return Status::error(where + "there is no object");
  Reader reader(json, where);
  ManifestFile file;
  reader.read("name", file.name);
  reader.readWhole("bytes", file.bytes);
  reader.readWhole("crc32c", file.checksum);
  if (!reader.status().ok())
    return reader.status();
  // A name with a folder could make the run read files outside of the checkpoint.
  if (file.name.find('/') != std::string::npos || !file.name.ends_with(".safetensors"))
    return Status::error(where + "the name is '" + file.name +
                         "', expected that of a safetensors file in its folder");
  return file;
}

static Status parseShapes(const ordered_json &json, std::vector<Manifest::Shape> &shapes) {
  auto list = json.find("shapes");
  if (list == json.end())
    return {};
  if (!list->is_array())
    return Status::error("'shapes' is not a list");
  for (const ordered_json &item : *list) {
    std::string where = "of shape " + std::to_string(shapes.size() + 1) + " ";
    if (!item.is_object())
      return Status::error(where + "there is no object");
    Reader reader(item, where);
    Manifest::Shape &shape = shapes.emplace_back();
    reader.readWhole("samples_per_step", shape.samplesPerStep);
    reader.readWhole("samples_in_data", shape.samplesInData);
    if (!reader.status().ok())
      return reader.status();
  }
  return {};
}

/// If there is an object at `key`, `readKeys` reads its keys.
template <typename ReadKeys>
static Status parseObject(const ordered_json &json, const std::string &key, ReadKeys readKeys) {
  auto object = json.find(key);
  if (object == json.end())
    return {};
  if (!object->is_object())
    return Status::error("'" + key + "' is not an object");
  Reader reader(*object, "of '" + key + "' ");
  readKeys(reader);
  return reader.status();
}

static Status parseSplit(const ordered_json &json, Manifest &manifest) {
  return parseObject(json, "eval_split", [&](Reader &reader) {
    reader.read("fraction", manifest.evalSplit);
    reader.readWhole("seed", manifest.evalSplitSeed);
  });
}

static Status parseLossScale(const ordered_json &json, Manifest &manifest) {
  return parseObject(json, "loss_scale", [&](Reader &reader) {
    reader.read("scale", manifest.lossScale);
    reader.readWhole("growth_tracker", manifest.growthTracker);
  });
}

static Status parseGuard(const ordered_json &json, Manifest &manifest) {
  return parseObject(json, "guard", [&](Reader &reader) {
    reader.read("stop_outliers", manifest.stopOutliers);
    reader.read("skip_outliers", manifest.skipOutliers);
    reader.read("losses", manifest.guardLosses);
    reader.read("grad_norms", manifest.guardNorms);
  });
}

Result<Manifest> fsdp::rt::parseManifest(const std::string &text) {
  ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Status::error("it is not a JSON object");
  Reader reader(json, "");
  std::string format;
  uint64_t version = 0;
  reader.read("format", format);
  reader.readWhole("version", version);
  if (!reader.status().ok())
    return reader.status();
  if (format != kFormat || version != kVersion)
    return Status::error("it is '" + format + "' of version " + std::to_string(version) +
                         ", expected '" + kFormat + "' of version " + std::to_string(kVersion));
  Manifest manifest;
  reader.read("model", manifest.model);
  reader.read("fingerprint", manifest.fingerprint);
  reader.read("optimizer", manifest.optimizer);
  reader.readWhole("ranks", manifest.ranks);
  reader.readWhole("replicas", manifest.replicas);
  reader.readWhole("step", manifest.step);
  reader.readWhole("steps", manifest.steps);
  if (json.contains("skipped_steps")) // older checkpoints lack it
    reader.readWhole("skipped_steps", manifest.skippedSteps);
  reader.readWhole("samples", manifest.samples);
  reader.readWhole("samples_in_data", manifest.samplesInData);
  reader.read("shuffle", manifest.shuffle);
  reader.read("overfit", manifest.overfit);
  reader.readWhole("seed", manifest.seed);
  reader.read("lr_schedule", manifest.schedule);
  reader.read("lr", manifest.learningRate);
  reader.read("min_lr", manifest.minimumLearningRate);
  if (json.contains("group_lr")) // the oldest checkpoints lack it
    reader.read("group_lr", manifest.groupLearningRates);
  reader.readWhole("warmup_steps", manifest.warmupSteps);
  reader.readWhole("decay_steps", manifest.decaySteps);
  reader.read("clip_grad_norm", manifest.clipGradNorm);
  reader.read("clip_norm_type", manifest.clipNormType);
  if (json.contains("clip_grad_value"))
    reader.read("clip_grad_value", manifest.clipGradValue);
  if (!reader.status().ok())
    return reader.status();
  if (Status status = parseShapes(json, manifest.shapes); !status.ok())
    return status;
  if (Status status = parseSplit(json, manifest); !status.ok())
    return status;
  if (Status status = parseLossScale(json, manifest); !status.ok())
    return status;
  if (Status status = parseGuard(json, manifest); !status.ok())
    return status;
  auto files = json.find("files");
  if (files == json.end() || !files->is_array() || files->empty())
    return Status::error("'files' is missing or not a list of files");
  std::set<std::string> names;
  for (const ordered_json &item : *files) {
    Result<ManifestFile> file = parseFile(item, manifest.files.size());
    if (!file.ok())
      return file.status();
    if (!names.insert(file->name).second)
      return Status::error("it lists '" + file->name + "' twice");
    manifest.files.push_back(std::move(*file));
  }
  if (json.contains(kChecksum)) { // older checkpoints lack it
    uint32_t checksum = 0;
    reader.readWhole(kChecksum, checksum);
    ordered_json rest = json;
    rest.erase(kChecksum);
    if (!reader.status().ok())
      return reader.status();
    if (checksum != checksumOf(rest))
      return Status::error("it is damaged: its values do not have the checksum (CRC-32C) " +
                           std::to_string(checksum) + " that it says");
  }
  return manifest;
}
