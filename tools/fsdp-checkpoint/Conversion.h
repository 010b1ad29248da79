//===- Conversion.h - To and from torch's pickled checkpoints ----*- C++ -*-===//

#ifndef FSDP_TOOLS_CHECKPOINT_CONVERSION_H
#define FSDP_TOOLS_CHECKPOINT_CONVERSION_H

#include "Status.h"

#include <string>

/// A conversion from or to torch's format .distcp.
struct Conversion {
  std::string checkpoint, folder; // folder: for the result
  std::string modelKey;           // may be empty
  // A path or a name on the PATH; must have torch and the package fsdpc.
  std::string python = "python3";
};

/// Replaces this process by the Python process that converts (exec). Returns only if Python cannot
/// be started.
fsdp::rt::Status becomeConversion(const Conversion &conversion);

#endif // FSDP_TOOLS_CHECKPOINT_CONVERSION_H
