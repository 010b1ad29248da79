//===- AlignEvents.cpp - Alignment of two schedules' events ---------------===//

#include "fsdp/Explain/ScheduleDiff.h"

using namespace fsdp::explain;

/// E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986). furthest
/// is indexed by diagonal x - y; `rounds` keeps it for the way back.
std::vector<AlignedEvent> fsdp::explain::align(const std::vector<ScheduleEvent> &left,
                                               const std::vector<ScheduleEvent> &right) {
  int64_t numLeft = static_cast<int64_t>(left.size()),
          numRight = static_cast<int64_t>(right.size());
  int64_t offset = numLeft + numRight + 1;
  std::vector<int64_t> furthest(2 * offset + 1, 0);
  std::vector<std::vector<int64_t>> rounds; // furthest on diagonals -d, ..., d before round d
  auto goesDown = [](const auto &reached, int64_t diagonal, int64_t round) {
    return diagonal == -round ||
           (diagonal != round && reached(diagonal - 1) < reached(diagonal + 1));
  };
  bool isDone = false;
  for (int64_t round = 0; !isDone; ++round) {
    rounds.emplace_back(furthest.begin() + offset - round - 1,
                        furthest.begin() + offset + round + 2);
    auto reached = [&](int64_t diagonal) { return furthest[offset + diagonal]; };
    for (int64_t diagonal = -round; diagonal <= round && !isDone; diagonal += 2) {
      int64_t x =
          goesDown(reached, diagonal, round) ? reached(diagonal + 1) : reached(diagonal - 1) + 1;
      int64_t y = x - diagonal;
      while (x < numLeft && y < numRight && left[x].isSameAs(right[y]))
        ++x, ++y;
      furthest[offset + diagonal] = x;
      isDone = x >= numLeft && y >= numRight;
    }
  }

  std::vector<AlignedEvent> aligned;
  int64_t x = numLeft, y = numRight;
  auto addCommon = [&](int64_t untilX, int64_t untilY) {
    while (x > untilX && y > untilY)
      aligned.push_back({static_cast<uint32_t>(--x), static_cast<uint32_t>(--y), false});
  };
  for (int64_t round = static_cast<int64_t>(rounds.size()) - 1; round > 0; --round) {
    auto reached = [&](int64_t diagonal) { return rounds[round][diagonal + round + 1]; };
    int64_t diagonal = x - y;
    bool isDown = goesDown(reached, diagonal, round);
    int64_t beforeX = reached(isDown ? diagonal + 1 : diagonal - 1);
    int64_t beforeY = beforeX - (isDown ? diagonal + 1 : diagonal - 1);
    addCommon(isDown ? beforeX : beforeX + 1, isDown ? beforeY + 1 : beforeY);
    if (isDown)
      aligned.push_back({std::nullopt, static_cast<uint32_t>(--y), false});
    else
      aligned.push_back({static_cast<uint32_t>(--x), std::nullopt, false});
  }
  addCommon(0, 0);
  std::reverse(aligned.begin(), aligned.end());
  return aligned;
}
