//===- Weights.cpp - Initial values in safetensors ------------------------===//

#include "Weights.h"

#include "fsdp/Plan/DTypes.h"

#include <nlohmann/json.hpp>

using namespace fsdp;
using namespace fsdp::frontend;

static const char *getSafetensorsName(at::ScalarType dtype) {
  const plan::DTypeFacts *facts = plan::findDType(static_cast<uint32_t>(dtype));
  if (!facts || !facts->inFiles)
    throw CaptureError(std::string("unsupported dtype ") + toString(dtype));
  return facts->inFiles;
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
