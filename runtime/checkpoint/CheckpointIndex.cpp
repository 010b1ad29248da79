//===- CheckpointIndex.cpp - Reads the headers of a checkpoint's files ----===//

#include "checkpoint/CheckpointReader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

using namespace fsdp::rt;
using nlohmann::json;
namespace fs = std::filesystem;

Status CheckpointReader::openManifest() {
  const std::string path = folder + "/" + kManifestName;
  if (::access(path.c_str(), F_OK) != 0)
    return errno == ENOENT ? Status()
                           : Status::error("cannot read '" + path + "': " + std::strerror(errno));
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  std::string text(file->bytes().size(), '\0');
  if (Status status = file->read(file->bytes(), reinterpret_cast<std::byte *>(text.data()));
      !status.ok())
    return status;
  Result<Manifest> parsed = parseManifest(text);
  if (!parsed.ok())
    return Status::error("'" + path + "' cannot be read: " + parsed.status().message());
  ownManifest = std::move(*parsed);
  files = ownManifest->files;
  return {};
}

/// Finds the checkpoint's files. Without a manifest these are all files in the folder; with one,
/// other files are an error.
Status CheckpointReader::findFiles() {
  std::set<std::string> known, found;
  for (const ManifestFile &file : files)
    known.insert(file.name);
  std::error_code error;
  for (fs::directory_iterator entries(folder, error); !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    std::string name = entries->path().filename().string();
    if (name.ends_with(".safetensors"))
      found.insert(std::move(name));
  }
  if (error)
    return Status::error("cannot read folder '" + folder + "': " + error.message());
  if (ownManifest) {
    for (const std::string &name : found)
      if (!known.contains(name))
        return Status::error("'" + folder + "/" + name + "' is foreign: '" + kManifestName +
                             "' beside it does not list it");
    return {};
  }
  if (found.empty())
    return Status::error("'" + folder + "' is no checkpoint: it holds neither '" + kManifestName +
                         "' nor a safetensors file");
  for (const std::string &name : found)
    files.push_back({name});
  return {};
}

/// A tensor's "saved_offsets", one per dimension of the part; nothing if the part's end overflows
/// 64 bits.
static std::optional<std::vector<int64_t>> offsetsOf(const json &sharding, const std::string &name,
                                                     std::span<const int64_t> shape) {
  auto entry = sharding.find(name);
  if (entry == sharding.end() || !entry->is_object())
    return std::nullopt;
  auto list = entry->find("saved_offsets");
  if (list == entry->end() || !list->is_array() || list->size() != shape.size())
    return std::nullopt;
  std::vector<int64_t> offsets;
  for (const json &offset : *list) {
    int64_t end = 0;
    if (!offset.is_number_unsigned() ||
        __builtin_add_overflow(offset.get<uint64_t>(), shape[offsets.size()], &end))
      return std::nullopt;
    offsets.push_back(offset.get<int64_t>());
  }
  return offsets;
}

Status CheckpointReader::addFile(size_t index) {
  Result<SafetensorsFile> file = SafetensorsFile::open(filePath(index));
  if (!file.ok())
    return file.status();
  auto damaged = [&](const std::string &why) {
    return Status::error("'" + filePath(index) + "' " + why);
  };
  if (ownManifest && file->sizeBytes() != files[index].bytes)
    return damaged("is damaged: it has " + std::to_string(file->sizeBytes()) + " bytes, '" +
                   kManifestName + "' says " + std::to_string(files[index].bytes));
  if (!ownManifest && file->metadata(kWriterKey))
    return damaged("is part of a checkpoint that is not complete: there is no '" +
                   std::string(kManifestName) + "' beside it");
  files[index].bytes = file->sizeBytes();
  json sharding;
  const std::string *text = file->metadata(kShardingKey);
  if (text) {
    sharding = json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!sharding.is_object())
      return damaged(std::string("cannot be read: its ") + kShardingKey + " is no JSON object");
  }
  for (const auto &[name, stored] : file->tensors()) {
    std::optional<std::vector<int64_t>> offsets(stored.shape.size());
    if (text)
      offsets = offsetsOf(sharding, name, stored.shape);
    if (!offsets)
      return damaged(std::string("cannot be read: its ") + kShardingKey +
                     " has no offsets of tensor '" + name + "'");
    if (Status status =
            addChunk(index, name, stored, file->positionOf(stored), std::move(*offsets));
        !status.ok())
      return status;
  }
  return {};
}

Status CheckpointReader::addChunk(size_t file, const std::string &name, const StoredTensor &stored,
                                  uint64_t position, std::vector<int64_t> offsets) {
  auto [entry, isNew] = tensors.try_emplace(name);
  Tensor &tensor = entry->second;
  if (isNew) {
    tensor.dtypeName = stored.dtypeName;
    tensor.dtype = stored.dtype;
    tensor.shape.resize(stored.shape.size(), 0);
  } else if (tensor.dtypeName != stored.dtypeName || tensor.shape.size() != stored.shape.size()) {
    return Status::error("'" + filePath(file) + "' has a part " +
                         describeStored(stored.dtypeName, stored.shape) + " of '" + name +
                         "', and '" + filePath(tensor.chunks[0].file) + "' a part " +
                         describeStored(tensor.dtypeName, tensor.chunks[0].part.sizes));
  }
  int64_t elements = 1;
  bool fits = true;
  for (size_t i = 0; i < offsets.size(); ++i) {
    tensor.shape[i] = std::max(tensor.shape[i], offsets[i] + stored.shape[i]);
    fits =
        fits && !__builtin_mul_overflow(elements, std::max<int64_t>(tensor.shape[i], 1), &elements);
  }
  if (!fits)
    return Status::error("'" + filePath(file) + "': by its part '" + name +
                         "' has more elements (" + describeStored(stored.dtypeName, tensor.shape) +
                         ") than can be counted");
  tensor.chunks.push_back({file, position, {std::move(offsets), stored.shape}});
  return {};
}

Result<CheckpointReader> CheckpointReader::open(const std::string &folder) {
  CheckpointReader reader;
  reader.folder = folder;
  if (Status status = reader.openManifest(); !status.ok())
    return status;
  if (Status status = reader.findFiles(); !status.ok())
    return status;
  for (size_t i = 0; i < reader.files.size(); ++i)
    if (Status status = reader.addFile(i); !status.ok())
      return status;
  return reader;
}
