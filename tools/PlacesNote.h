//===- PlacesNote.h - How to see the lines of edited text --------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLACESNOTE_H
#define FSDP_TOOLS_PLACESNOTE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// True for text whose operations say where in the model's source they come from, and that passes
/// have written: errors name these places, where whoever edits the text looks for its lines.
inline bool hasPlacesOfSource(llvm::StringRef text) {
  return text.contains(" loc(") && text.contains("fsdp.phase") &&
         !text.contains("module_phase<captured>");
}

inline void printPlacesNote(llvm::StringRef tool, llvm::StringRef input) {
  llvm::errs() << tool
               << ": note: the text says places in the model's source, and errors name these; "
               << "'fsdp-opt " << input
               << " -o COPY' leaves them out, and errors in the copy name its "
               << "lines\n";
}

} // namespace fsdp

#endif // FSDP_TOOLS_PLACESNOTE_H
