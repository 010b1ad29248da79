//===- Interruption.cpp - What a signal ends is saved first ----------------===//

#include "Interruption.h"

using namespace fsdp::plan_tool;

Interruption::Interruption(std::function<void()> save) : save(std::move(save)) {
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM}) {
    struct sigaction action;
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN)
      continue;
    sigaddset(&signals, signal);
    wakeUp = signal;
  }
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  if (wakeUp != 0)
    thread = std::thread([this] { wait(); });
}

Interruption::~Interruption() {
  isOver = true;
  if (thread.joinable()) {
    pthread_kill(thread.native_handle(), wakeUp);
    thread.join();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Interruption::wait() {
  int signal = 0;
  sigwait(&signals, &signal);
  if (isOver)
    return;
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  save();
  // Files that `save` writes may have set handlers. The signal, rather than an exit status, tells a
  // shell to end its loop.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}
