//===- Console.cpp - Progress on standard output --------------------------===//

#include "train/Console.h"
#include "plan/PlanMemory.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace fsdp::rt;

/// 1234567 as "1,234,567".
static std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

static std::string readableBytes(int64_t bytes) {
  const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024)
    return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, units[unit]);
  return text;
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

Console::Console(const TrainOptions &options, const PlanView &plan, const char *backend,
                 const RunFigures &figures)
    : options(options), plan(plan), backend(backend), figures(figures) {}

std::string Console::rate(double samplesPerSecond) const {
  bool tokens = figures.tokensPerSample != 0;
  double value = samplesPerSecond * static_cast<double>(tokens ? figures.tokensPerSample : 1);
  const char *unit = tokens ? " tokens/s" : " samples/s";
  if (!std::isfinite(value))
    return tokens ? "- tokens/s" : "- samples/s";
  if (value >= 1000)
    return grouped(std::llround(value)) + unit;
  char text[48];
  std::snprintf(text, sizeof(text), "%.1f%s", value, unit);
  return text;
}

std::string Console::amount(int64_t samples) const {
  std::string text = grouped(samples) + " sample" + plural(samples);
  const int64_t tokens = samples * figures.tokensPerSample;
  return tokens == 0 ? text : text + ", " + grouped(tokens) + " token" + plural(tokens);
}

/// "parameters 1.6 MiB, ...": a rank's memory by use.
static std::string memoryText(const PlanView &plan) {
  const PlanMemory memory = memoryOf(plan);
  std::string text;
  auto add = [&](const char *what, int64_t bytes) {
    if (bytes != 0)
      text += (text.empty() ? "" : ", ") + std::string(what) + " " + readableBytes(bytes);
  };
  add("parameters", memory.shards);
  add("their copies to gather", memory.gatherCopies);
  add("optimizer state", memory.optimizerState);
  add("inputs, buffers and constants", memory.tensors);
  add("activations, gathered parameters and gradients", memory.working);
  add("parameters on the host", memory.hostParameters);
  add("optimizer state on the host", memory.hostState);
  add("gradients, activations and chunks on the host", memory.hostWaiting);
  return text;
}

void Console::begin(const std::string &origin, std::span<const std::string> notes) {
  if (options.quiet)
    return;
  const fsdp_plan &tables = plan.tables();
  std::printf("%s on %u rank%s (%s), %u thread%s each, %s\n", plan.string(tables.model),
              tables.world_size, plural(tables.world_size), backend, options.threads,
              plural(options.threads), origin.c_str());
  const ShapeFigures &first = figures.shapes.front();
  const bool hasOne = figures.shapes.size() == 1;
  const std::string ofShape =
      hasOne ? grouped(first.samplesPerStep) + " sample" + plural(first.samplesPerStep)
             : grouped(static_cast<int64_t>(figures.shapes.size())) + " shapes";
  std::printf("%s step%s of %s, %s samples in %s, arena %s per rank\n",
              grouped(figures.steps).c_str(), plural(figures.steps), ofShape.c_str(),
              grouped(figures.samplesInData).c_str(), figures.data.c_str(),
              readableBytes(tables.arena_bytes).c_str());
  for (size_t shape = 0; !hasOne && shape < figures.shapes.size(); ++shape)
    std::printf("  shape %zu: %s, %s samples a step, %s in the data\n", shape + 1,
                figures.shapes[shape].inputs.c_str(),
                grouped(figures.shapes[shape].samplesPerStep).c_str(),
                grouped(figures.shapes[shape].samplesInData).c_str());
  std::printf("memory per rank: %s\n", memoryText(plan).c_str());
  for (const std::string &note : notes)
    std::printf("%s\n", note.c_str());
  std::fflush(stdout);
}

void Console::note(const std::string &text) {
  if (options.quiet)
    return;
  bar.clear();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Console::step(const StepRecord &record, bool last) {
  ++stepsDone;
  totalMilliseconds += record.milliseconds;
  if (stepsDone > 1) {
    flopsOfOthers += record.modelFlops;
    boundOfOthers += record.boundMilliseconds;
  }
  samplesDone += record.stepSamples;
  if (stepsDone == 1) {
    firstMilliseconds = record.milliseconds;
    firstSamples = record.stepSamples;
  }
  Clock::time_point now = Clock::now();
  const auto interval = std::chrono::milliseconds(bar.available() ? 100 : 1000);
  if (options.quiet || (stepsDone != 1 && !last && now - lastLine < interval))
    return;
  lastLine = now;
  int width = static_cast<int>(std::to_string(figures.steps).size());
  char text[256];
  const std::string scale =
      record.lossScale != 0 ? "  loss scale " + shortestNumber(record.lossScale) : "";
  std::snprintf(text, sizeof(text), "step %*lld/%lld  loss %.4f  grad norm %.4g  lr %.3g%s  %s",
                width, static_cast<long long>(record.step), static_cast<long long>(figures.steps),
                record.loss, record.gradientNorm, record.learningRate, scale.c_str(),
                rate(record.samplesPerSecond).c_str());
  if (bar.available() && !last)
    return bar.draw(static_cast<double>(record.step) / static_cast<double>(figures.steps), text);
  bar.clear();
  std::printf("%s\n", text);
  std::fflush(stdout);
}

void Console::tellWork(double milliseconds) const {
  if (flopsOfOthers != 0) {
    const double tflops = flopsOfOthers / milliseconds / 1e9;
    std::printf("arithmetic of the model: %.3g TFLOP/s per rank", tflops);
    if (options.peakTflops != 0)
      std::printf(", %.3g %% of --peak-tflops %s (MFU)", 100 * tflops / options.peakTflops,
                  shortestNumber(options.peakTflops).c_str());
    std::printf("\n");
  }
  if (boundOfOthers != 0)
    std::printf("steps take %.3g times the bound of the schedule, which is %.3g ms per step in the "
                "compiler's cost model\n",
                milliseconds / boundOfOthers, boundOfOthers / static_cast<double>(stepsDone - 1));
}

void Console::end(const ExecutorStatistics &statistics, bool interrupted) {
  if (options.quiet)
    return;
  // The first step also measures temporaries, so it is reported separately.
  const bool others = stepsDone > 1;
  const double milliseconds = others ? totalMilliseconds - firstMilliseconds : firstMilliseconds;
  const int64_t samples = others ? samplesDone - firstSamples : firstSamples;
  const double mean = others ? milliseconds / static_cast<double>(stepsDone - 1) : milliseconds;
  bar.clear();
  std::printf("%s %s step%s in %.1f s: %.3g ms per step (first %.3g ms), %s; seen: %s\n",
              interrupted ? "stopped by a signal after" : "done:", grouped(stepsDone).c_str(),
              plural(stepsDone), totalMilliseconds / 1000, mean, firstMilliseconds,
              rate(static_cast<double>(samples) * 1000 / milliseconds).c_str(),
              amount(samplesDone).c_str());
  if (others)
    tellWork(milliseconds);
  std::printf("last step, rank 0: %s allocations at planned addresses, %s by the ordinary "
              "allocator, %s copied, scratch %s, %s operator%s by kernels of the runtime\n",
              grouped(statistics.plannedAllocations).c_str(),
              grouped(statistics.fallbackAllocations).c_str(),
              readableBytes(statistics.copiedBytes).c_str(),
              readableBytes(statistics.scratchBytes).c_str(),
              grouped(statistics.replacedOperators).c_str(), plural(statistics.replacedOperators));
  std::vector<std::pair<int64_t, std::string>> fallbacks;
  for (const auto &[name, count] : statistics.fallbacksByOperator)
    fallbacks.emplace_back(-count, name);
  std::sort(fallbacks.begin(), fallbacks.end());
  for (const auto &[count, name] : fallbacks)
    std::printf("  by the ordinary allocator in %s: %s\n", name.c_str(), grouped(-count).c_str());
  for (const auto &[call, copies] : statistics.relaid)
    std::printf("  copied to the strides of the plan in %s: %s result%s, %s\n", call.c_str(),
                grouped(copies.results).c_str(), plural(copies.results),
                readableBytes(copies.bytes).c_str());
  std::fflush(stdout);
}

void Console::skipped(const std::string &outlier) {
  if (options.quiet)
    return;
  bar.clear();
  std::printf("%s: no update\n", outlier.c_str());
  std::fflush(stdout);
}

void Console::saved(const char *what, const std::string &path) {
  if (options.quiet)
    return;
  std::printf("%s saved to %s\n", what, path.c_str());
  std::fflush(stdout);
}

void Console::evaluation(const EvaluationRecord &record) {
  if (options.quiet)
    return;
  bar.clear();
  std::printf("evaluation%s after step %s: loss %.4f", record.isOfAverage ? " of the average" : "",
              grouped(record.step).c_str(), record.loss);
  if (record.isOfTokens)
    std::printf("  perplexity %.5g", std::exp(record.loss));
  std::printf("  on %s sample%s in %.3g ms\n", grouped(record.samples).c_str(),
              plural(record.samples), record.milliseconds);
  std::fflush(stdout);
}

void Console::checkpoint(const SavedCheckpoint &saved) {
  if (options.quiet)
    return;
  bar.clear();
  std::printf("checkpoint of step %s: %s in %s, %.1f ms, of which steps stood still %.1f ms\n",
              grouped(saved.manifest.step).c_str(),
              readableBytes(totalBytes(saved.manifest.files)).c_str(), saved.path.c_str(),
              saved.milliseconds, saved.exposedMilliseconds);
  std::fflush(stdout);
}
