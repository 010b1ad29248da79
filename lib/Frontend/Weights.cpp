//===- Weights.cpp - Initial values in safetensors ------------------------===//

#include "Weights.h"

#include <nlohmann/json.hpp>

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
  case at::kFloat8_e5m2:
    return "F8_E5M2";
  case at::kFloat8_e4m3fn:
    return "F8_E4M3";
  case at::kFloat:
    return "F32";
  case at::kDouble:
    return "F64";
  case at::kComplexFloat:
    return "C64";
  case at::kBool:
    return "BOOL";
  default:
    throw CaptureError(std::string("unsupported dtype ") + toString(dtype));
  }
}

void fsdp::frontend::writeWeights(const std::vector<ModelTensor> &tensors, OutputFile &file) {
  nlohmann::ordered_json header;
  size_t begin = 0;
  for (const ModelTensor &tensor : tensors) {
    if (tensor.isTransient)
      continue;
    size_t end = begin + tensor.data.nbytes();
    header[tensor.name] = {{"dtype", getSafetensorsName(tensor.data.scalar_type())},
                           {"shape", tensor.data.sizes().vec()},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.empty() ? "{}" : header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  auto write = [&](const void *data, size_t bytes) {
    if (std::optional<std::string> problem = file.write(data, bytes))
      throw CaptureError("cannot write weights to '" + file.getPath() + "': " + *problem);
  };
  uint64_t size = text.size();
  write(&size, sizeof(size));
  write(text.data(), text.size());
  for (const ModelTensor &tensor : tensors) {
    if (tensor.isTransient)
      continue;
    at::Tensor data = tensor.data.contiguous();
    write(data.const_data_ptr(), data.nbytes());
  }
}
