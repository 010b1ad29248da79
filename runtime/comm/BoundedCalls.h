//===- BoundedCalls.h - Calls that may hang, waited for with patience -*- C++ -*-===//
//
// Some calls of libraries wait for a peer without bound. They run one after another on a thread of
// their own, and whoever asks for one waits as long as it likes to. A call that hangs costs that
// thread, and holds no lock that others take.
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
  /// Calls that have not begun do not run. One that hangs is left behind.
  ~BoundedCalls();
  BoundedCalls(const BoundedCalls &) = delete;
  BoundedCalls &operator=(const BoundedCalls &) = delete;

  /// Has `call` run after those before it. It may outlive this object and whoever asks for it: it
  /// holds what it uses. Callable from any thread, as ask() is.
  template <typename Call> std::future<std::invoke_result_t<Call>> start(Call call) {
    using Answer = std::invoke_result_t<Call>;
    auto task = std::make_shared<std::packaged_task<Answer()>>(std::move(call));
    std::future<Answer> answer = task->get_future();
    post([task] { (*task)(); });
    return answer;
  }

  /// What `call` returns, or throws, if it ends within `patience`.
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
