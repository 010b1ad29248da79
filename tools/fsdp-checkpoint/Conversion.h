//===- Conversion.h - Torch's pickled checkpoints ----------------*- C++ -*-===//

#ifndef FSDP_TOOLS_CHECKPOINT_CONVERSION_H
#define FSDP_TOOLS_CHECKPOINT_CONVERSION_H

#include "Status.h"

#include <string>

/// A conversion from or to torch's .distcp.
struct Conversion {
  std::string checkpoint, folder; // folder: of the result
  std::string modelKey;           // may be empty
  std::string python = "python3"; // with torch and the package fsdpc; a path, or a name on the PATH
};

/// Becomes the process of Python that converts. Returns only if that program cannot be started.
fsdp::rt::Status becomeConversion(const Conversion &conversion);

#endif // FSDP_TOOLS_CHECKPOINT_CONVERSION_H
