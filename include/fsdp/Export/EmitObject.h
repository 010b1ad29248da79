//===- EmitObject.h - A plan as a native object ------------------*- C++ -*-===//

#ifndef FSDP_EXPORT_EMITOBJECT_H
#define FSDP_EXPORT_EMITOBJECT_H

#include "fsdp/Export/PlanTables.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace fsdp {

/// The symbol under which an object or shared library holds its plan (`const fsdp_plan`).
inline constexpr char kPlanSymbol[] = "fsdp_step_plan";

struct EmitOptions {
  /// Define `main`, which hands the plan to the runtime.
  bool withMain = true;
};

/// The plans of a program as a relocatable ELF object for this machine: constant tables, the
/// `fsdp_plan`s that point to them and to each other, the functions of their kernels, and `main`.
/// Its only undefined symbol is the runtime's entry. Several programs are for other meshes each:
/// `main` runs one of them. At least one; the symbol is the first one's.
llvm::Expected<llvm::SmallVector<char, 0>>
emitObject(llvm::ArrayRef<std::vector<PlanTables>> programs, const EmitOptions &options);

/// Writes an object of `emitObject` to a file.
llvm::Error writeObject(llvm::ArrayRef<char> object, const std::string &path);

struct LinkOptions {
  std::string linker;     // a C++ compiler driver; empty: the one that built this compiler
  std::string runtimeDir; // folder that holds libfsdp_runtime.so
  bool shared = false;    // a shared library instead of an executable
  /// Folders, between colons, in which the binary looks for libraries behind its own folder and the
  /// folder lib beside it; none: runtimeDir, as seen from the binary's folder.
  std::optional<std::string> searchPath = {};
};

/// Links an object of `emitObject` with the runtime into `output`. The error holds the linker's
/// words.
llvm::Error linkObject(llvm::ArrayRef<char> object, const std::string &output,
                       const LinkOptions &options);

/// The folder of the runtime library that belongs to the tool at `argv0`: ../lib beside its own.
std::string getDefaultRuntimeDir(const char *argv0);

} // namespace fsdp

#endif // FSDP_EXPORT_EMITOBJECT_H
