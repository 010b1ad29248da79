//===- CudaPlacementAllocator.h - Planned addresses on a GPU -- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CUDA_CUDAPLACEMENTALLOCATOR_H
#define FSDP_RUNTIME_CUDA_CUDAPLACEMENTALLOCATOR_H

namespace fsdp::rt {

/// Puts an allocator that asks OperatorAllocations in front of torch's caching allocator of CUDA
/// devices, which must be initialized and serves all other allocations. Takes effect once per
/// process; further calls do nothing.
void installCudaPlacementAllocator();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDAPLACEMENTALLOCATOR_H
