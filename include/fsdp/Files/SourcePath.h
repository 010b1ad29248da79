//===- SourcePath.h - Source files as modules and binaries name them -*- C++ -*-===//

#ifndef FSDP_FILES_SOURCEPATH_H
#define FSDP_FILES_SOURCEPATH_H

#include <string>

namespace fsdp {

/// The name of a source file that says nothing of the machine where it lies: the path behind
/// `site-packages` or `dist-packages` for a file of an installed package, the path from the working
/// directory for a file below it, and else the file's name alone. A relative path stays as it is.
std::string shortenSourcePath(const std::string &path);

} // namespace fsdp

#endif // FSDP_FILES_SOURCEPATH_H
