//===- fuzz-config.cpp - YAML files of groups -----------------------------===//

#include "ScratchFile.h"
#include "fsdp/Config/ShardingConfig.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fsdp::fuzz::ScratchFile file(".yaml");
  file.write({data, size});
  if (llvm::Expected<fsdp::ShardingConfig> config = fsdp::readShardingConfig(file.path))
    llvm::consumeError(fsdp::checkAccumulation(*config));
  else
    llvm::consumeError(config.takeError());
  return 0;
}
