//===- SafetensorsWriter.h - Write named tensors, crash-safe -----*- C++ -*-===//

#ifndef FSDP_RUNTIME_SAFETENSORSWRITER_H
#define FSDP_RUNTIME_SAFETENSORSWRITER_H

#include "Status.h"
#include "fsdp/Files/OutputFile.h"
#include "fsdp/Plan/Abi.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp::rt {

struct TensorToStore {
  std::string name;
  fsdp_dtype dtype;
  std::vector<int64_t> shape;

  int64_t bytes() const;
};

/// The beginning of a file with `tensors`, one after another, and `metadata`: the header's length
/// and the header, together a multiple of `alignment` bytes.
std::string safetensorsHeader(std::span<const TensorToStore> tensors,
                              const std::map<std::string, std::string> &metadata, size_t alignment);

/// Writes all bytes at `position` of a file; false, and errno, if that fails.
bool writeAt(int descriptor, const void *data, size_t bytes, int64_t position);

/// Writes a safetensors file in portions. Until `commit`, `path` stays as it was; then it is the
/// complete new file (see OutputFile). Move-only.
class SafetensorsWriter {
public:
  /// The header is laid out for `tensors`, in their order. Errors name the path.
  static Result<SafetensorsWriter> create(const std::string &path,
                                          const std::vector<TensorToStore> &tensors);

  /// Writes bytes [offset, offset + bytes) of tensor `index`, row-major.
  Status write(size_t index, int64_t offset, const void *data, size_t bytes);
  /// Waits until all bytes written so far are on disk, which keeps `commit` short.
  Status flush();
  Status commit();

private:
  SafetensorsWriter() = default;
  Status failed(const std::string &problem) const;

  std::string path;
  std::optional<OutputFile> file; // until commit
  std::vector<int64_t> begins;    // in the file
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SAFETENSORSWRITER_H
