//===- RefitCurve.cpp - A curve of durations through measured points ------===//

#include "RefitCurve.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace fsdp;
using namespace fsdp::profile;
using cost::SizedDuration;

namespace {
struct Factor {
  int64_t size;
  double factor;
};
} // namespace

static double interpolateFactor(llvm::ArrayRef<Factor> factors, int64_t size) {
  auto after = llvm::partition_point(factors, [&](const Factor &f) { return f.size < size; });
  if (after == factors.begin())
    return factors.front().factor;
  if (after == factors.end())
    return factors.back().factor;
  const Factor &before = *(after - 1);
  auto logOf = [](int64_t size) { return std::log(static_cast<double>(size)); };
  const double share =
      (logOf(size) - logOf(before.size)) / (logOf(after->size) - logOf(before.size));
  return before.factor + share * (after->factor - before.factor);
}

std::vector<SizedDuration> fsdp::profile::refitCurve(llvm::ArrayRef<SizedDuration> curve,
                                                     llvm::ArrayRef<SizedDuration> measured,
                                                     llvm::function_ref<double(int64_t)> before) {
  auto isOfSize = [](int64_t size) {
    return [=](const SizedDuration &d) { return d.size == size; };
  };
  std::vector<Factor> factors;
  for (const SizedDuration &duration : measured) {
    // A point of the curve itself: the model may have lowered it to be monotonic.
    auto point = llvm::find_if(curve, isOfSize(duration.size));
    const double ns = point != curve.end() ? point->medianNs : before(duration.size);
    factors.push_back({duration.size, ns > 0 ? duration.medianNs / ns : 1});
  }
  std::vector<SizedDuration> result = measured.vec();
  for (SizedDuration point : curve) {
    if (llvm::any_of(measured, isOfSize(point.size)))
      continue;
    point.medianNs *= interpolateFactor(factors, point.size);
    result.push_back(point);
  }
  llvm::sort(result,
             [](const SizedDuration &a, const SizedDuration &b) { return a.size < b.size; });
  return result;
}
