//===- CollectiveCost.h - The cost of a collective by its bytes --*- C++ -*-===//

#ifndef FSDP_SCHEDULE_COLLECTIVECOST_H
#define FSDP_SCHEDULE_COLLECTIVECOST_H

#include <cstdint>
#include <memory>
#include <vector>

namespace fsdp::schedule {

/// The duration of a collective that runs alone: its latency, in which no byte moves, and then the
/// time in which its bytes move.
struct CollectiveDuration {
  double latencyNs = 0, bytesNs = 0;
  double totalNs() const { return latencyNs + bytesNs; }
};

struct CurvePoint {
  int64_t bytes = 0;
  double ns = 0;
  bool operator==(const CurvePoint &) const = default;
};

/// Durations by bytes. Between the sizes of two points the duration is interpolated linearly.
/// Beyond the largest size the duration is proportional to the bytes.
class CollectiveCurve {
public:
  /// At least one point. The points' bytes are positive and increase; their durations do not fall.
  /// `latencyNs` is the duration of a collective of no bytes.
  CollectiveCurve(double latencyNs, std::vector<CurvePoint> points);
  double durationNs(int64_t bytes) const;
  /// The first point has 0 bytes.
  const std::vector<CurvePoint> &getPoints() const { return points; }
  bool operator==(const CollectiveCurve &) const = default;

private:
  std::vector<CurvePoint> points;
};

/// A collective's cost is a line, latencyNs + nsPerByte * bytes, or a curve of durations that is
/// nowhere below this line. With a curve, the duration minus nsPerByte * bytes counts as
/// latency.
struct CollectiveCost {
  double latencyNs = 0;
  double nsPerByte = 0; // bytes of the gathered copy, or before the reduction
  std::shared_ptr<const CollectiveCurve> curve = nullptr; // null: the line is the cost

  CollectiveDuration of(int64_t bytes) const {
    const double bytesNs = nsPerByte * double(bytes);
    if (!curve)
      return {latencyNs, bytesNs};
    const double ns = curve->durationNs(bytes) - bytesNs;
    return {ns > latencyNs ? ns : latencyNs, bytesNs};
  }
  double durationNs(int64_t bytes) const { return of(bytes).totalNs(); }
  CollectiveCost scaled(double factor) const;
  /// The cost of this collective followed by work whose cost is the given line.
  CollectiveCost plus(double latencyNs, double nsPerByte) const;
  bool operator==(const CollectiveCost &other) const {
    return latencyNs == other.latencyNs && nsPerByte == other.nsPerByte &&
           (curve == other.curve || (curve && other.curve && *curve == *other.curve));
  }
};

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_COLLECTIVECOST_H
