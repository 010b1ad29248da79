//===- StepLog.cpp - A JSON line per step ---------------------------------===//

#include "train/StepLog.h"
#include "train/AppendBytes.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace fsdp::rt;

static void appendNumber(std::string &line, double value) {
  if (!std::isfinite(value)) {
    line += "null";
    return;
  }
  char text[32];
  line.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

static void appendHex(std::string &line, double value) {
  char text[40];
  // Python writes zero without the 13 digits and NaN without a sign.
  if (value == 0)
    std::snprintf(text, sizeof(text), "%s", std::signbit(value) ? "-0x0.0p+0" : "0x0.0p+0");
  else if (std::isnan(value))
    std::snprintf(text, sizeof(text), "nan");
  else
    std::snprintf(text, sizeof(text), "%.13a", value);
  line += text;
}

// Keeps lines short for any number of ranks.
static constexpr size_t kMostRankLosses = 16;

static void appendLosses(std::string &line, std::span<const double> losses) {
  if (losses.size() > kMostRankLosses) {
    auto [least, greatest] = std::ranges::minmax(losses);
    line += ", \"loss_min\": ";
    appendNumber(line, least);
    line += ", \"loss_max\": ";
    return appendNumber(line, greatest);
  }
  line += ", \"loss_hex\": [";
  const char *separator = "\"";
  for (double loss : losses) {
    line += separator;
    appendHex(line, loss);
    line += '"';
    separator = ", \"";
  }
  line += ']';
}

static void appendNumber(std::string &line, int64_t value) {
  char text[24];
  line.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

template <typename T> static void appendField(std::string &line, const char *name, T value) {
  line += ", \"";
  line += name;
  line += "\": ";
  appendNumber(line, value);
}

void fsdp::rt::formatStep(const StepRecord &record, std::string &line) {
  line = "{\"step\": ";
  appendNumber(line, record.step);
  appendField(line, "loss", record.loss);
  appendLosses(line, record.rankLosses);
  appendField(line, "grad_norm", record.gradientNorm);
  appendField(line, "lr", record.learningRate);
  appendField(line, "step_ms", record.milliseconds);
  appendField(line, "samples_per_s", record.samplesPerSecond);
  appendField(line, "issue_ms", record.issueMilliseconds);
  appendField(line, "samples", record.samples);
  if (record.tokensPerSample) {
    appendField(line, "tokens", record.samples * record.tokensPerSample);
    appendField(line, "tokens_per_s", record.tokensPerSecond());
  }
  if (record.modelFlops != 0) {
    appendField(line, "tflops_per_s", record.tflopsPerSecond());
    if (record.peakTflops != 0)
      appendField(line, "mfu", record.tflopsPerSecond() / record.peakTflops);
  }
  if (record.boundMilliseconds != 0)
    appendField(line, "over_bound", record.milliseconds / record.boundMilliseconds);
  if (record.shape)
    appendField(line, "shape", static_cast<int64_t>(record.shape));
  if (record.lossScale != 0)
    appendField(line, "loss_scale", record.lossScale);
  if (record.skipped)
    line += ", \"skipped\": true";
  line += "}\n";
}

StepLog::StepLog(StepLog &&other) noexcept
    : descriptor(std::exchange(other.descriptor, -1)), path(std::move(other.path)) {}

StepLog &StepLog::operator=(StepLog &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(path, other.path);
  return *this;
}

StepLog::~StepLog() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status StepLog::failed() const {
  return Status::error("--log-file " + path + ": cannot be written: " + std::strerror(errno));
}

Status StepLog::endLastLine() {
  struct stat information = {};
  if (::fstat(descriptor, &information) != 0)
    return failed();
  if (!S_ISREG(information.st_mode) || information.st_size == 0)
    return {};
  const int reader = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char last = '\n';
  const bool read = reader >= 0 && ::pread(reader, &last, 1, information.st_size - 1) == 1;
  Status status = read ? Status() : failed();
  if (reader >= 0)
    ::close(reader);
  return status.ok() && last != '\n' ? write("\n") : status;
}

Result<StepLog> StepLog::open(const std::string &path, bool append) {
  StepLog log;
  log.path = path;
  log.descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0666);
  if (log.descriptor < 0)
    return log.failed();
  if (append)
    if (Status status = log.endLastLine(); !status.ok())
      return status;
  return log;
}

Status StepLog::write(const EvaluationRecord &record) {
  if (descriptor < 0)
    return {};
  line = "{\"step\": ";
  appendNumber(line, record.step);
  appendField(line, "eval_loss", record.loss);
  appendLosses(line, record.rankLosses);
  if (record.isOfTokens)
    appendField(line, "perplexity", std::exp(record.loss));
  appendField(line, "eval_samples", record.samples);
  appendField(line, "eval_ms", record.milliseconds);
  if (record.isOfAverage)
    line += ", \"ema\": true";
  line += "}\n";
  return write(line);
}

Status StepLog::write(const StepRecord &record) {
  if (descriptor < 0)
    return {};
  formatStep(record, line);
  return write(line);
}

static std::string lineOf(const nlohmann::ordered_json &json) {
  // Paths need not be UTF-8.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status StepLog::write(const SavedCheckpoint &saved) {
  if (descriptor < 0)
    return {};
  return write(lineOf({{"step", saved.manifest.step},
                       {"checkpoint", saved.path},
                       {"bytes", totalBytes(saved.manifest.files)},
                       {"save_ms", saved.milliseconds},
                       {"exposed_ms", saved.exposedMilliseconds}}));
}

Status StepLog::write(const ReadCheckpoint &read) {
  if (descriptor < 0)
    return {};
  return write(lineOf({{"step", read.step},
                       {"resumed", read.path},
                       {"bytes", read.bytes},
                       {"load_ms", read.milliseconds}}));
}

Status StepLog::write(std::string_view text) {
  return appendBytes(descriptor, text) ? Status() : failed();
}
