//===- FusionFlag.h - The flag --fusion ----------------------- -*- C++ -*-===//

#ifndef FSDP_TOOLS_FUSIONFLAG_H
#define FSDP_TOOLS_FUSIONFLAG_H

#include "fsdp/Transforms/Choices.h"

#include <CLI/CLI.hpp>

namespace fsdp {

/// `--fusion`, the same flag in every tool. Its default is the value of `fusion`.
inline CLI::Option *addFusionFlag(CLI::App &app, FusionChoice &fusion, const std::string &help) {
  const char *byDefault = fusion == FusionChoice::Auto ? "auto" : "off";
  return app
      .add_option_function<std::string>(
          "--fusion",
          [&fusion](const std::string &text) {
            fusion = text == "exact"  ? FusionChoice::Exact
                     : text == "fast" ? FusionChoice::Fast
                     : text == "off"  ? FusionChoice::Off
                                      : FusionChoice::Auto;
          },
          help)
      ->check(CLI::IsMember({"auto", "off", "exact", "fast"}))
      ->default_str(byDefault);
}

} // namespace fsdp

#endif // FSDP_TOOLS_FUSIONFLAG_H
