//===- FusionFlag.h - Generated kernels on command lines ----------*- C++ -*-===//

#ifndef FSDP_TOOLS_FUSIONFLAG_H
#define FSDP_TOOLS_FUSIONFLAG_H

#include "fsdp/Transforms/Choices.h"

#include <CLI/CLI.hpp>

namespace fsdp {

/// `--fusion`, in every tool alike.
inline CLI::Option *addFusionFlag(CLI::App &app, FusionChoice &fusion, const std::string &help) {
  return app
      .add_option_function<std::string>(
          "--fusion",
          [&fusion](const std::string &text) {
            fusion = text == "exact"  ? FusionChoice::Exact
                     : text == "fast" ? FusionChoice::Fast
                                      : FusionChoice::Off;
          },
          help)
      ->check(CLI::IsMember({"off", "exact", "fast"}))
      ->default_str("off");
}

} // namespace fsdp

#endif // FSDP_TOOLS_FUSIONFLAG_H
