//===- NativeKernels.h - Kernels in this process -----------------*- C++ -*-===//

#ifndef FSDP_CODEGEN_NATIVEKERNELS_H
#define FSDP_CODEGEN_NATIVEKERNELS_H

#include "fsdp/Plan/Abi.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace llvm::orc {
class LLJIT;
}

namespace fsdp::codegen {

/// The functions of kernels as code of this process, by the same code generator as in an object of
/// fsdp-compile. The code lives as long as the object.
class NativeKernels {
public:
  static llvm::Expected<NativeKernels> create();
  NativeKernels(NativeKernels &&other);
  NativeKernels &operator=(NativeKernels &&other);
  ~NativeKernels();

  /// Adds the functions of CpuKernels::bitcode. Of functions with the same name the first is kept.
  llvm::Error add(llvm::StringRef bitcode);
  llvm::Expected<fsdp_kernel_function> lookup(llvm::StringRef name);
  /// For modules that are not of CpuKernels.
  llvm::orc::LLJIT &getJit() { return *jit; }

private:
  explicit NativeKernels(std::unique_ptr<llvm::orc::LLJIT> jit);

  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_NATIVEKERNELS_H
