//===- SourcePath.h - Names of source files ---------------------*- C++ -*-===//

#ifndef FSDP_FILES_SOURCEPATH_H
#define FSDP_FILES_SOURCEPATH_H

#include <string>

namespace fsdp {

/// The name of a source file without machine-specific directories: the path after `site-packages`
/// or `dist-packages` for an installed package, the path relative to the working directory for a
/// file below it, else the file name alone. A relative path is returned unchanged.
std::string shortenSourcePath(const std::string &path);

} // namespace fsdp

#endif // FSDP_FILES_SOURCEPATH_H
