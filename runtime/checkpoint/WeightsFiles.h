//===- WeightsFiles.h - Full weights in one file or several ------*- C++ -*-===//
//
// Weights in several files have an index, as in Hugging Face's checkpoints:
// model.safetensors.index.json holds {"weight_map": {"name": "model-00001-of-00002.safetensors"}},
// for files in the same folder. The index is not trusted: it is compared with the files' contents.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WEIGHTSFILES_H
#define FSDP_RUNTIME_WEIGHTSFILES_H

#include "checkpoint/SafetensorsReader.h"

#include <memory>

namespace fsdp::rt {

/// The end of an index's file name.
inline constexpr std::string_view kWeightsIndexEnd = ".safetensors.index.json";

/// Move-only.
class WeightsFiles {
public:
  /// Opens a safetensors file, or all those of an index. Errors name the file and the tensor.
  static Result<WeightsFiles> open(const std::string &path);

  struct Found {
    const SafetensorsFile *file = nullptr;
    const StoredTensor *tensor = nullptr;
  };
  /// By name.
  const std::map<std::string, Found, std::less<>> &tensors() const { return found; }
  /// The tensor of that name, or null.
  const Found *find(std::string_view name) const;
  const std::string &path() const { return openedPath; }
  /// The paths of all files that hold tensors: the opened file, or the files of an index.
  std::vector<std::string> filePaths() const;

private:
  Status add(const std::string &path);

  std::string openedPath;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Found, std::less<>> found;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WEIGHTSFILES_H
