//===- SafetensorsWriter.h - Write named tensors, crash-safe -----*- C++ -*-===//

#ifndef FSDP_RUNTIME_SAFETENSORSWRITER_H
#define FSDP_RUNTIME_SAFETENSORSWRITER_H

#include "Status.h"
#include "fsdp/Plan/Abi.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

struct TensorToStore {
  std::string name;
  fsdp_dtype dtype;
  std::vector<int64_t> shape;
};

/// Writes a safetensors file piece by piece. Until `commit` the bytes lie in a temporary file in
/// the same folder, without a name where the file system can; `commit` makes them durable (fsync)
/// and puts them in place by rename, so that at any moment `path` is either what it was before or
/// the complete new file. Move-only. Without `commit` the temporary file is removed.
class SafetensorsWriter {
public:
  /// The header is laid out for `tensors`, in their order. Errors name the path.
  static Result<SafetensorsWriter> create(const std::string &path,
                                          const std::vector<TensorToStore> &tensors);

  SafetensorsWriter(SafetensorsWriter &&other) noexcept;
  ~SafetensorsWriter();

  /// Writes bytes [offset, offset + bytes) of tensor `index`, row-major.
  Status write(size_t index, int64_t offset, const void *data, size_t bytes);
  /// Waits until what is written so far is on disk, which keeps `commit` short.
  Status flush();
  Status commit();

private:
  SafetensorsWriter() = default;
  Status failed(const std::string &what) const;
  bool openTemporary();
  bool nameTemporary();

  std::string path, temporary;
  int descriptor = -1;
  std::vector<int64_t> begins; // in the file
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SAFETENSORSWRITER_H
