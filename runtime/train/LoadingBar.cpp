//===- LoadingBar.cpp - A bar while files are read ------------------------===//

#include "train/LoadingBar.h"

#include <cstdio>

using namespace fsdp::rt;

void LoadingBar::at(int64_t done, int64_t total) {
  if (hidden || !bar.available() || total < kSmallBytes || done < nextBytes)
    return;
  nextBytes = done + kBetweenBytes;
  constexpr double kMiB = 1 << 20;
  char text[128];
  std::snprintf(text, sizeof(text), "reading %s: %.0f of %.0f MiB", what.c_str(),
                static_cast<double>(done) / kMiB, static_cast<double>(total) / kMiB);
  bar.draw(static_cast<double>(done) / static_cast<double>(total), text);
}
