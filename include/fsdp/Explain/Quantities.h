//===- Quantities.h - Times, bytes and shares as text -----------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_QUANTITIES_H
#define FSDP_EXPLAIN_QUANTITIES_H

#include <cstdint>
#include <string>

namespace fsdp::explain {

/// "0 B", "512 B", "416.0 MiB", "61.2 GiB"; four digits at most.
std::string formatBytes(int64_t bytes);
/// Nanoseconds as "0 s", "35.0 us", "2.11 ms", "1.204 s".
std::string formatTime(double ns);
/// "1,204,224".
std::string formatCount(int64_t count);
/// 0.875 as "87.5 %".
std::string formatShare(double share);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_QUANTITIES_H
