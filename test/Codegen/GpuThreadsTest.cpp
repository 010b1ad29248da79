//===- GpuThreadsTest.cpp - Kernels for GPUs, run by this processor --------===//
//
// The code that becomes PTX, compiled for this machine: threads of a block are coroutines; those of
// a warp meet where lanes exchange numbers, all at barriers.
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
  float exchange(float number, unsigned distance);
  void meet();

private:
  struct Thread {
    ucontext_t context;
    bool isDone = false, waits = false; // at a barrier
    float slots[2]; // of two exchanges: not all lanes have read the last one yet
    unsigned exchanges = 0;
  };
  static void runThread();
  bool runWarp(unsigned first, unsigned last);
  /// Ends the thread's turn.
  void yield() { swapcontext(&threads[thread].context, &host); }

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

/// The threads of a warp take turns until all of them are at a barrier, or done. False if they
/// were.
bool GpuBlock::runWarp(unsigned first, unsigned last) {
  bool hasRun = false;
  for (bool isRunning = true; isRunning; hasRun |= isRunning) {
    isRunning = false;
    for (thread = first; thread < last; ++thread)
      if (!threads[thread].isDone && !threads[thread].waits) {
        swapcontext(&host, &threads[thread].context);
        isRunning = true;
      }
  }
  return hasRun;
}

/// Warps run as far ahead of each other as barriers let them, the first ones and the last ones in
/// turns.
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
  const unsigned warps = llvm::divideCeil(count, codegen::kWarp);
  bool isReversed = false;
  for (bool isRunning = true; isRunning; isReversed = !isReversed) {
    isRunning = false;
    for (unsigned i = 0; i < warps; ++i) {
      const unsigned first = (isReversed ? warps - 1 - i : i) * codegen::kWarp;
      isRunning |= runWarp(first, std::min<unsigned>(count, first + codegen::kWarp));
    }
    for (Thread &each : threads)
      each.waits = false;
  }
}

void GpuBlock::meet() {
  threads[thread].waits = true;
  yield();
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
void fsdp_test_barrier(int32_t) { block.meet(); }
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

namespace {
/// Compiles kernels and runs them by blocks.
struct GpuThreads : testing::Test {
  void SetUp() override {
    context.loadDialect<aten::AtenDialect, FsdpDialect>();
    for (const Replacement &replacement : kReplacements)
      define(native, replacement.name, replacement.function);
    define(native, "__truncsfbf2", reinterpret_cast<void *>(&fsdp_test_round));
  }
  void check(const RandomKernel &drawn, const std::string &name);

  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  codegen::NativeKernels native = llvm::cantFail(codegen::NativeKernels::create());
};
} // namespace

/// On tensors that are aligned for vectors, and on such that are not.
void GpuThreads::check(const RandomKernel &drawn, const std::string &name) {
  SCOPED_TRACE(print(drawn.kernel));
  codegen::GpuGrid grid;
  auto *function = build(drawn.kernel, native, name, grid);
  ASSERT_TRUE(function);
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
}

// What threads of a GPU compute, by vectors and one by one, is what fp64 gives, within the bound of
// fast kernels. Nothing beside the results is written.
TEST_F(GpuThreads, KeepTheBoundOfFastKernels) {
  for (unsigned seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    at::manual_seed(seed);
    check(drawKernel(context, Rounding::Fast, random), "kernel" + std::to_string(seed));
  }
}

/// The kernel of a text, on random tensors.
static RandomKernel readKernel(MLIRContext &context, const std::string &body) {
  RandomKernel read;
  read.module =
      parseSourceString<ModuleOp>("fsdp.kernel @k fast {\n^bb0" + body + "\n}\n", &context);
  read.kernel = *read.module->getOps<KernelOp>().begin();
  Block &block = read.kernel.getBody().front();
  DenseMap<Value, KnownValue> known;
  for (BlockArgument argument : block.getArguments()) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(argument.getType()).getShape();
    read.inputs.push_back(at::randn(at::IntArrayRef(shape.data(), shape.size())));
    known.try_emplace(argument, makeKnown(argument, read.inputs.back()));
  }
  for (auto call : block.getOps<aten::CallOp>()) {
    auto operands = llvm::map_to_vector(
        call.getOperands(), [&](Value operand) -> const KnownValue * { return &known[operand]; });
    known[call.getResult(0)] = computeResult(call, operands, Rounding::Fast);
  }
  for (Value yielded : read.kernel.getYielded()) {
    read.expected.push_back(known[yielded].tensor);
    read.single.push_back(known[yielded].single);
    read.precise.push_back(known[yielded].precise);
  }
  return read;
}

// A block computes the rows of a chunk one after another: none of its threads takes numbers of the
// next row for those of this one where they meet.
TEST_F(GpuThreads, AddColumnsUpRowByRow) {
  check(readKernel(context, R"((%x: tensor<10x1024xf32>, %g: tensor<10x1024xf32>):
  %xg = aten.call "mul.Tensor"(%x, %g) fwd in "" : (tensor<10x1024xf32>, tensor<10x1024xf32>) -> tensor<10x1024xf32>
  %s = aten.call "sum.dim_IntList"(%xg, [1], true, none) fwd in "" : (tensor<10x1024xf32>) -> tensor<10x1xf32>
  %y = aten.call "mul.Tensor"(%g, %s) fwd in "" : (tensor<10x1024xf32>, tensor<10x1xf32>) -> tensor<10x1024xf32>
  %v = aten.call "view.default"(%y, [2, 5, 1024]) fwd in "" : (tensor<10x1024xf32>) -> tensor<2x5x1024xf32>
  %w = aten.call "sum.dim_IntList"(%v, [1], false, f32) fwd in "" : (tensor<2x5x1024xf32>) -> tensor<2x1024xf32>
  fsdp.yield %y, %w : tensor<10x1024xf32>, tensor<2x1024xf32>)"),
        "columns");
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
TEST(GpuCode, MovesSixteenBytesAtOnce) {
  std::string ptx = addInPtx(4096);
  EXPECT_EQ(countLoads(ptx), 2u) << ptx;
  EXPECT_EQ(countStores(ptx), 1u) << ptx;
  EXPECT_EQ(addInPtx(4095).find(".v4."), std::string::npos);
}

// The threads of a block meet for the sum of a row, and what they have read stays in registers.
TEST(GpuCode, ReadsARowOnce) {
  std::string ptx = printPtx(R"((%a: tensor<4096x2048xf32>):
  %s = aten.call "sum.dim_IntList"(%a, [1], true, none) fwd in "" : (tensor<4096x2048xf32>) -> tensor<4096x1xf32>
  %c = aten.call "mul.Tensor"(%a, %s) fwd in "" : (tensor<4096x2048xf32>, tensor<4096x1xf32>) -> tensor<4096x2048xf32>
  fsdp.yield %c : tensor<4096x2048xf32>)");
  EXPECT_NE(ptx.find(".maxntid 512\n"), std::string::npos) << ptx;
  EXPECT_EQ(countLoads(ptx), 1u) << ptx;
  EXPECT_EQ(countStores(ptx), 1u) << ptx;
}
