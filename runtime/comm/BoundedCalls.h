//===- BoundedCalls.h - Calls that may hang, with a time limit -*- C++ -*-===//
//
// Some library calls wait for a peer without bound. BoundedCalls runs them one after another on a
// thread of its own, and each caller waits at most as long as it chooses. A call that hangs blocks
// only that thread, and holds no lock that other threads take.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_BOUNDEDCALLS_H
#define FSDP_RUNTIME_COMM_BOUNDEDCALLS_H

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>

namespace fsdp::rt {

class BoundedCalls {
public:
  /// Throws std::system_error if there is no thread.
  BoundedCalls();
  /// Discards calls that have not begun. A call that hangs is abandoned.
  ~BoundedCalls();
  BoundedCalls(const BoundedCalls &) = delete;
  BoundedCalls &operator=(const BoundedCalls &) = delete;

  /// Runs `call` after the calls before it. It may outlive this object and its caller, so it must
  /// own everything that it uses. Callable from any thread, as ask() is.
  template <typename Call> std::future<std::invoke_result_t<Call>> start(Call call) {
    using Answer = std::invoke_result_t<Call>;
    auto task = std::make_shared<std::packaged_task<Answer()>>(std::move(call));
    std::future<Answer> answer = task->get_future();
    post([task] { (*task)(); });
    return answer;
  }

  /// The result or exception of `call`, if it ends within `patience`.
  template <typename Call>
  std::optional<std::invoke_result_t<Call>> ask(Call call, std::chrono::milliseconds patience) {
    auto answer = start(std::move(call));
    if (answer.wait_for(patience) != std::future_status::ready)
      return std::nullopt;
    return answer.get();
  }

private:
  struct Queue;
  void post(std::function<void()> call);

  std::shared_ptr<Queue> queue;
  std::thread thread;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_BOUNDEDCALLS_H
