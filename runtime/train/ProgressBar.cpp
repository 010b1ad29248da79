//===- ProgressBar.cpp - A line that is drawn again and again -------------===//

#include "train/ProgressBar.h"

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace fsdp::rt;

static constexpr size_t kBarCells = 20, kUsualColumns = 80;
static constexpr const char *kEraseLine = "\r\x1b[K";

ProgressBar::ProgressBar() : terminal(::isatty(STDOUT_FILENO) == 1) {}

void ProgressBar::draw(double done, const std::string &text) {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
  const size_t columns = known ? size.ws_col : kUsualColumns;
  const auto full = static_cast<size_t>(std::clamp(done, 0.0, 1.0) * kBarCells);
  std::string line =
      "[" + std::string(full, '#') + std::string(kBarCells - full, '.') + "] " + text;
  // A line that is wrapped could not be erased. The last column may wrap, too.
  line.resize(std::min(line.size(), columns - 1));
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
