//===- ContentionProfiler.cpp - Collectives beside other work ---------------===//

#include "CollectiveProfiler.h"
#include "CollectiveStreams.h"
#include "fsdp/CostModel/SizedDuration.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>

using namespace fsdp;
using namespace fsdp::profile;

namespace {

/// One measurement, repeated: all ranks begin together; the slowest rank's median.
class Trial {
public:
  Trial(CollectiveStreams &streams, rt::Communicator &communicator, int samples)
      : streams(streams), communicator(communicator), samples(samples) {}

  template <typename Body> rt::Result<double> measureNs(Body body) {
    using Clock = CollectiveStreams::Clock;
    std::vector<double> durationsNs;
    for (int sample = -1; sample < samples; ++sample) {
      if (rt::Status status = streams.meet(); !status.ok())
        return status;
      Clock::time_point begin = Clock::now();
      if (rt::Status status = body(); !status.ok())
        return status;
      if (sample >= 0)
        durationsNs.push_back(
            std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
    }
    double median = cost::medianOf(std::move(durationsNs));
    rt::Status status =
        communicator.allReduce(rt::kControlLane, &median, 1, FSDP_F64, rt::ReduceOp::Max);
    if (!status.ok())
      return status;
    return median;
  }

private:
  CollectiveStreams &streams;
  rt::Communicator &communicator;
  int samples;
};

} // namespace

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

rt::Result<Contention> fsdp::profile::measureContention(rt::Communicator &communicator,
                                                        std::byte *arena, size_t bytes,
                                                        int samples) {
  CollectiveStreams streams(communicator, arena);
  Trial trial(streams, communicator, samples);
  size_t reducePlace = (2 * bytes + 4095) / 4096 * 4096;
  auto gather = [&] {
    streams.startGather(0, bytes, false);
    return streams.waitForGather();
  };
  auto reduce = [&] {
    streams.startReduction(reducePlace, bytes, false);
    return streams.waitForReduction();
  };
  auto both = [&] {
    streams.startGather(0, bytes, false);
    streams.startReduction(reducePlace, bytes, false);
    if (rt::Status status = streams.waitForGather(); !status.ok())
      return status;
    return streams.waitForReduction();
  };
  rt::Result<double> gatherNs = trial.measureNs(gather), reduceNs = trial.measureNs(reduce),
                     bothNs = trial.measureNs(both);
  for (const rt::Result<double> *result : {&gatherNs, &reduceNs, &bothNs})
    if (!result->ok())
      return result->status();

  constexpr int64_t kSize = 128;
  at::Tensor a = at::rand({kSize, kSize}), b = at::rand({kSize, kSize});
  auto compute = [&](int64_t products) {
    for (int64_t i = 0; i < products; ++i)
      at::mm(a, b);
    return rt::Status();
  };
  constexpr int64_t kProbe = 10;
  rt::Result<double> probeNs = trial.measureNs([&] { return compute(kProbe); });
  if (!probeNs.ok())
    return probeNs.status();
  // Longer than the collective, even where that is slowed to a fraction of its speed.
  int64_t products = 1 + static_cast<int64_t>(3 * *gatherNs / *probeNs * kProbe);
  rt::Result<double> computeNs = trial.measureNs([&] { return compute(products); });
  rt::Result<double> besideNs = trial.measureNs([&] {
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
