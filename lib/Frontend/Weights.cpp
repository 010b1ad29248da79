//===- Weights.cpp - Initial values in safetensors ------------------------===//

#include "Weights.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

using namespace fsdp::frontend;

static const char *getSafetensorsName(at::ScalarType dtype) {
  switch (dtype) {
  case at::kByte:
    return "U8";
  case at::kChar:
    return "I8";
  case at::kShort:
    return "I16";
  case at::kInt:
    return "I32";
  case at::kLong:
    return "I64";
  case at::kHalf:
    return "F16";
  case at::kBFloat16:
    return "BF16";
  case at::kFloat:
    return "F32";
  case at::kDouble:
    return "F64";
  case at::kBool:
    return "BOOL";
  default:
    throw CaptureError(std::string("unsupported dtype ") + toString(dtype));
  }
}

void fsdp::frontend::writeWeights(const std::vector<ModelTensor> &tensors,
                                  const std::string &path) {
  nlohmann::ordered_json header;
  size_t begin = 0;
  for (const ModelTensor &tensor : tensors) {
    size_t end = begin + tensor.data.nbytes();
    header[tensor.name] = {{"dtype", getSafetensorsName(tensor.data.scalar_type())},
                           {"shape", tensor.data.sizes().vec()},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = tensors.empty() ? "{}" : header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  uint64_t size = text.size();
  file.write(reinterpret_cast<const char *>(&size), sizeof(size));
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const ModelTensor &tensor : tensors) {
    at::Tensor data = tensor.data.contiguous();
    file.write(static_cast<const char *>(data.const_data_ptr()),
               static_cast<std::streamsize>(data.nbytes()));
  }
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0) {
    int code = errno;
    std::remove(partial.c_str());
    throw CaptureError("cannot write weights to '" + path + "': " + std::strerror(code));
  }
}
