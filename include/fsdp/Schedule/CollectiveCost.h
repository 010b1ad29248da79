//===- CollectiveCost.h - What a collective costs by its bytes ---*- C++ -*-===//

#ifndef FSDP_SCHEDULE_COLLECTIVECOST_H
#define FSDP_SCHEDULE_COLLECTIVECOST_H

#include <cstdint>
#include <memory>
#include <vector>

namespace fsdp::schedule {

/// Of a collective that runs beside nothing: first nothing moves, then its bytes do.
struct CollectiveDuration {
  double latencyNs = 0, bytesNs = 0;
  double totalNs() const { return latencyNs + bytesNs; }
};

struct CurvePoint {
  int64_t bytes = 0;
  double ns = 0;
  bool operator==(const CurvePoint &) const = default;
};

/// Measured durations. Between two points on the straight line through them, behind the last in
/// proportion to it.
class CollectiveCurve {
public:
  /// At least one; bytes are positive and increase, durations do not fall. `latencyNs` is the
  /// duration of no bytes.
  CollectiveCurve(double latencyNs, std::vector<CurvePoint> points);
  double durationNs(int64_t bytes) const;
  /// The first is that of no bytes.
  const std::vector<CurvePoint> &getPoints() const { return points; }
  bool operator==(const CollectiveCurve &) const = default;

private:
  std::vector<CurvePoint> points;
};

/// A line, and where durations were measured a curve above it. Of the curve, what exceeds the
/// line's bytes is latency.
struct CollectiveCost {
  double latencyNs = 0;
  double nsPerByte = 0; // of gathered, or of not yet reduced bytes
  std::shared_ptr<const CollectiveCurve> curve = nullptr; // no duration below the line

  CollectiveDuration of(int64_t bytes) const {
    const double bytesNs = nsPerByte * double(bytes);
    if (!curve)
      return {latencyNs, bytesNs};
    const double ns = curve->durationNs(bytes) - bytesNs;
    return {ns > latencyNs ? ns : latencyNs, bytesNs};
  }
  double durationNs(int64_t bytes) const { return of(bytes).totalNs(); }
  CollectiveCost scaled(double factor) const;
  /// With this line's duration on top.
  CollectiveCost plus(double latencyNs, double nsPerByte) const;
  bool operator==(const CollectiveCost &other) const {
    return latencyNs == other.latencyNs && nsPerByte == other.nsPerByte &&
           (curve == other.curve || (curve && other.curve && *curve == *other.curve));
  }
};

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_COLLECTIVECOST_H
