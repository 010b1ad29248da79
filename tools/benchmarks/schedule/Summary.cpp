//===- Summary.cpp - The tables of the schedule benchmark -----------------===//

#include "Measure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

using namespace fsdp::benchmark;

namespace {

using Filter = std::function<bool(const Measurement &)>;

struct Figures {
  size_t count = 0, within1Percent = 0;
  double logSum = 0, worst = 0;

  void add(double ratio) {
    ++count;
    within1Percent += ratio <= 1.01;
    logSum += std::log(ratio);
    worst = std::max(worst, ratio);
  }
  double geomean() const { return count ? std::exp(logSum / double(count)) : NAN; }
  double share() const { return count ? 100. * double(within1Percent) / double(count) : NAN; }
};

} // namespace

static bool isRandom(const Measurement &it) { return !it.isCaptured(); }

static Figures figuresOf(const std::vector<Measurement> &measurements, const Filter &filter) {
  Figures figures;
  for (const Measurement &it : measurements)
    if (filter(it))
      figures.add(it.ratio());
  return figures;
}

static void printRow(const std::string &label, const std::vector<Measurement> &measurements,
                     const Filter &filter) {
  Figures own = figuresOf(measurements, filter);
  if (!own.count)
    return;
  std::printf("%-14s %5zu   %.4f / %.4f  %4.0f %%", label.c_str(), own.count, own.geomean(),
              own.worst, own.share());
  for (size_t i = 0; i < measurements.front().peers.size(); ++i) {
    Figures peer;
    for (const Measurement &it : measurements)
      if (filter(it) && it.peers[i].makespanNs)
        peer.add(*it.peers[i].makespanNs / it.boundNs);
    std::printf("   %.3f / %.2f", peer.geomean(), peer.worst);
  }
  std::printf("\n");
}

static bool printGoal(const char *claim, bool holds, const std::string &figure) {
  std::printf("%-4s %-44s %s\n", holds ? "yes" : "NO", claim, figure.c_str());
  return holds;
}

template <typename... Values> static std::string format(const char *text, Values... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, text, values...);
  return buffer;
}

static bool printGoals(const std::vector<Measurement> &measurements) {
  auto all = [](const Measurement &) { return true; };
  Figures every = figuresOf(measurements, all);
  Figures captured = figuresOf(measurements, &Measurement::isCaptured);
  Figures random = figuresOf(measurements, isRandom);
  size_t lost = 0, invalid = 0, gaps = 0;
  double closed = 0;
  for (const Measurement &it : measurements) {
    // A search ends when it is within 0.1 % of the bound, so a peer counts as better only beyond
    // that.
    lost += it.bestPeerNs() * 1.001 < it.makespanNs;
    invalid += !it.complaint.empty();
    if (std::isfinite(it.bestPeerNs()) && it.bestPeerNs() >= 1.05 * it.boundNs) {
      ++gaps;
      closed += (it.bestPeerNs() - it.makespanNs) / (it.bestPeerNs() - it.boundNs);
    }
  }
  double slowest8B = 0, slowest405B = 0;
  for (const Measurement &it : measurements) {
    if (it.name.find("llama3-8b") != std::string::npos)
      slowest8B = std::max(slowest8B, it.seconds);
    if (it.name.find("llama3-405b") != std::string::npos)
      slowest405B = std::max(slowest405B, it.seconds);
  }
  std::printf("\ngoals\n");
  bool holds =
      printGoal(">= 200 instances, captured ones among them", every.count >= 200 && captured.count,
                format("%zu, %zu captured", every.count, captured.count));
  holds &= printGoal("every plan verifies", invalid == 0, format("%zu do not", invalid));
  if (captured.count) {
    holds &= printGoal("captured: geomean of makespan / bound <= 1.003",
                       captured.geomean() <= 1.003, format("%.4f", captured.geomean()));
    holds &= printGoal("captured: <= 1.02 at worst", captured.worst <= kCapturedGoal,
                       format("%.4f", captured.worst));
  }
  if (random.count)
    holds &= printGoal("random: geomean <= 1.015", random.geomean() <= 1.015,
                       format("%.4f, %.4f at worst", random.geomean(), random.worst));
  holds &= printGoal("never 0.1 % worse than a peer", lost == 0, format("worse on %zu", lost));
  if (gaps)
    holds &=
        printGoal(">= 85 % of the gap closed where peers are 5 % off", closed / double(gaps) >= .85,
                  format("%.1f %% over %zu", 100 * closed / double(gaps), gaps));
  if (slowest8B > 0)
    holds &= printGoal("8B in <= 0.5 s", slowest8B <= .5, format("%.2f s at worst", slowest8B));
  if (slowest405B > 0)
    holds &= printGoal("405B in <= 5 s", slowest405B <= 5, format("%.2f s at worst", slowest405B));
  return holds;
}

bool fsdp::benchmark::printSummary(const std::vector<Measurement> &measurements) {
  std::vector<Measurement> found = measurements;
  std::erase_if(found, [](const Measurement &it) { return it.complaint == "no plan"; });
  if (found.empty())
    return false;
  std::printf("\nmakespan over bound, geomean / worst\n%-14s %5s   %-16s %7s", "", "count", "auto",
              "<= 1.01");
  for (const Measurement::Peer &peer : found.front().peers)
    std::printf(" %14s", peer.name.c_str());
  std::printf("\n");
  for (double cap : kCaps)
    printRow(format("cap %.2f", cap), found,
             [=](const Measurement &it) { return it.capFactor == cap; });
  std::vector<std::string> families;
  for (const Measurement &it : found)
    if (std::find(families.begin(), families.end(), it.family) == families.end())
      families.push_back(it.family);
  for (const std::string &family : families)
    printRow(family, found, [&](const Measurement &it) { return it.family == family; });
  printRow("captured", found, &Measurement::isCaptured);
  printRow("all", found, [](const Measurement &) { return true; });

  std::sort(found.begin(), found.end(),
            [](const Measurement &a, const Measurement &b) { return a.ratio() > b.ratio(); });
  std::printf("\nfarthest from the bound\n");
  for (size_t i = 0; i < std::min<size_t>(found.size(), 12); ++i)
    std::printf("  %.4f  %-36s cap %.2f  bound %-8s %s\n", found[i].ratio(), found[i].name.c_str(),
                found[i].capFactor, found[i].boundKind.c_str(), found[i].origin.c_str());
  bool holds = printGoals(found);
  if (found.size() < measurements.size())
    std::printf("NO   a plan for every instance: %zu have none\n",
                measurements.size() - found.size());
  return holds && found.size() == measurements.size();
}
