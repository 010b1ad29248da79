//===- PageTemplate.h - HTML around the data of a page -----------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_PAGETEMPLATE_H
#define FSDP_EXPLAIN_PAGETEMPLATE_H

#include "llvm/Support/raw_ostream.h"

namespace fsdp::explain {

/// The parts of a page before and after its data (cmake/EmbedPage.cmake).
struct PageTemplate {
  const char *head, *tail;
};

/// Writes the page with `json` as its data, escaped so that no string in it can end the script.
void writePageAround(const PageTemplate &page, llvm::StringRef json, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_PAGETEMPLATE_H
