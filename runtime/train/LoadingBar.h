//===- LoadingBar.h - A bar while files are read -----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_LOADINGBAR_H
#define FSDP_RUNTIME_LOADINGBAR_H

#include "train/ProgressBar.h"

#include <cstdint>

namespace fsdp::rt {

/// Shows on a terminal how much of its files a rank has read. Small files show nothing.
class LoadingBar {
public:
  /// `what` is read: "weights". Hidden, it draws nothing.
  LoadingBar(std::string what, bool hidden) : what(std::move(what)), hidden(hidden) {}
  /// `done` bytes of `total` have been read.
  void at(int64_t done, int64_t total);

private:
  // Smaller files are read too fast for a bar.
  static constexpr int64_t kSmallBytes = int64_t{64} << 20;
  static constexpr int64_t kBetweenBytes = int64_t{16} << 20;

  ProgressBar bar;
  const std::string what;
  const bool hidden;
  int64_t nextBytes = 0; // from which on the bar is drawn again
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_LOADINGBAR_H
