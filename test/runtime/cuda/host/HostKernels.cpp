//===- HostKernels.cpp - CUDA kernels as functions of the host ------------===//

#include "HostKernels.h"

#include <ucontext.h>

#include <cstdlib>
#include <vector>

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

using namespace fsdp::test;

HostThread fsdp::test::hostThread;

namespace {
constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kWarp = 32;

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(kStackBytes);
  bool isDone = false;
};

ucontext_t scheduler;
std::vector<Fiber> fibers; // by thread of the block
const std::function<void()> *body;
std::vector<double> warps;

Fiber &current() { return fibers[hostThread.threadIdx.x]; }

void runThread() {
  (*body)();
  current().isDone = true;
  swapcontext(&current().context, &scheduler);
}

void begin(Fiber &fiber) {
  fiber.isDone = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack = {fiber.stack.data(), 0, fiber.stack.size()};
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, runThread, 0);
}

/// Every thread runs up to the next barrier. False if all have ended.
bool advance(unsigned threads) {
  bool isAny = false;
  for (unsigned i = 0; i < threads; ++i) {
    hostThread.threadIdx.x = i;
    if (!fibers[i].isDone)
      swapcontext(&scheduler, &fibers[i].context);
    isAny |= !fibers[i].isDone;
  }
  return isAny;
}
} // namespace

void fsdp::test::waitForBlock() { swapcontext(&current().context, &scheduler); }

double *fsdp::test::warpValues() { return warps.data() + hostThread.threadIdx.x / kWarp * kWarp; }

void fsdp::test::runOnHost(unsigned blocks, unsigned threads, const std::function<void()> &thread) {
  if (fibers.size() < threads)
    fibers = std::vector<Fiber>(threads);
  warps.resize((threads + kWarp - 1) / kWarp * kWarp);
  body = &thread;
  hostThread = {{}, {}, dim3(threads), dim3(blocks)};
  for (unsigned block = 0; block < blocks; ++block) {
    hostThread.blockIdx.x = block;
    for (unsigned i = 0; i < threads; ++i)
      begin(fibers[i]);
    while (advance(threads)) {
    }
  }
}

//===----------------------------------------------------------------------===//
// The calls of CUDA's runtime that the kernels and their test make
//===----------------------------------------------------------------------===//

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
  *value = 4; // multiprocessors
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "an error"; }
cudaError_t cudaMalloc(void **memory, size_t bytes) {
  constexpr size_t kAlignment = 256; // as on a device
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return cudaSuccess;
}
cudaError_t cudaFree(void *memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
