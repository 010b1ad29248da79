//===- ProcessWatch.cpp - Watches whether a process still runs ------------===//

#include "comm/ProcessWatch.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace fsdp::rt;

namespace {
/// The state of a process in /proc.
struct ProcessState {
  char letter = 'X';
  uint64_t startTime = 0; // in the kernel's ticks, plus 1; 0 if the process does not run
};
} // namespace

static ProcessState stateOf(int pid) {
  std::string path = "/proc/" + std::to_string(pid) + "/stat";
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  char text[1024];
  size_t length = file ? std::fread(text, 1, sizeof(text) - 1, file.get()) : 0;
  text[length] = '\0';
  // "pid (name) state …": the name may contain any character, even parentheses.
  const char *end = std::strrchr(text, ')');
  char state;
  unsigned long long start;
  if (!end || std::sscanf(end + 1,
                          " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                          "%*d %llu",
                          &state, &start) != 2)
    return {};
  return {state, state == 'Z' || state == 'X' ? 0 : start + 1};
}

ProcessWatch::ProcessWatch(int pid)
    : pid(pid), handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
  if (!handle.valid())
    startTime = stateOf(pid).startTime;
}

bool ProcessWatch::isAlive() const {
  if (!handle.valid())
    return startTime != 0 && stateOf(pid).startTime == startTime;
  // The pidfd is readable once the process has ended.
  pollfd query{handle.get(), POLLIN, 0};
  return poll(&query, 1, 0) != 1;
}

bool ProcessWatch::isStopped() const {
  const char letter = stateOf(pid).letter;
  return isAlive() && (letter == 'T' || letter == 't');
}

void ProcessWatch::awaitEnd() const {
  constexpr std::chrono::milliseconds kInterval{100};
  pollfd query{handle.get(), POLLIN, 0};
  while (isAlive())
    if (!handle.valid() || poll(&query, 1, -1) < 0)
      std::this_thread::sleep_for(kInterval);
}
