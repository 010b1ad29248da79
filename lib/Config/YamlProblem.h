//===- YamlProblem.h - What a reader's error is about -------------*- C++ -*-===//

#ifndef FSDP_LIB_CONFIG_YAMLPROBLEM_H
#define FSDP_LIB_CONFIG_YAMLPROBLEM_H

#include "llvm/Support/SourceMgr.h"

namespace fsdp {

/// The message of a problem in `text`, a YAML file. LLVM's reader says `not a sequence`, and ours
/// `expected ...`, of a value; then the message names its key and the value, too:
/// `groups[0].modules is 'layers.0', expected a list`. Keys are joined by dots, entries of lists
/// are numbered from 0. All other messages stay.
std::string explainProblem(llvm::StringRef text, const llvm::SMDiagnostic &problem);

} // namespace fsdp

#endif // FSDP_LIB_CONFIG_YAMLPROBLEM_H
