//===- TorchDraws.h - Numbers of random operators on a GPU ------*- C++ -*-===//
//
// Torch's random operators ask the default generator of their device for a Philox seed and offset.
// While a draw is begun, the generator has a state of ours: with the draw's seed and offset 0, and
// for operators that are being captured with the addresses of device words that hold the same, so
// that a replayed graph draws what the words say then.
//
// Sources: torch 2.11, ATen/cuda/CUDAGeneratorImpl.h and the notes there.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_TORCHDRAWS_H
#define FSDP_RUNTIME_CUDA_TORCHDRAWS_H

#include "cuda/CudaCalls.h"

namespace fsdp::rt {

/// As CudaCalls::beginTorchDraw(); one thread per device.
void beginTorchDraw(int device, const TorchDraw &draw);
void endTorchDraw(int device);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_TORCHDRAWS_H
