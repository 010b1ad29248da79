//===- NativeKernels.h - Kernels in this process -----------------*- C++ -*-===//

#ifndef FSDP_TEST_CODEGEN_NATIVEKERNELS_H
#define FSDP_TEST_CODEGEN_NATIVEKERNELS_H

#include "fsdp/Codegen/CpuKernels.h"
#include "fsdp/Plan/Abi.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
namespace orc {
class LLJIT;
}
} // namespace llvm

namespace fsdp::test {

/// The functions of some kernels as code of this process.
class NativeKernels {
public:
  NativeKernels();
  ~NativeKernels();
  /// False where LLVM says no; the message is printed.
  bool add(const codegen::CpuKernels &kernels);
  fsdp_kernel_function lookup(const std::string &name);
  /// Of a module that defines `<name>.tensors`, a function of addresses: the same as a function of
  /// a list of them.
  void (*add(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context,
             const std::string &name))(void **);
  /// What modules may call.
  void define(const std::string &name, void *function);

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

/// Levels of FSDP_NUM_KERNEL_LEVELS that this machine runs.
unsigned getNumRunnableLevels();

} // namespace fsdp::test

#endif // FSDP_TEST_CODEGEN_NATIVEKERNELS_H
