//===- PlacementTest.cpp - Torch's allocations on a GPU, where planned ----===//
//
// The allocator itself, in front of torch's, which without a driver cannot give anything: what is
// served must be placed.
//
//===----------------------------------------------------------------------===//

#include "cuda/CudaPlacementAllocator.h"
#include "executor/OperatorAllocations.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

using namespace fsdp::rt;
namespace torch_allocator = c10::cuda::CUDACachingAllocator;

// What libraries allocate without a tensor (workspaces of cuDNN, temporaries of thrust) is placed
// too, and not given to torch's allocator when it is freed.
TEST(CudaPlacement, RawAllocations) {
  installCudaPlacementAllocator();
  alignas(64) static std::byte memory[192];
  PlacedMemory placed(memory, sizeof(memory));
  OperatorAllocations allocations;
  const PlannedAllocation planned[] = {{64, memory}, {128, memory + 64}};
  allocations.beginPlanned(planned);
  void *first = torch_allocator::raw_alloc(64), *second = torch_allocator::raw_alloc(128);
  torch_allocator::raw_delete(first);
  torch_allocator::raw_delete(second);
  allocations.end();
  EXPECT_EQ(first, memory);
  EXPECT_EQ(second, memory + 64);
  EXPECT_EQ(allocations.served, 2);
  EXPECT_EQ(allocations.fallbacks, 0);
}

// While an operator is measured, allocations of the sizes of its large results get these places;
// which of them it keeps is known.
TEST(CudaPlacement, ExpectedAllocations) {
  installCudaPlacementAllocator();
  alignas(64) static std::byte memory[192];
  PlacedMemory placed(memory, sizeof(memory));
  OperatorAllocations allocations;
  allocations.beginRecording({{64, memory}, {128, memory + 64}});
  void *first = torch_allocator::raw_alloc(128), *second = torch_allocator::raw_alloc(64);
  EXPECT_EQ(first, memory + 64);
  EXPECT_EQ(second, memory);
  torch_allocator::raw_delete(first);
  EXPECT_EQ(allocations.keptBytes(), 64u);
  torch_allocator::raw_delete(second);
  EXPECT_EQ(allocations.keptBytes(), 0u);
  allocations.end();
  EXPECT_EQ(allocations.recorded().size(), 2u);
}
