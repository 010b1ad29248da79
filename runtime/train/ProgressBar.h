//===- ProgressBar.h - A progress bar on a terminal ----------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_PROGRESSBAR_H
#define FSDP_RUNTIME_PROGRESSBAR_H

#include <string>

namespace fsdp::rt {

/// A progress bar in the last line of standard output, if that is a terminal of known width.
class ProgressBar {
public:
  ProgressBar();
  /// Ends the line.
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar &) = delete;

  bool available() const { return terminal; }
  /// Draws a bar that is full at `done` == 1, and after it `text`, cut to the terminal's width.
  void draw(double done, const std::string &text);
  /// Removes the line, so that others can be printed.
  void clear();

private:
  bool terminal, drawn = false;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PROGRESSBAR_H
