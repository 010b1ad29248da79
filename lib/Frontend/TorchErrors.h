//===- TorchErrors.h - torch's errors in one line -----------------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_TORCHERRORS_H
#define FSDP_LIB_FRONTEND_TORCHERRORS_H

#include <exception>
#include <string>

namespace fsdp::frontend {

/// The reason of an error, in one line: of a multi-line error of torch the line with the reason,
/// never a stack frame or a marked line of source.
std::string getReason(const std::exception &exception);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_TORCHERRORS_H
