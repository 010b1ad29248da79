//===- ContentionProfiler.cpp - Measures contention of collectives --------===//

#include "NetworkProfiler.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>

using namespace fsdp;
using namespace fsdp::profile;

static constexpr double kStandstill = 100;
/// Total duration of the matrix products, relative to a gather: longer than the overlapping
/// collective, and much shorter.
static constexpr double kLong = 3, kShort = 0.25;

namespace {

/// Medians in nanoseconds, each from the begin of the first to the end of the last operation.
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
  struct Trial {
    double *medianNs;
    bool gathers, reduces;
    int64_t products;
  };
  rt::Status measure(std::initializer_list<Trial> trials);
  rt::Status measure(const Trial &trial);

  CollectiveStreams &streams;
  CollectiveTimer &timer;
  const size_t bytes, reducePlace;
  at::Tensor a, b, product;
};

} // namespace

rt::Status ContentionTrials::measure(const Trial &trial) {
  rt::Result<cost::SizedDuration> duration = timer.measure([&]() -> rt::Status {
    if (trial.gathers)
      streams.startGather(0, bytes, false);
    if (trial.reduces)
      streams.startReduction(reducePlace, bytes, false);
    for (int64_t i = 0; i < trial.products; ++i)
      at::mm_out(product, a, b);
    if (trial.gathers)
      if (rt::Status status = streams.waitForGather(); !status.ok())
        return status;
    return trial.reduces ? streams.waitForReduction() : rt::Status();
  });
  if (!duration.ok())
    return duration.status();
  *trial.medianNs = duration->medianNs;
  return {};
}

rt::Status ContentionTrials::measure(std::initializer_list<Trial> trials) {
  for (const Trial &trial : trials)
    if (rt::Status status = measure(trial); !status.ok())
      return status;
  return {};
}

rt::Result<Together> ContentionTrials::run() {
  constexpr int64_t kProbe = 10;
  Together ns;
  double probeNs = 0;
  const std::initializer_list<Trial> alone = {{&ns.gather, true, false, 0},
                                              {&ns.reduction, false, true, 0},
                                              {&ns.lanes, true, true, 0},
                                              {&probeNs, false, false, kProbe}};
  if (rt::Status status = measure(alone); !status.ok())
    return status;
  auto countProducts = [&](double ns) { return 1 + static_cast<int64_t>(ns / probeNs * kProbe); };
  const int64_t many = countProducts(kLong * std::max(ns.lanes, ns.gather)),
                few = countProducts(kShort * ns.gather);
  const std::initializer_list<Trial> beside = {
      {&ns.products, false, false, many},       {&ns.besideGather, true, false, many},
      {&ns.besideReduction, false, true, many}, {&ns.besideBoth, true, true, many},
      {&ns.fewProducts, false, false, few},     {&ns.gatherBesideFew, true, false, few}};
  if (rt::Status status = measure(beside); !status.ok())
    return status;
  return ns;
}

/// The contention factor of work that is delayed by `delayNs` while other work runs for `busyNs`:
/// delayNs = busyNs (1 - 1 / factor).
static double contentionOf(double delayNs, double busyNs) {
  const double delay = delayNs / busyNs;
  return delay >= 1 - 1 / kStandstill ? kStandstill : 1 / (1 - std::max(delay, 0.0));
}

static schedule::Contention fit(const Together &ns) {
  schedule::Contention contention;
  // Two lanes with durations a <= b overlap: both are busy for contention * a, then the rest of b
  // follows.
  const double shorter = std::min(ns.gather, ns.reduction),
               rest = std::max(ns.gather, ns.reduction) - shorter;
  contention.lanes = std::clamp((ns.lanes - rest) / shorter, 1.0, 2.0);
  // A few products take time x beside the gather, in which the gather does x / contention of its
  // work. A slower gather delays many products for longer, so the two factors depend on each other.
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
