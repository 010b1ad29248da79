//===- ContentionProfiler.cpp - Collectives beside other work ---------------===//

#include "NetworkProfiler.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>

using namespace fsdp;
using namespace fsdp::profile;

static constexpr double kStandstill = 100;
/// Of products, in gathers' durations: more than a collective and what it is slowed by, and less.
static constexpr double kLong = 3, kShort = 0.25;

namespace {

/// Medians, nanoseconds: of each alone, and together from the begin of the one to the end of both.
struct Together {
  double gather = 0, reduction = 0, lanes = 0;
  double products = 0, besideGather = 0, besideReduction = 0, besideBoth = 0;
  double fewProducts = 0, gatherBesideFew = 0;
};

class ContentionTrials {
public:
  ContentionTrials(CollectiveStreams &streams, CollectiveTimer &timer, size_t bytes, int64_t size)
      : streams(streams), timer(timer), bytes(bytes),
        reducePlace((2 * bytes + 4095) / 4096 * 4096) {
    // GPUs multiply bf16 matrices in training.
    auto type = at::TensorOptions(streams.getTensorDevice())
                    .dtype(streams.onHost() ? at::kFloat : at::kBFloat16);
    a = at::rand({size, size}, type);
    b = at::rand_like(a);
    product = at::empty_like(a);
  }

  rt::Result<Together> run();

private:
  rt::Status measure(double &medianNs, bool gathers, bool reduces, int64_t products);

  CollectiveStreams &streams;
  CollectiveTimer &timer;
  const size_t bytes, reducePlace;
  at::Tensor a, b, product;
};

} // namespace

rt::Status ContentionTrials::measure(double &medianNs, bool gathers, bool reduces,
                                     int64_t products) {
  rt::Result<cost::SizedDuration> duration = timer.measure([&]() -> rt::Status {
    if (gathers)
      streams.startGather(0, bytes, false);
    if (reduces)
      streams.startReduction(reducePlace, bytes, false);
    for (int64_t i = 0; i < products; ++i)
      at::mm_out(product, a, b);
    if (gathers)
      if (rt::Status status = streams.waitForGather(); !status.ok())
        return status;
    return reduces ? streams.waitForReduction() : rt::Status();
  });
  if (!duration.ok())
    return duration.status();
  medianNs = duration->medianNs;
  return {};
}

rt::Result<Together> ContentionTrials::run() {
  constexpr int64_t kProbe = 10;
  Together ns;
  double probeNs = 0;
  for (auto [medianNs, gathers, reduces, products] :
       {std::tuple(&ns.gather, true, false, int64_t(0)),
        std::tuple(&ns.reduction, false, true, int64_t(0)),
        std::tuple(&ns.lanes, true, true, int64_t(0)), std::tuple(&probeNs, false, false, kProbe)})
    if (rt::Status status = measure(*medianNs, gathers, reduces, products); !status.ok())
      return status;
  auto countProducts = [&](double ns) { return 1 + static_cast<int64_t>(ns / probeNs * kProbe); };
  const int64_t many = countProducts(kLong * std::max(ns.lanes, ns.gather)),
                few = countProducts(kShort * ns.gather);
  for (auto [medianNs, gathers, reduces, products] :
       {std::tuple(&ns.products, false, false, many),
        std::tuple(&ns.besideGather, true, false, many),
        std::tuple(&ns.besideReduction, false, true, many),
        std::tuple(&ns.besideBoth, true, true, many),
        std::tuple(&ns.fewProducts, false, false, few),
        std::tuple(&ns.gatherBesideFew, true, false, few)})
    if (rt::Status status = measure(*medianNs, gathers, reduces, products); !status.ok())
      return status;
  return ns;
}

/// Collectives that are busy for `busyNs` delay computation by busyNs (1 - 1 / contention).
static double contentionOf(double delayNs, double busyNs) {
  const double delay = delayNs / busyNs;
  return delay >= 1 - 1 / kStandstill ? kStandstill : 1 / (1 - std::max(delay, 0.0));
}

static schedule::Contention fit(const Together &ns) {
  schedule::Contention contention;
  // Two lanes of durations a <= b that overlap: contention * a in which both are busy, then the
  // rest of b.
  const double shorter = std::min(ns.gather, ns.reduction),
               rest = std::max(ns.gather, ns.reduction) - shorter;
  contention.lanes = std::clamp((ns.lanes - rest) / shorter, 1.0, 2.0);
  // Few products that are slowed down last for x, in which the gather does x / contention. The
  // slower the gather the longer it delays many products, so the two are found in turns.
  constexpr int kTurns = 8;
  for (int i = 0; i < kTurns; ++i) {
    contention.gathers =
        contentionOf(ns.besideGather - ns.products, contention.computation * ns.gather);
    const double x = contention.gathers * ns.fewProducts;
    contention.computation =
        x < ns.gather ? std::min(2.0, contentionOf(ns.gatherBesideFew - ns.gather, x)) : 1;
  }
  contention.reductions =
      contentionOf(ns.besideReduction - ns.products, contention.computation * ns.reduction);
  const double ofOne = ns.gather > ns.reduction ? contention.gathers : contention.reductions;
  const double restDelay = contention.computation * rest * (1 - 1 / ofOne);
  contention.several =
      std::max({contention.gathers, contention.reductions,
                contentionOf(ns.besideBoth - ns.products - restDelay,
                             contention.computation * contention.lanes * shorter)});
  return contention;
}

rt::Result<schedule::Contention> fsdp::profile::measureContention(CollectiveStreams &streams,
                                                                  CollectiveTimer &timer,
                                                                  size_t bytes,
                                                                  int64_t productSize) {
  rt::Result<Together> together = ContentionTrials(streams, timer, bytes, productSize).run();
  if (!together.ok())
    return together.status();
  return fit(*together);
}
