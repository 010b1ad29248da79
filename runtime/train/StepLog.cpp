//===- StepLog.cpp - A JSON line per step ---------------------------------===//

#include "train/StepLog.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
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

void fsdp::rt::formatStep(const StepRecord &record, std::string &line) {
  line = "{\"step\": ";
  char text[24];
  line.append(text, std::to_chars(text, text + sizeof(text), record.step).ptr);
  line += ", \"loss\": ";
  appendNumber(line, record.loss);
  line += ", \"loss_hex\": [";
  const char *separator = "\"";
  for (double loss : record.rankLosses) {
    line += separator;
    appendHex(line, loss);
    line += '"';
    separator = ", \"";
  }
  const std::pair<const char *, double> fields[] = {{"grad_norm", record.gradientNorm},
                                                    {"lr", record.learningRate},
                                                    {"step_ms", record.milliseconds},
                                                    {"samples_per_s", record.samplesPerSecond},
                                                    {"issue_ms", record.issueMilliseconds}};
  line += ']';
  for (const auto &[name, value] : fields) {
    line += ", \"";
    line += name;
    line += "\": ";
    appendNumber(line, value);
  }
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
  return Status::error("--log " + path + ": cannot be written: " + std::strerror(errno));
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

Status StepLog::write(const StepRecord &record) {
  if (descriptor < 0)
    return {};
  formatStep(record, line);
  return write(line);
}

Status StepLog::write(std::string_view text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t written = ::write(descriptor, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR)
      return failed();
    done += written < 0 ? 0 : static_cast<size_t>(written);
  }
  return {};
}
