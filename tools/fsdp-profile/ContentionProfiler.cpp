//===- ContentionProfiler.cpp - Collectives beside other work ---------------===//

#include "NetworkProfiler.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>

using namespace fsdp;
using namespace fsdp::profile;

/// Two lanes of durations a <= b that overlap take `together`: a time of contention * a in which
/// both are busy, then the rest of b.
static double laneContention(double oneNs, double otherNs, double togetherNs) {
  double a = std::min(oneNs, otherNs), b = std::max(oneNs, otherNs);
  return std::clamp((togetherNs - (b - a)) / a, 1.0, 2.0);
}

/// A collective that takes `collectiveNs` delays computation by collectiveNs (1 - 1 / contention).
static double computeContention(double computeNs, double collectiveNs, double togetherNs) {
  constexpr double kStandstill = 100;
  double delay = (togetherNs - computeNs) / collectiveNs;
  return delay >= 1 - 1 / kStandstill ? kStandstill : 1 / (1 - std::max(delay, 0.0));
}

rt::Result<Contention> fsdp::profile::measureContention(CollectiveStreams &streams,
                                                        CollectiveTimer &timer, size_t bytes,
                                                        int64_t productSize) {
  auto medianNs = [&](const CollectiveTimer::Body &body) -> rt::Result<double> {
    rt::Result<cost::SizedDuration> duration = timer.measure(body);
    if (!duration.ok())
      return duration.status();
    return duration->medianNs;
  };
  size_t reducePlace = (2 * bytes + 4095) / 4096 * 4096;
  rt::Result<double> gatherNs = medianNs([&] {
    streams.startGather(0, bytes, false);
    return streams.waitForGather();
  });
  rt::Result<double> reduceNs = medianNs([&] {
    streams.startReduction(reducePlace, bytes, false);
    return streams.waitForReduction();
  });
  rt::Result<double> bothNs = medianNs([&] {
    streams.startGather(0, bytes, false);
    streams.startReduction(reducePlace, bytes, false);
    if (rt::Status status = streams.waitForGather(); !status.ok())
      return status;
    return streams.waitForReduction();
  });
  for (const rt::Result<double> *result : {&gatherNs, &reduceNs, &bothNs})
    if (!result->ok())
      return result->status();

  // GPUs multiply bf16 matrices in training.
  auto type = at::TensorOptions(streams.getTensorDevice())
                  .dtype(streams.onHost() ? at::kFloat : at::kBFloat16);
  at::Tensor a = at::rand({productSize, productSize}, type), b = at::rand_like(a),
             product = at::empty_like(a);
  auto compute = [&](int64_t products) {
    for (int64_t i = 0; i < products; ++i)
      at::mm_out(product, a, b);
    return rt::Status();
  };
  constexpr int64_t kProbe = 10;
  rt::Result<double> probeNs = medianNs([&] { return compute(kProbe); });
  if (!probeNs.ok())
    return probeNs.status();
  // Longer than the collective, even where that is slowed to a fraction of its speed.
  int64_t products = 1 + static_cast<int64_t>(3 * *gatherNs / *probeNs * kProbe);
  rt::Result<double> computeNs = medianNs([&] { return compute(products); });
  rt::Result<double> besideNs = medianNs([&] {
    streams.startGather(0, bytes, false);
    (void)compute(products);
    return streams.waitForGather();
  });
  for (const rt::Result<double> *result : {&computeNs, &besideNs})
    if (!result->ok())
      return result->status();
  return Contention{laneContention(*gatherNs, *reduceNs, *bothNs),
                    computeContention(*computeNs, *gatherNs, *besideNs)};
}
