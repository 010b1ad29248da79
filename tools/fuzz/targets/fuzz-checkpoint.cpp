//===- fuzz-checkpoint.cpp - checkpoint.json ------------------------------===//

#include "checkpoint/Manifest.h"

#include <cstdlib>

using namespace fsdp::rt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<Manifest> manifest = parseManifest({reinterpret_cast<const char *>(data), size});
  if (!manifest.ok())
    return 0;
  // What is read is what is written, and stays so.
  const std::string text = formatManifest(*manifest);
  Result<Manifest> again = parseManifest(text);
  if (!again.ok() || formatManifest(*again) != text)
    std::abort();
  return 0;
}
