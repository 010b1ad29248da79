//===- WeightsFiles.h - Full weights in one file or several ------*- C++ -*-===//
//
// Several files have an index, as Hugging Face's checkpoints do: model.safetensors.index.json holds
// {"weight_map": {"name": "model-00001-of-00002.safetensors"}}, of files beside it. It is not
// trusted: what it says is compared with what the files hold.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WEIGHTSFILES_H
#define FSDP_RUNTIME_WEIGHTSFILES_H

#include "checkpoint/SafetensorsReader.h"

#include <memory>

namespace fsdp::rt {

/// A name that ends so is that of an index.
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
  /// Of all files that hold tensors: this one, or those of an index.
  std::vector<std::string> filePaths() const;

private:
  Status add(const std::string &path);

  std::string openedPath;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Found, std::less<>> found;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WEIGHTSFILES_H
