//===- TorchDraws.h - Random numbers of operators on a GPU ---- -*- C++ -*-===//
//
// Torch's random operators ask the default generator of their device for a Philox seed and offset.
// During a draw the generator has a state made here, with the draw's seed and offset 0. For
// operators that are being captured it has the addresses of device words that hold these values, so
// that a replayed graph draws with the words' current values.
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
