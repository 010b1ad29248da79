//===- SizeFlag.h - Sizes on command lines ------------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_SIZEFLAG_H
#define FSDP_TOOLS_SIZEFLAG_H

#include "fsdp/Config/ShardingConfig.h"

#include <CLI/CLI.hpp>

namespace fsdp {

/// A check for CLI11: an error text if the size is invalid, else empty.
inline std::string checkSize(const std::string &text) {
  llvm::Expected<int64_t> bytes = parseSizeBytes(text, "the size");
  return bytes ? std::string() : llvm::toString(bytes.takeError());
}

/// A flag whose value is a size as parseSizeBytes reads it. Every tool uses it.
inline CLI::Option *addSizeFlag(CLI::App &app, const std::string &name, int64_t &bytes,
                                const std::string &help) {
  return app
      .add_option_function<std::string>(
          name,
          [&bytes](const std::string &text) { bytes = llvm::cantFail(parseSizeBytes(text, "")); },
          help)
      ->check(checkSize);
}

/// The same flag, for tools that hand the text to a pass.
inline CLI::Option *addSizeFlag(CLI::App &app, const std::string &name, std::string &text,
                                const std::string &help) {
  return app.add_option(name, text, help)->check(checkSize);
}

} // namespace fsdp

#endif // FSDP_TOOLS_SIZEFLAG_H
