//===- ProgressBar.cpp - A progress bar on a terminal ---------------------===//

#include "train/ProgressBar.h"

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace fsdp::rt;

static constexpr size_t kBarCells = 20;
static constexpr const char *kEraseLine = "\r\x1b[K";

/// The width of the terminal on standard output; 0 if there is none, or if it is mpirun's
/// pseudo-terminal, whose output may go to a file.
static size_t columnsOfTerminal() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

ProgressBar::ProgressBar() : terminal(columnsOfTerminal() != 0) {}

void ProgressBar::draw(double done, const std::string &text) {
  const auto full = static_cast<size_t>(std::clamp(done, 0.0, 1.0) * kBarCells);
  std::string line =
      "[" + std::string(full, '#') + std::string(kBarCells - full, '.') + "] " + text;
  // A wrapped line could not be erased. The last column may cause a wrap, too.
  line.resize(std::min(line.size(), std::max<size_t>(columnsOfTerminal(), 1) - 1));
  std::printf("%s%s", kEraseLine, line.c_str());
  std::fflush(stdout);
  drawn = true;
}

void ProgressBar::clear() {
  if (!drawn)
    return;
  std::printf("%s", kEraseLine);
  std::fflush(stdout);
  drawn = false;
}
