//===- fuzz-checkpoint.cpp - checkpoint.json ------------------------------===//

#include "checkpoint/Manifest.h"

#include <cstdlib>

using namespace fsdp::rt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<Manifest> manifest = parseManifest({reinterpret_cast<const char *>(data), size});
  if (!manifest.ok())
    return 0;
  // Writing a manifest and reading it again must give the same text.
  const std::string text = formatManifest(*manifest);
  Result<Manifest> again = parseManifest(text);
  if (!again.ok() || formatManifest(*again) != text)
    std::abort();
  return 0;
}
