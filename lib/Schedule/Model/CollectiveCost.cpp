//===- CollectiveCost.cpp - Measured durations of collectives -------------===//

#include "fsdp/Schedule/CollectiveCost.h"

#include <algorithm>

using namespace fsdp::schedule;

CollectiveCurve::CollectiveCurve(double latencyNs, std::vector<CurvePoint> measured)
    : points(std::move(measured)) {
  points.insert(points.begin(), {0, latencyNs});
}

double CollectiveCurve::durationNs(int64_t bytes) const {
  auto after =
      std::upper_bound(points.begin() + 1, points.end(), bytes,
                       [](int64_t size, const CurvePoint &point) { return size < point.bytes; });
  if (after == points.end())
    return points.back().ns * (double(bytes) / double(points.back().bytes));
  const CurvePoint &before = *(after - 1);
  return before.ns + (after->ns - before.ns) *
                         (double(bytes - before.bytes) / double(after->bytes - before.bytes));
}

/// `cost` with the durations of its curve replaced by `durationOf`.
template <typename DurationOf>
static CollectiveCost withDurations(CollectiveCost cost, DurationOf durationOf) {
  if (!cost.curve)
    return cost;
  std::vector<CurvePoint> points = cost.curve->getPoints();
  for (CurvePoint &point : points)
    point.ns = durationOf(point);
  const double latencyNs = points.front().ns;
  points.erase(points.begin());
  cost.curve = std::make_shared<CollectiveCurve>(latencyNs, std::move(points));
  return cost;
}

CollectiveCost CollectiveCost::scaled(double factor) const {
  return withDurations({latencyNs * factor, nsPerByte * factor, curve},
                       [&](const CurvePoint &point) { return point.ns * factor; });
}

CollectiveCost CollectiveCost::plus(double moreLatencyNs, double moreNsPerByte) const {
  return withDurations({latencyNs + moreLatencyNs, nsPerByte + moreNsPerByte, curve},
                       [&](const CurvePoint &point) {
                         return point.ns + moreLatencyNs + moreNsPerByte * double(point.bytes);
                       });
}
