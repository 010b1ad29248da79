//===- TransportFlag.h - The flag --transport --------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_TRANSPORTFLAG_H
#define FSDP_TOOLS_TRANSPORTFLAG_H

#include "fsdp/IR/Fsdp.h"

#include <CLI/CLI.hpp>

namespace fsdp {

/// `--transport`, the same flag in every tool.
inline void addTransportFlag(CLI::App &app, Transport &transport) {
  app.add_option_function<std::string>(
         "--transport",
         [&transport](const std::string &text) {
           transport = text == "copy-engine" ? Transport::CopyEngine
                       : text == "auto"      ? Transport::Auto
                                             : Transport::Kernels;
         },
         "what moves the bytes of gathers: kernels; copy-engine: the devices' copy engines, which "
         "NCCL uses between devices of one host; auto: the search for a schedule decides for each "
         "gather. Results are bitwise the same")
      ->check(CLI::IsMember({"kernels", "copy-engine", "auto"}))
      ->default_str("kernels");
}

} // namespace fsdp

#endif // FSDP_TOOLS_TRANSPORTFLAG_H
