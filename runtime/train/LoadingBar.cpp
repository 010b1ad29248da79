//===- LoadingBar.cpp - A bar while files are read ------------------------===//

#include "train/LoadingBar.h"

using namespace fsdp::rt;

void LoadingBar::at(int64_t done, int64_t total) {
  if (hidden || !bar.available() || total < kSmallBytes || done < nextBytes)
    return;
  nextBytes = done + kBetweenBytes;
  constexpr int64_t kMiB = 1 << 20;
  bar.draw(static_cast<double>(done) / static_cast<double>(total),
           "reading " + what + ": " + std::to_string(done / kMiB) + " of " +
               std::to_string(total / kMiB) + " MiB");
}
