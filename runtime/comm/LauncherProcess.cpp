//===- LauncherProcess.cpp - The process that started the ranks -----------===//

#include "comm/LauncherProcess.h"

#include <fstream>
#include <unistd.h>

using namespace fsdp::rt;

/// True if process `pid` was started with `variable` set; false also if its environment is not ours
/// to read.
static bool startedWith(int pid, const std::string &variable) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry.starts_with(variable + "="))
      return true;
  return false;
}

/// The parent of process `pid`; 0 if it cannot be read.
static int parentOf(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  int parent = 0;
  for (std::string word; file >> word;)
    if (word == "PPid:" && file >> parent)
      return parent;
  return 0;
}

int fsdp::rt::launcherProcess(const std::string &rankVariable) {
  int pid = getppid();
  while (startedWith(pid, rankVariable)) {
    int parent = parentOf(pid);
    if (parent <= 0)
      break;
    pid = parent;
  }
  return pid;
}
