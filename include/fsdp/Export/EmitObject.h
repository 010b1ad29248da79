//===- EmitObject.h - A plan as a native object ------------------*- C++ -*-===//

#ifndef FSDP_EXPORT_EMITOBJECT_H
#define FSDP_EXPORT_EMITOBJECT_H

#include "fsdp/Export/PlanTables.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace fsdp {

/// The symbol of the plan (`const fsdp_plan`) in an object or shared library.
inline constexpr char kPlanSymbol[] = "fsdp_step_plan";

struct EmitOptions {
  /// Define `main`, which passes the plan to the runtime.
  bool withMain = true;
};

/// The plans of a program as a relocatable ELF object for this machine: constant tables, the
/// `fsdp_plan`s that point to them and to each other, the functions of their kernels, and `main`.
/// Its only undefined symbol is the runtime's entry point. Several programs are for different
/// meshes: `main` runs one of them. Needs at least one; the symbol is that of the first.
llvm::Expected<llvm::SmallVector<char, 0>>
emitObject(llvm::ArrayRef<std::vector<PlanTables>> programs, const EmitOptions &options);

/// Writes an object of `emitObject` to a file.
llvm::Error writeObject(llvm::ArrayRef<char> object, const std::string &path);

struct LinkOptions {
  std::string linker;     // a C++ compiler driver; empty: the one that built this compiler
  std::string runtimeDir; // folder that holds libfsdp_runtime.so
  bool shared = false;    // a shared library instead of an executable
  /// Folders, separated by colons, in which the binary searches libraries after its own folder and
  /// the folder lib beside it; nullopt: runtimeDir, relative to the binary's folder.
  std::optional<std::string> searchPath = {};
};

/// Links an object of `emitObject` with the runtime into `output`. The error contains the linker's
/// output.
llvm::Error linkObject(llvm::ArrayRef<char> object, const std::string &output,
                       const LinkOptions &options);

/// The folder of the runtime library of the tool at `argv0`: ../lib beside the tool's own.
std::string getDefaultRuntimeDir(const char *argv0);

} // namespace fsdp

#endif // FSDP_EXPORT_EMITOBJECT_H
