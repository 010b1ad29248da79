//===- StoredTensors.h - What a TorchScript file holds, before it is read -===//

#ifndef FSDP_LIB_FRONTEND_STOREDTENSORS_H
#define FSDP_LIB_FRONTEND_STOREDTENSORS_H

#include <caffe2/serialize/inline_container.h>

namespace fsdp::frontend {

/// Checks each tensor of the file against its storage, and each storage against its record, neither
/// of which torch does: it would read beyond what the file holds. Reads no tensor's data. Throws
/// CaptureError.
void checkStoredTensors(caffe2::serialize::PyTorchStreamReader &reader);

/// Refuses classes with __setstate__: code of the file that torch would run when it loads it. No
/// torch.nn module but the quantized ones has any. Throws CaptureError.
void refuseCodeAtLoad(caffe2::serialize::PyTorchStreamReader &reader);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_STOREDTENSORS_H
