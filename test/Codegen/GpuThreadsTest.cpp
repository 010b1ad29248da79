//===- GpuThreadsTest.cpp - Kernels for GPUs, run by this processor --------===//
//
// The code that becomes PTX, compiled for this machine: threads of a block are coroutines that meet
// where lanes exchange numbers, and at barriers.
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
// A block
//===----------------------------------------------------------------------===//

namespace {
struct GpuBlock {
  std::function<void()> body;
  int64_t index = 0;
  unsigned thread = 0; // that runs

  void run(unsigned count);
  /// Ends the thread's turn.
  void yield() { swapcontext(&threads[thread].context, &host); }
  float exchange(float number, unsigned distance);

private:
  struct Thread {
    ucontext_t context;
    bool isDone = false;
    float slots[2]; // of two exchanges: not all lanes have read the last one yet
    unsigned exchanges = 0;
  };
  static void runThread();

  static constexpr size_t kStack = 1 << 16;
  ucontext_t host;
  std::vector<Thread> threads;
  std::vector<char> stacks;
};
GpuBlock block;
} // namespace

void GpuBlock::runThread() {
  block.body();
  block.threads[block.thread].isDone = true;
}

/// Each thread runs until it meets the others, in turns: all of them meet in the same order.
void GpuBlock::run(unsigned count) {
  threads.assign(count, {});
  stacks.resize(count * kStack);
  for (unsigned i = 0; i < count; ++i) {
    ucontext_t &context = threads[i].context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks.data() + i * kStack;
    context.uc_stack.ss_size = kStack;
    context.uc_link = &host;
    makecontext(&context, runThread, 0);
  }
  for (bool isRunning = true; isRunning;) {
    isRunning = false;
    for (thread = 0; thread < count; ++thread)
      if (!threads[thread].isDone) {
        swapcontext(&host, &threads[thread].context);
        isRunning = true;
      }
  }
}

float GpuBlock::exchange(float number, unsigned distance) {
  const unsigned self = thread, meeting = threads[self].exchanges++ % 2;
  threads[self].slots[meeting] = number;
  yield();
  return threads[self ^ distance].slots[meeting];
}

/// What instructions of GPUs may be off by, relative to the result, as NVIDIA documents them.
static float offBy(double exact, double error) {
  return static_cast<float>(exact * (1 + (block.thread % 2 ? error : -error)));
}

extern "C" {
int32_t fsdp_test_block() { return block.index; }
int32_t fsdp_test_thread() { return block.thread; }
float fsdp_test_exchange(int32_t, float number, int32_t distance, int32_t) {
  return block.exchange(number, distance);
}
void fsdp_test_barrier(int32_t) { block.yield(); }
float fsdp_test_exp2(float x) { return offBy(std::exp2(double(x)), std::ldexp(1, -22)); }
float fsdp_test_reciprocal(float x) { return offBy(1 / double(x), std::ldexp(1, -23)); }
float fsdp_test_rsqrt(float x) { return offBy(1 / std::sqrt(double(x)), std::ldexp(1, -22.9)); }
/// Of compilers' libraries: bf16 in the lower half of the register that a float has.
float fsdp_test_round(float x) { return llvm::bit_cast<float>(uint32_t(c10::BFloat16(x).x)); }
}

/// What code for GPUs calls, and what is called here in its place.
struct Replacement {
  const char *intrinsic, *name;
  void *function;
};
static const Replacement kReplacements[] = {
    {"llvm.nvvm.read.ptx.sreg.ctaid.x", "fsdp_test_block", (void *)fsdp_test_block},
    {"llvm.nvvm.read.ptx.sreg.tid.x", "fsdp_test_thread", (void *)fsdp_test_thread},
    {"llvm.nvvm.shfl.sync.bfly.f32", "fsdp_test_exchange", (void *)fsdp_test_exchange},
    {"llvm.nvvm.barrier.cta.sync.aligned.all", "fsdp_test_barrier", (void *)fsdp_test_barrier},
    {"llvm.nvvm.ex2.approx.ftz.f32", "fsdp_test_exp2", (void *)fsdp_test_exp2},
    {"llvm.nvvm.rcp.approx.ftz.f", "fsdp_test_reciprocal", (void *)fsdp_test_reciprocal},
    {"llvm.nvvm.rsqrt.approx.f", "fsdp_test_rsqrt", (void *)fsdp_test_rsqrt},
};

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

/// The kernel as a function of a list of addresses; `grid` says how many threads there are.
static void (*build(KernelOp kernel, codegen::NativeKernels &native, const std::string &name,
                    codegen::GpuGrid &grid))(void **) {
  MLIRContext *context = kernel->getContext();
  codegen::loadDialects(*context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  FailureOr<codegen::KernelShape> shape = codegen::getShape(kernel);
  if (failed(shape))
    return nullptr;
  grid = codegen::writeGpuThreads(kernel, *shape, name + ".tensors", *module);
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code = codegen::lowerToLlvm(*module, *llvmContext);
  if (!code)
    return nullptr;
  for (const Replacement &replacement : kReplacements)
    if (llvm::Function *function = code->getFunction(replacement.intrinsic)) {
      auto *own = llvm::Function::Create(
          function->getFunctionType(), llvm::GlobalValue::ExternalLinkage, replacement.name, *code);
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
  for (const Replacement &replacement : kReplacements)
    define(native, replacement.name, replacement.function);
  define(native, "__truncsfbf2", reinterpret_cast<void *>(&fsdp_test_round));
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    RandomKernel drawn = drawKernel(context, Rounding::Fast, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(drawn.kernel));
    codegen::GpuGrid grid;
    auto *function = build(drawn.kernel, native, "kernel" + std::to_string(seed), grid);
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
      block.body = [&] { function(tensors.data()); };
      for (block.index = 0; block.index < grid.blocks; ++block.index)
        block.run(grid.threads);
      for (size_t i = 0; i < results.size(); ++i) {
        SCOPED_TRACE("result " + std::to_string(i));
        checkBound(results[i], drawn.single[i], drawn.precise[i]);
      }
    }
    if (::testing::Test::HasFailure())
      return;
  }
}

/// PTX of a kernel, as text from its arguments to its end.
static std::string printPtx(const std::string &kernel) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<aten::AtenDialect, FsdpDialect>();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>("fsdp.kernel @k fast {\n^bb0" + kernel + "\n}\n", &context);
  SmallVector<KernelOp> kernels(module->getOps<KernelOp>());
  FailureOr<codegen::PtxKernels> built = codegen::buildPtxKernels(kernels, "sm_90");
  EXPECT_TRUE(succeeded(built));
  return succeeded(built) ? built->ptx : "";
}

/// `c = a + b` in bf16, of rows of so many numbers.
static std::string addInPtx(int64_t columns) {
  std::string type = "tensor<33x" + std::to_string(columns) + "xbf16>";
  return printPtx("(%a: " + type + ", %b: " + type +
                  "):\n  %c = aten.call \"add.Tensor\"(%a, %b, 1) fwd in \"\" : (" + type + ", " +
                  type + ") -> " + type + "\n  fsdp.yield %c : " + type);
}

/// Loads and stores of 16 bytes. Those of what nothing writes meanwhile may be marked so.
static size_t countLoads(llvm::StringRef ptx) {
  return ptx.count("ld.global.v4.b32") + ptx.count("ld.global.nc.v4.b32");
}
static size_t countStores(llvm::StringRef ptx) { return ptx.count("st.global.v4.b32"); }

// Eight numbers of bf16 are one load and one store, where all rows have whole ones.
TEST(GpuThreads, MoveSixteenBytesAtOnce) {
  std::string ptx = addInPtx(4096);
  EXPECT_EQ(countLoads(ptx), 2u) << ptx;
  EXPECT_EQ(countStores(ptx), 1u) << ptx;
  EXPECT_EQ(addInPtx(4095).find(".v4."), std::string::npos);
}

// The threads of a block meet for the sum of a row, and what they have read stays in registers.
TEST(GpuThreads, ReadARowOnce) {
  std::string ptx = printPtx(R"((%a: tensor<4096x2048xf32>):
  %s = aten.call "sum.dim_IntList"(%a, [1], true, none) fwd in "" : (tensor<4096x2048xf32>) -> tensor<4096x1xf32>
  %c = aten.call "mul.Tensor"(%a, %s) fwd in "" : (tensor<4096x2048xf32>, tensor<4096x1xf32>) -> tensor<4096x2048xf32>
  fsdp.yield %c : tensor<4096x2048xf32>)");
  EXPECT_NE(ptx.find(".maxntid 512\n"), std::string::npos) << ptx;
  EXPECT_EQ(countLoads(ptx), 1u) << ptx;
  EXPECT_EQ(countStores(ptx), 1u) << ptx;
}
