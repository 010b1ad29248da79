//===- Weights.h - Initial values in safetensors -----------------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_WEIGHTS_H
#define FSDP_LIB_FRONTEND_WEIGHTS_H

#include "Model.h"

namespace fsdp::frontend {

/// Writes parameters and persistent buffers by qualified name; a shared parameter once, under its
/// first name. Throws CaptureError. The caller commits the file.
void writeWeights(const std::vector<ModelTensor> &tensors, OutputFile &file);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_WEIGHTS_H
