//===- HostDescription.cpp - Host and versions for profiles ---------------===//

#include "HostDescription.h"

#include "llvm/ADT/StringRef.h"

#include <torch/version.h>

#include <fstream>
#include <thread>

static std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    auto [key, value] = llvm::StringRef(line).split(':');
    if (key.trim() == "model name")
      return value.trim().str();
  }
  return "unknown processor";
}

std::string fsdp::profile::describeHost() {
  return processorName() + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
}

std::string fsdp::profile::describeVersions() {
  return "fsdp-profile " FSDP_VERSION ", torch " TORCH_VERSION;
}
