//===- fuzz-safetensors.cpp - Data and weights ----------------------------===//

#include "checkpoint/SafetensorsReader.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto tensors =
      fsdp::rt::parseSafetensors({reinterpret_cast<const std::byte *>(data), size});
  if (!tensors.ok())
    return 0;
  // Reads every byte of every tensor, since the reader guarantees that they are within the file.
  unsigned sum = 0;
  for (const auto &[name, tensor] : *tensors)
    for (std::byte byte : tensor.bytes)
      sum += std::to_integer<unsigned>(byte);
  if (sum == ~0u)
    std::abort();
  return 0;
}
