//===- SafetensorsReader.cpp - Named tensors of a file --------------------===//

#include "checkpoint/SafetensorsReader.h"

#include "fsdp/Plan/DTypes.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

using namespace fsdp::rt;
using nlohmann::json;

namespace {

// The reference implementation refuses longer headers, too.
constexpr uint64_t kMaximumHeaderBytes = 100'000'000;
// {"tensor": {"shape": [..]}} is the deepest nesting in a valid header.
constexpr int kMaximumDepth = 3;

/// Types of files that plans do not have.
struct OtherType {
  std::string_view name;
  int64_t bytes; // of one element
};

constexpr OtherType kOtherTypes[] = {{"U16", 2}, {"U32", 4}, {"U64", 8}};

struct Placed {
  uint64_t begin, end;
  const std::string *name;
};

} // namespace

const char *fsdp::rt::safetensorsName(uint32_t dtype) {
  const fsdp::plan::DTypeFacts *facts = fsdp::plan::findDType(dtype);
  return facts && facts->inFiles ? facts->inFiles : "?";
}

/// Sets the tensor's dtype, if plans have it; returns the bytes of one element, 0 if the name is
/// unknown.
static int64_t findType(StoredTensor &tensor) {
  for (const fsdp::plan::DTypeFacts &facts : fsdp::plan::kDTypes)
    if (facts.inFiles && tensor.dtypeName == facts.inFiles) {
      tensor.dtype = facts.dtype;
      return static_cast<int64_t>(facts.bytes);
    }
  for (const OtherType &other : kOtherTypes)
    if (tensor.dtypeName == other.name)
      return other.bytes;
  return 0;
}

std::string fsdp::rt::describeStored(const std::string &dtypeName, std::span<const int64_t> shape) {
  std::string text = dtypeName + "[";
  const char *separator = "";
  for (int64_t size : shape) {
    text += separator;
    text += std::to_string(size);
    separator = ",";
  }
  return text + "]";
}

/// The header as JSON, without duplicate keys: with them, two readers could see different tensors.
static Result<json> parseHeader(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  auto callback = [&](int depth, json::parse_event_t event, json &parsed) {
    if (!problem.empty())
      return false;
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= kMaximumDepth)
        problem = "the header is nested too deeply";
      keys.resize(static_cast<size_t>(depth) + 1);
      keys.back().clear();
    } else if (event == json::parse_event_t::key) {
      auto name = parsed.get<std::string>();
      if (!keys[static_cast<size_t>(depth) - 1].insert(name).second)
        problem = "the header names '" + name + "' twice";
    }
    return problem.empty();
  };
  json header = json::parse(text.begin(), text.end(), callback, /*allow_exceptions=*/false);
  if (!problem.empty())
    return Status::error(problem);
  if (header.is_discarded() || !header.is_object())
    return Status::error("the header is not a JSON object");
  return header;
}

static std::optional<uint64_t> asUnsigned(const json &value) {
  if (!value.is_number_unsigned())
    return std::nullopt;
  return value.get<uint64_t>();
}

/// Parses one entry. `begin` and `end` receive its position in the data.
static Result<StoredTensor> parseEntry(const json &entry, uint64_t &begin, uint64_t &end) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    return Status::error("its entry lacks dtype, shape or data_offsets");
  const json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return Status::error("its dtype, shape or data_offsets is malformed");

  StoredTensor tensor;
  tensor.dtypeName = dtype.get<std::string>();
  int64_t bytes = findType(tensor);
  if (bytes == 0)
    return Status::error("unknown dtype '" + tensor.dtypeName + "'");

  // A dimension of size 0 may occur with sizes whose product overflows; counts as the reference
  // implementation does.
  for (const json &size : shape) {
    std::optional<uint64_t> value = asUnsigned(size);
    if (!value || *value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(bytes, static_cast<int64_t>(*value), &bytes))
      return Status::error("its shape is not a list of sizes that fit 64 bits");
    tensor.shape.push_back(static_cast<int64_t>(*value));
  }
  std::optional<uint64_t> first = asUnsigned(offsets[0]), last = asUnsigned(offsets[1]);
  if (!first || !last || *last < *first)
    return Status::error("its data_offsets are not an ascending pair");
  if (*last - *first != static_cast<uint64_t>(bytes))
    return Status::error(describeStored(tensor.dtypeName, tensor.shape) + " takes " +
                         std::to_string(bytes) + " bytes, but its data_offsets span " +
                         std::to_string(*last - *first));
  begin = *first;
  end = *last;
  return tensor;
}

/// Checks that tensors fill the data one after another, as the format demands.
static Status checkPlaces(std::vector<Placed> &places, uint64_t dataBytes) {
  std::sort(places.begin(), places.end(), [](const Placed &a, const Placed &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t position = 0;
  for (const Placed &place : places) {
    if (place.begin != position)
      return Status::error(
          "tensor '" + *place.name + "' begins at byte " + std::to_string(place.begin) +
          " of the data, expected " + std::to_string(position) +
          (place.begin < position ? ": it overlaps another" : ": there is a hole"));
    position = place.end;
  }
  if (position != dataBytes)
    return Status::error("the tensors take " + std::to_string(position) +
                         " bytes, but the file holds " + std::to_string(dataBytes) +
                         (position > dataBytes ? ": it is truncated" : ""));
  return {};
}

Result<StoredTensors> fsdp::rt::parseSafetensors(std::span<const std::byte> file,
                                                 StoredMetadata *metadata) {
  constexpr size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes)
    return Status::error("a safetensors file has at least 8 bytes, this one has " +
                         std::to_string(file.size()));
  uint64_t headerBytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    headerBytes |= static_cast<uint64_t>(file[i]) << (8 * i);
  uint64_t available = file.size() - kLengthBytes;
  if (headerBytes > kMaximumHeaderBytes || headerBytes > available)
    return Status::error("its header should take " + std::to_string(headerBytes) +
                         " bytes, but the file has " + std::to_string(available) +
                         " after the length: it is truncated or not a safetensors file");
  std::string_view text(reinterpret_cast<const char *>(file.data()) + kLengthBytes, headerBytes);
  Result<json> header = parseHeader(text);
  if (!header.ok())
    return header.status();

  std::span<const std::byte> data = file.subspan(kLengthBytes + headerBytes);
  StoredTensors tensors;
  std::vector<Placed> places;
  for (const auto &[name, entry] : header->items()) {
    if (name == "__metadata__") {
      if (!entry.is_object() || !std::all_of(entry.begin(), entry.end(),
                                             [](const json &value) { return value.is_string(); }))
        return Status::error("__metadata__ is not a map from strings to strings");
      if (metadata)
        for (const auto &[key, value] : entry.items())
          metadata->emplace(key, value.get<std::string>());
      continue;
    }
    Placed place{};
    Result<StoredTensor> tensor = parseEntry(entry, place.begin, place.end);
    if (!tensor.ok())
      return Status::error("tensor '" + name + "': " + tensor.status().message());
    auto [position, inserted] = tensors.emplace(name, std::move(*tensor));
    place.name = &position->first;
    places.push_back(place);
  }
  if (Status status = checkPlaces(places, data.size()); !status.ok())
    return status;
  for (const Placed &place : places)
    tensors.find(*place.name)->second.bytes = data.subspan(place.begin, place.end - place.begin);
  return tensors;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok())
    return mapped.status();
  SafetensorsFile result;
  result.file = std::move(*mapped);
  result.filePath = path;
  Result<StoredTensors> tensors = parseSafetensors(result.file.bytes(), &result.keys);
  if (!tensors.ok())
    return Status::error("'" + path + "' cannot be read: " + tensors.status().message());
  result.stored = std::move(*tensors);
  return result;
}

const StoredTensor *SafetensorsFile::find(std::string_view name) const {
  auto position = stored.find(name);
  return position == stored.end() ? nullptr : &position->second;
}

const std::string *SafetensorsFile::metadata(std::string_view key) const {
  auto position = keys.find(key);
  return position == keys.end() ? nullptr : &position->second;
}
