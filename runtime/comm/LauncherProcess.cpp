//===- LauncherProcess.cpp - The process that started the ranks -----------===//

#include "comm/LauncherProcess.h"
#include "comm/ProcessWatch.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>

using namespace fsdp::rt;

/// True if process `pid` was started with `variable` set; false also if its environment cannot be
/// read.
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

/// True if process `pid` runs a program that launches ranks for `launcher`.
static bool launches(const std::string &launcher, int pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm") >> std::ws, name);
  auto begins = [&](std::initializer_list<const char *> names) {
    return std::ranges::any_of(names, [&](const char *begin) { return name.starts_with(begin); });
  };
  if (launcher == "torchrun") // a Python program, whose process name may be its own
    return begins({"python", "torchrun", "pt_elastic"});
  if (launcher == "mpirun")
    return begins({"mpirun", "mpiexec", "orte", "prte", "hydra"});
  return launcher == "srun" && begins({"slurmstepd"});
}

Status fsdp::rt::followLauncher(const LaunchEnvironment &environment) {
  if (environment.launcher == "environment")
    return {};
  int pid = launcherProcess(environment.rankVariable);
  if (!launches(environment.launcher, pid))
    return pid == 1
               ? Status::error("the launcher, " + environment.launcher + ", ended before rank " +
                               std::to_string(environment.rank) + " began")
               : Status();
  ProcessWatch watch(pid);
  // Checked again, since the id may have been reused before the watch began.
  if (launcherProcess(environment.rankVariable) != pid)
    return Status::error("the launcher, " + environment.launcher + " (pid " + std::to_string(pid) +
                         "), ended when rank " + std::to_string(environment.rank) + " began");
  try {
    std::thread follower([watch = std::move(watch)] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      watch.awaitEnd();
      // The launcher is gone, so an orderly end could not be reported.
      kill(getpid(), SIGKILL);
    });
    pthread_setname_np(follower.native_handle(), "fsdp-follower");
    follower.detach();
  } catch (const std::system_error &error) {
    return Status::error(std::string("no thread to follow the launcher: ") + error.what());
  }
  return {};
}
