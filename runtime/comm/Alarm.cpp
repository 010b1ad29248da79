//===- Alarm.cpp - Reports a failure to ranks on other hosts --------------===//

#include "comm/Alarm.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <charconv>
#include <mutex>
#include <sstream>

using namespace fsdp::rt;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

static const char *const kCalls = "alarm/calls", *const kAnswers = "alarm/answers",
                         *const kReason = "alarm/reason", *const kHeard = "alarm/heard";
/// Time between two checks for answers.
static constexpr milliseconds kPause{10};

static std::string wakingKey(unsigned rank) { return "alarm/wake/" + std::to_string(rank); }

static std::vector<uint8_t> bytesOf(const std::string &text) { return {text.begin(), text.end()}; }

/// The value of `key`, or "" if it is not set.
static std::string valueOf(c10d::Store &store, const std::string &key) {
  return store.check({key}) ? store.get_to_str(key) : "";
}

/// Waits without bound.
static void awaitKey(c10d::Store &store, const std::string &key) {
  constexpr std::chrono::hours kLong{1};
  for (;;) {
    Clock::time_point begin = Clock::now();
    try {
      return store.wait({key}, kLong);
    } catch (const std::exception &) {
      if (Clock::now() - begin < kLong)
        throw;
    }
  }
}

/// The form of a reason in the store: "<rank> <bytes of Status::said()> <message>".
static std::string toText(const Status &reason) {
  return std::to_string(*reason.abortedBy()) + " " + std::to_string(reason.said().size()) + " " +
         reason.message();
}

/// Parses the text of toText().
static Status fromText(const std::string &text) {
  unsigned rank = 0;
  size_t said = 0;
  const char *end = text.data() + text.size();
  const char *rest = std::from_chars(text.data(), end, rank).ptr;
  if (rest == text.data() || rest == end)
    return Status::error(text);
  rest = std::from_chars(rest + 1, end, said).ptr;
  if (rest == end || said > static_cast<size_t>(end - rest - 1))
    return Status::error(text);
  return Status::aborted(rank, std::string(rest + 1, end), said);
}

struct Alarm::State {
  State(c10::intrusive_ptr<c10d::Store> store, unsigned rank, unsigned size, unsigned numLanes)
      : store(std::move(store)), waiting(this->store->clone()), rank(rank), size(size),
        begun(numLanes) {}

  /// Two clients, one for requests and one for the waiting thread, since a client serves one call
  /// at a time.
  const c10::intrusive_ptr<c10d::Store> store, waiting;
  const unsigned rank, size;
  std::vector<std::atomic<uint64_t>> begun; // by lane
  std::atomic<bool> ending{false};
  std::atomic<bool> isSilent{false}; // the store did not answer, and is not asked again
  std::mutex mutex;                  // held only for assignments
  Status heard;     // guarded by `mutex`

  /// "<rank> <collectives of lane 0> <of lane 1> ...", a line per rank.
  std::string answer() const {
    std::string text = std::to_string(rank);
    for (const std::atomic<uint64_t> &count : begun)
      text += " " + std::to_string(count.load());
    return text + "\n";
  }

  void hear(const std::string &text) {
    std::lock_guard lock(mutex);
    heard = fromText(text);
  }

  /// Wakes the listening thread of every rank. Only the first call in a run has an effect.
  void wakeAll() {
    if (store->add(kCalls, 1) != 1)
      return;
    std::vector<std::string> keys;
    for (unsigned peer = 0; peer < size; ++peer)
      keys.push_back(wakingKey(peer));
    store->multiSet(keys, std::vector<std::vector<uint8_t>>(keys.size(), bytesOf("1")));
  }

  /// The waiting thread's function.
  void listen() {
    try {
      awaitKey(*waiting, wakingKey(rank));
      if (ending)
        return;
      waiting->append(kAnswers, bytesOf(answer()));
      awaitKey(*waiting, kReason);
      hear(waiting->get_to_str(kReason));
      waiting->add(kHeard, 1);
    } catch (const std::exception &) {
      // Without a store the thread cannot listen.
    }
  }
};

Alarm::Alarm(Store &store, unsigned rank, unsigned size, unsigned numLanes, bool servesStore)
    : state(std::make_shared<State>(c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store.native()),
                                    rank, size, numLanes)),
      servesStore(servesStore) {
  waits.start([state = state] { state->listen(); });
}

Alarm::~Alarm() {
  constexpr milliseconds kPatience{100};
  state->ending = true;
  if (state->isSilent)
    return;
  try {
    asks.ask(
        [state = state] {
          state->store->set(wakingKey(state->rank), "1");
          return true;
        },
        kPatience);
  } catch (const std::exception &) {
    // The waiting thread has ended, since the store is gone.
  }
}

void Alarm::begins(unsigned lane) { ++state->begun[lane]; }

uint64_t Alarm::begun(unsigned lane) const { return state->begun[lane]; }

Status Alarm::heard() const {
  std::lock_guard lock(state->mutex);
  return state->heard;
}

/// Reads the lines of answers into `roll`. Returns their number.
static size_t readAnswers(const std::string &text, RollCall &roll) {
  size_t answers = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); ++answers) {
    std::istringstream words(line);
    unsigned rank = 0;
    if (!(words >> rank) || rank >= roll.begun.size())
      continue;
    std::vector<uint64_t> &counts = roll.begun[rank].emplace();
    for (uint64_t count; words >> count;)
      counts.push_back(count);
  }
  return answers;
}

RollCall Alarm::call(milliseconds patience) {
  // Running ranks answer at about the same time.
  constexpr milliseconds kBetweenAnswers{150};
  RollCall roll;
  roll.begun.resize(state->size);
  const Clock::time_point end = Clock::now() + patience;
  Clock::time_point latest = end;
  size_t answers = 0;
  bool hasAnswered = false;
  try {
    while (heard().ok()) {
      auto left = std::max(milliseconds(0), std::chrono::ceil<milliseconds>(end - Clock::now()));
      auto text = asks.ask(
          [state = state, isFirst = latest == end] {
            if (isFirst)
              state->wakeAll();
            // The listening thread may not have read it yet.
            if (std::string reason = valueOf(*state->store, kReason); !reason.empty())
              state->hear(reason);
            return valueOf(*state->store, kAnswers);
          },
          left);
      if (!text) {
        // Checked again, since an answer may have come just after the patience ended.
        roll.storeAnswers = hasAnswered;
        state->isSilent = !hasAnswered;
        break;
      }
      hasAnswered = true;
      const Clock::time_point now = Clock::now();
      const size_t found = readAnswers(*text, roll);
      if (latest == end || found > answers)
        latest = now;
      answers = found;
      if (answers == state->size || now + kPause >= end ||
          (answers != 0 && now - latest >= kBetweenAnswers))
        break;
      std::this_thread::sleep_for(kPause);
    }
  } catch (const std::exception &) {
    roll.storeAnswers = false;
  }
  return roll;
}

void Alarm::tell(const Status &reason, milliseconds patience, unsigned ranks) {
  constexpr milliseconds kHearing{150};
  if (state->isSilent)
    return;
  try {
    if (heard().ok()) {
      auto told = asks.ask(
          [state = state, text = toText(reason)] {
            const std::string first = state->store->compareSet(kReason, "", text);
            state->wakeAll();
            if (first != text)
              state->hear(first);
            return true;
          },
          patience);
      if (!told)
        return;
    }
    if (!servesStore)
      return;
    auto count = [state = state] { return state->store->add(kHeard, 0); };
    for (Clock::time_point end = Clock::now() + kHearing; Clock::now() < end;) {
      auto hearing = asks.ask(count, kHearing);
      if (!hearing || *hearing >= ranks)
        return;
      std::this_thread::sleep_for(kPause);
    }
  } catch (const std::exception &) {
    // No rank can be told.
  }
}
