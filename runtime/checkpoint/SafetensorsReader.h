//===- SafetensorsReader.h - Named tensors of a file -------------*- C++ -*-===//
//
// The format (https://huggingface.co/docs/safetensors): an 8-byte little-endian header length, a
// JSON object {"name": {"dtype", "shape", "data_offsets": [begin, end)}, "__metadata__": {...}},
// then the tensors' bytes, row-major and without holes. The file is not trusted: reading it gives
// either an error or tensors that are within the file and whose sizes agree with their shapes.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_SAFETENSORSREADER_H
#define FSDP_RUNTIME_SAFETENSORSREADER_H

#include "checkpoint/MappedFile.h"
#include "fsdp/Plan/Abi.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace fsdp::rt {

struct StoredTensor {
  std::string dtypeName;           // as the file says: "F32"
  std::optional<fsdp_dtype> dtype; // absent for types that plans do not have, such as "F8_E4M3"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes; // in the file; not aligned; see MappedFile
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;
/// The entries of a file's "__metadata__".
using StoredMetadata = std::map<std::string, std::string, std::less<>>;

/// Parses a whole file's bytes; the tensors refer to them. Errors name the tensor and both values.
/// The file's metadata go to `metadata` if that is not null.
Result<StoredTensors> parseSafetensors(std::span<const std::byte> file,
                                       StoredMetadata *metadata = nullptr);

/// The name of a plan's element type in such files ("BF16"); "?" if it has none.
const char *safetensorsName(uint32_t dtype);

/// "F32[4,8]", for messages.
std::string describeStored(const std::string &dtypeName, std::span<const int64_t> shape);

/// A mapped safetensors file. Move-only.
class SafetensorsFile {
public:
  /// Errors name the path.
  static Result<SafetensorsFile> open(const std::string &path);

  const StoredTensors &tensors() const { return stored; }
  /// The tensor of that name, or null.
  const StoredTensor *find(std::string_view name) const;
  const std::string &path() const { return filePath; }
  /// The value of a key of the file's metadata, or null.
  const std::string *metadata(std::string_view key) const;
  size_t sizeBytes() const { return file.bytes().size(); }
  /// Where a tensor's bytes begin in the file.
  size_t positionOf(const StoredTensor &tensor) const {
    return static_cast<size_t>(tensor.bytes.data() - file.bytes().data());
  }
  /// Copies `part` of a tensor's bytes to `to`.
  Status read(std::span<const std::byte> part, std::byte *to) const { return file.read(part, to); }

private:
  MappedFile file;
  StoredTensors stored;
  StoredMetadata keys;
  std::string filePath;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SAFETENSORSREADER_H
