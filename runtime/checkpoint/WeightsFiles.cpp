//===- WeightsFiles.cpp - Full weights in one file or several -------------===//

#include "checkpoint/WeightsFiles.h"

#include <nlohmann/json.hpp>
#include <set>

using namespace fsdp::rt;

Status WeightsFiles::add(const std::string &path) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok())
    return file.status();
  files.push_back(std::make_unique<SafetensorsFile>(std::move(*file)));
  for (const auto &[name, tensor] : files.back()->tensors())
    if (auto [place, isNew] = found.emplace(name, Found{files.back().get(), &tensor}); !isNew)
      return Status::error("'" + place->second.file->path() + "' and '" + path + "' both hold '" +
                           name + "'");
  return {};
}

/// Reads an index: for each tensor, its file.
static Result<std::map<std::string, std::string>> readIndex(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  const auto bytes = file->bytes();
  std::string text(bytes.size(), '\0');
  if (Status status = file->read(bytes, reinterpret_cast<std::byte *>(text.data())); !status.ok())
    return status;
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  auto places = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || places == json.end() || !places->is_object() || places->empty())
    return Status::error("'" + path + "' is no index: 'weight_map' is missing or not an object");
  std::map<std::string, std::string> index;
  for (const auto &[name, place] : places->items()) {
    const std::string target = place.is_string() ? place.get<std::string>() : "";
    // A name with a folder could make the run read files elsewhere.
    if (target.find('/') != std::string::npos || !target.ends_with(".safetensors"))
      return Status::error("'" + path + "': '" + name + "' is in " + place.dump() +
                           ", expected the name of a safetensors file in its folder");
    index.emplace(name, target);
  }
  return index;
}

Result<WeightsFiles> WeightsFiles::open(const std::string &path) {
  WeightsFiles weights;
  weights.openedPath = path;
  if (!path.ends_with(kWeightsIndexEnd)) {
    Status status = weights.add(path);
    return status.ok() ? Result<WeightsFiles>(std::move(weights)) : status;
  }
  auto index = readIndex(path);
  if (!index.ok())
    return index.status();
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  std::set<std::string> names;
  for (const auto &[name, file] : *index)
    names.insert(file);
  for (const std::string &name : names)
    if (Status status = weights.add(folder + name); !status.ok())
      return status;
  for (const auto &[name, file] : *index)
    if (const Found *tensor = weights.find(name); !tensor || tensor->file->path() != folder + file)
      return Status::error("'" + path + "' says that '" + folder + file + "' holds '" + name +
                           "', which it does not");
  for (const auto &[name, tensor] : weights.tensors())
    if (!index->contains(name))
      return Status::error("'" + tensor.file->path() + "' holds '" + name + "', which '" + path +
                           "' does not name");
  return weights;
}

std::vector<std::string> WeightsFiles::filePaths() const {
  std::vector<std::string> paths;
  for (const auto &file : files)
    paths.push_back(file->path());
  return paths;
}

const WeightsFiles::Found *WeightsFiles::find(std::string_view name) const {
  auto place = found.find(name);
  return place == found.end() ? nullptr : &place->second;
}
