//===- PlacesNote.h - How to see the lines of edited text --------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLACESNOTE_H
#define FSDP_TOOLS_PLACESNOTE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// True for text that passes have written and whose operations have locations in the model's
/// source. Errors in such text name the source's lines, but a user who edits the text needs the
/// text's lines.
inline bool hasPlacesOfSource(llvm::StringRef text) {
  return text.contains(" loc(") && text.contains("fsdp.phase") &&
         !text.contains("module_phase<captured>");
}

inline void printPlacesNote(llvm::StringRef tool, llvm::StringRef input) {
  llvm::errs() << tool
               << ": note: the text has locations in the model's source, and errors name these; "
               << "'fsdp-opt " << input
               << " -o COPY' writes a copy without locations, in which errors name the copy's "
               << "lines\n";
}

} // namespace fsdp

#endif // FSDP_TOOLS_PLACESNOTE_H
