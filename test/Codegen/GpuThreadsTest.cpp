//===- GpuThreadsTest.cpp - Kernels for GPUs, run by this processor --------===//
//
// The code that becomes PTX, compiled for this machine: threads of a warp are coroutines that meet
// where lanes exchange numbers.
//
//===----------------------------------------------------------------------===//

#include "GpuThreads.h"
#include "KernelReferences.h"
#include "LoadDialects.h"
#include "LowerKernels.h"
#include "RandomKernel.h"
#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/NativeKernels.h"
#include "fsdp/Codegen/PtxKernels.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "mlir/Parser/Parser.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ucontext.h>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::test;

//===----------------------------------------------------------------------===//
// A warp
//===----------------------------------------------------------------------===//

namespace {
struct Warp {
  static constexpr unsigned kLanes = codegen::kWarp;
  std::function<void()> body;
  int64_t block = 0, warp = 0;
  unsigned lane = 0;
  bool isDone[kLanes];
  float slots[2][kLanes]; // two meetings' numbers: not all lanes have read the last ones yet
  unsigned meetings[kLanes];
  ucontext_t host, lanes[kLanes];
  std::vector<char> stacks = std::vector<char>(kLanes * kStack);
  static constexpr size_t kStack = 1 << 18;

  void run();
};
Warp warp;
} // namespace

static void runLane() {
  warp.body();
  warp.isDone[warp.lane] = true;
}

/// Each lane runs until it meets the others, in turns.
void Warp::run() {
  for (unsigned i = 0; i < kLanes; ++i) {
    getcontext(&lanes[i]);
    lanes[i].uc_stack.ss_sp = stacks.data() + i * kStack;
    lanes[i].uc_stack.ss_size = kStack;
    lanes[i].uc_link = &host;
    makecontext(&lanes[i], runLane, 0);
    isDone[i] = false;
    meetings[i] = 0;
  }
  for (bool isRunning = true; isRunning;) {
    isRunning = false;
    for (lane = 0; lane < kLanes; ++lane)
      if (!isDone[lane]) {
        swapcontext(&host, &lanes[lane]);
        isRunning = true;
      }
  }
}

extern "C" {
int32_t fsdp_test_block() { return warp.block; }
int32_t fsdp_test_thread() { return warp.warp * codegen::kWarp + warp.lane; }
float fsdp_test_exchange(int32_t, float number, int32_t distance, int32_t) {
  const unsigned lane = warp.lane, meeting = warp.meetings[lane]++ % 2;
  warp.slots[meeting][lane] = number;
  swapcontext(&warp.lanes[lane], &warp.host);
  return warp.slots[meeting][lane ^ distance];
}
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Of a module that defines `<name>.tensors`, a function of addresses: the same as a function of a
/// list of them.
static void (*compile(codegen::NativeKernels &native, std::unique_ptr<llvm::Module> module,
                      std::unique_ptr<llvm::LLVMContext> context,
                      const std::string &name))(void **) {
  llvm::Function *tensors = module->getFunction(name + ".tensors");
  llvm::Type *pointer = llvm::PointerType::get(*context, 0);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(*context), {pointer}, false);
  auto *all = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *module);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(*context, "", all));
  llvm::SmallVector<llvm::Value *> addresses;
  for (unsigned i = 0; i < tensors->arg_size(); ++i)
    addresses.push_back(
        builder.CreateLoad(pointer, builder.CreateConstGEP1_64(pointer, all->getArg(0), i)));
  builder.CreateCall(tensors, addresses);
  builder.CreateRetVoid();
  llvm::cantFail(native.getJit().addIRModule({std::move(module), std::move(context)}));
  return llvm::cantFail(native.getJit().lookup(name)).toPtr<void (*)(void **)>();
}

/// Of the modules that are compiled: what they may call.
static void define(codegen::NativeKernels &native, const std::string &name, void *function) {
  llvm::orc::LLJIT &jit = native.getJit();
  llvm::cantFail(jit.getMainJITDylib().define(llvm::orc::absoluteSymbols(
      {{jit.mangleAndIntern(name),
        {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported}}})));
}

/// The kernel as a function of a list of addresses; `blocks` says how many there are.
static void (*build(KernelOp kernel, codegen::NativeKernels &native, const std::string &name,
                    int64_t &blocks))(void **) {
  MLIRContext *context = kernel->getContext();
  codegen::loadDialects(*context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  FailureOr<codegen::KernelShape> shape = codegen::getShape(kernel);
  if (failed(shape))
    return nullptr;
  blocks = codegen::writeGpuThreads(kernel, *shape, name + ".tensors", *module);
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code = codegen::lowerToLlvm(*module, *llvmContext);
  if (!code)
    return nullptr;
  for (auto [intrinsic, replacement] :
       {std::pair("llvm.nvvm.read.ptx.sreg.ctaid.x", "fsdp_test_block"),
        std::pair("llvm.nvvm.read.ptx.sreg.tid.x", "fsdp_test_thread"),
        std::pair("llvm.nvvm.shfl.sync.bfly.f32", "fsdp_test_exchange")})
    if (llvm::Function *function = code->getFunction(intrinsic)) {
      auto *own = llvm::Function::Create(function->getFunctionType(),
                                         llvm::GlobalValue::ExternalLinkage, replacement, *code);
      function->replaceAllUsesWith(own);
      function->eraseFromParent();
    }
  return compile(native, std::move(code), std::move(llvmContext), name);
}

static std::string print(KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream(text) << kernel;
  return text;
}

// What threads of a GPU compute, by vectors and one by one, is what fp64 gives, within the bound of
// fast kernels. Nothing beside the results is written.
TEST(GpuThreads, KeepTheBoundOfFastKernels) {
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<aten::AtenDialect, FsdpDialect>();
  auto native = llvm::cantFail(codegen::NativeKernels::create());
  define(native, "fsdp_test_block", reinterpret_cast<void *>(&fsdp_test_block));
  define(native, "fsdp_test_thread", reinterpret_cast<void *>(&fsdp_test_thread));
  define(native, "fsdp_test_exchange", reinterpret_cast<void *>(&fsdp_test_exchange));
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    RandomKernel drawn = drawKernel(context, Rounding::Fast, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(drawn.kernel));
    int64_t blocks = 0;
    auto *function = build(drawn.kernel, native, "kernel" + std::to_string(seed), blocks);
    ASSERT_TRUE(function);
    // Tensors that are aligned for vectors, and such that are not.
    for (int64_t shift : {0, 1}) {
      SCOPED_TRACE(shift ? "unaligned" : "aligned");
      std::vector<at::Tensor> storages, results;
      std::vector<void *> tensors;
      for (const at::Tensor &input : drawn.inputs) {
        int64_t bytes = input.storage().nbytes(), size = input.element_size();
        storages.push_back(at::empty({bytes + size}, at::kByte));
        char *begin = static_cast<char *>(storages.back().data_ptr()) + shift * size;
        std::memcpy(begin, input.storage().data(), bytes);
        tensors.push_back(begin + input.storage_offset() * size);
      }
      for (const at::Tensor &expected : drawn.expected) {
        results.push_back(at::empty({expected.numel() + 1}, expected.options()).fill_(1));
        results.back() = results.back()
                             .slice(0, shift, expected.numel() + shift)
                             .as_strided(expected.sizes(), expected.strides(), shift);
        tensors.push_back(results.back().data_ptr());
      }
      warp.body = [&] { function(tensors.data()); };
      for (warp.block = 0; warp.block < blocks; ++warp.block)
        for (warp.warp = 0; warp.warp < codegen::kGpuBlock / codegen::kWarp; ++warp.warp)
          warp.run();
      for (size_t i = 0; i < results.size(); ++i) {
        SCOPED_TRACE("result " + std::to_string(i));
        checkBound(results[i], drawn.single[i], drawn.precise[i]);
      }
    }
    if (::testing::Test::HasFailure())
      return;
  }
}

/// PTX of `c = a + b` in bf16, of rows of so many numbers.
static std::string addInPtx(int64_t columns) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<aten::AtenDialect, FsdpDialect>();
  std::string type = "tensor<33x" + std::to_string(columns) + "xbf16>";
  std::string text = "fsdp.kernel @k fast {\n^bb0(%a: " + type + ", %b: " + type +
                     "):\n  %c = aten.call \"add.Tensor\"(%a, %b, 1) fwd in \"\" : (" + type +
                     ", " + type + ") -> " + type + "\n  fsdp.yield %c : " + type + "\n}\n";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  SmallVector<KernelOp> kernels(module->getOps<KernelOp>());
  FailureOr<codegen::PtxKernels> built = codegen::buildPtxKernels(kernels, "sm_90");
  EXPECT_TRUE(succeeded(built));
  return succeeded(built) ? built->ptx : "";
}

// Eight numbers of bf16 are one load and one store, where all rows have whole ones.
TEST(GpuThreads, MoveSixteenBytesAtOnce) {
  std::string ptx = addInPtx(4096);
  EXPECT_NE(ptx.find("ld.global.v4.b32"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("st.global.v4.b32"), std::string::npos) << ptx;
  EXPECT_EQ(addInPtx(4095).find(".v4."), std::string::npos);
}
