//===- NativeKernels.h - Kernels compiled into this process -----*- C++ -*-===//

#ifndef FSDP_CODEGEN_NATIVEKERNELS_H
#define FSDP_CODEGEN_NATIVEKERNELS_H

#include "fsdp/Plan/Abi.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace llvm::orc {
class LLJIT;
}

namespace fsdp::codegen {

/// Kernel functions compiled into this process, by the code generator that fsdp-compile uses for
/// objects. The code lives as long as the NativeKernels.
class NativeKernels {
public:
  static llvm::Expected<NativeKernels> create();
  NativeKernels(NativeKernels &&other);
  NativeKernels &operator=(NativeKernels &&other);
  ~NativeKernels();

  /// Adds the functions of CpuKernels::bitcode. Of two functions with equal names the first is
  /// kept.
  llvm::Error add(llvm::StringRef bitcode);
  llvm::Expected<fsdp_kernel_function> lookup(llvm::StringRef name);
  /// For modules that do not come from CpuKernels.
  llvm::orc::LLJIT &getJit() { return *jit; }

private:
  explicit NativeKernels(std::unique_ptr<llvm::orc::LLJIT> jit);

  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_NATIVEKERNELS_H
