//===- StoredTensors.h - Checks of a TorchScript file ---------------------===//

#ifndef FSDP_LIB_FRONTEND_STOREDTENSORS_H
#define FSDP_LIB_FRONTEND_STOREDTENSORS_H

#include <caffe2/serialize/inline_container.h>

namespace fsdp::frontend {

/// Checks each tensor of the file against its storage, and each storage against its record. torch
/// checks neither and would read beyond the end of the file. Reads no tensor's data. Throws
/// CaptureError.
void checkStoredTensors(caffe2::serialize::PyTorchStreamReader &reader);

/// Refuses classes with __setstate__: code in the file that torch would run on loading. Only the
/// quantized modules of torch.nn have it. Throws CaptureError.
void refuseCodeAtLoad(caffe2::serialize::PyTorchStreamReader &reader);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_STOREDTENSORS_H
