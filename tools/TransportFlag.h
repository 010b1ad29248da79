//===- TransportFlag.h - What moves gathers on command lines -----*- C++ -*-===//

#ifndef FSDP_TOOLS_TRANSPORTFLAG_H
#define FSDP_TOOLS_TRANSPORTFLAG_H

#include "fsdp/IR/Fsdp.h"

#include <CLI/CLI.hpp>

namespace fsdp {

/// `--transport`, in every tool alike.
inline void addTransportFlag(CLI::App &app, Transport &transport) {
  app.add_option_function<std::string>(
         "--transport",
         [&transport](const std::string &text) {
           transport = text == "copy-engine" ? Transport::CopyEngine
                       : text == "auto"      ? Transport::Auto
                                             : Transport::Kernels;
         },
         "what moves the bytes of gathers: kernels; copy-engine: the devices' copy engines, which "
         "NCCL uses between devices of one host; auto: the search for a schedule decides for "
         "each gather. The bits are the same")
      ->check(CLI::IsMember({"kernels", "copy-engine", "auto"}))
      ->default_str("kernels");
}

} // namespace fsdp

#endif // FSDP_TOOLS_TRANSPORTFLAG_H
