//===- EventFile.cpp - Figures of steps for TensorBoard -------------------===//

#include "train/EventFile.h"
#include "checkpoint/Crc32c.h"
#include "train/AppendBytes.h"

#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace fsdp::rt;

namespace {
/// Encodes a protobuf message, field by field.
class Message {
public:
  void whole(unsigned field, uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void number(unsigned field, double value) {
    varint(field << 3 | 1);
    raw(&value, sizeof(value));
  }
  void number(unsigned field, float value) {
    varint(field << 3 | 5);
    raw(&value, sizeof(value));
  }
  void bytes(unsigned field, const std::string &value) {
    varint(field << 3 | 2);
    varint(value.size());
    text += value;
  }
  std::string text;

private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      text += static_cast<char>(value | 0x80);
    text += static_cast<char>(value);
  }
  void raw(const void *value, size_t size) { text.append(static_cast<const char *>(value), size); }
};

// Fields of Event, Summary and SessionLog.
enum EventField : unsigned {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSessionLog = 7
};
enum SummaryField : unsigned { kValue = 1, kTag = 1, kSimpleValue = 2 };
enum SessionField : unsigned { kStatus = 1, kStart = 1 };
} // namespace

static double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

static Message eventAt(int64_t step) {
  Message event;
  event.number(kWallTime, now());
  if (step != 0)
    event.whole(kStep, static_cast<uint64_t>(step));
  return event;
}

static void appendWord(std::string &text, uint64_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i)
    text += static_cast<char>(value >> (8 * i) & 0xff);
}

static void appendChecksum(std::string &record, std::string_view of) {
  const uint32_t sum = crc32c(0, std::as_bytes(std::span(of)));
  appendWord(record, (sum >> 15 | sum << 17) + 0xa282ead8u, 4);
}

EventFile::EventFile(EventFile &&other) noexcept { *this = std::move(other); }

EventFile &EventFile::operator=(EventFile &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(path, other.path);
  return *this;
}

EventFile::~EventFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Result<EventFile> EventFile::open(const std::string &folder, int64_t firstStep) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Status::error("--tensorboard " + folder + ": " + error.message());
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, HOST_NAME_MAX);
  EventFile file;
  // Readers read files in the order of their names.
  file.path = folder + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(now() * 1e6)) +
              "." + host + "." + std::to_string(::getpid());
  file.descriptor = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor < 0)
    return Status::error("--tensorboard " + folder + ": cannot make '" + file.path +
                         "': " + std::strerror(errno));
  Message version = eventAt(0), start = eventAt(firstStep), session;
  version.bytes(kFileVersion, "brain.Event:2");
  session.whole(kStatus, kStart);
  start.bytes(kSessionLog, session.text);
  for (const Message &event : {version, start})
    if (Status status = file.append(event.text); !status.ok())
      return status;
  return file;
}

Status EventFile::append(const std::string &event) {
  std::string record;
  appendWord(record, event.size(), 8);
  appendChecksum(record, record);
  record += event;
  appendChecksum(record, event);
  if (!appendBytes(descriptor, record))
    return Status::error("--tensorboard: cannot write '" + path + "': " + std::strerror(errno));
  return {};
}

Status EventFile::write(int64_t step, std::span<const Figure> figures) {
  if (descriptor < 0)
    return {};
  Message summary;
  for (const auto &[tag, value] : figures) {
    Message item;
    item.bytes(kTag, tag);
    item.number(kSimpleValue, static_cast<float>(value));
    summary.bytes(kValue, item.text);
  }
  Message event = eventAt(step);
  event.bytes(kSummary, summary.text);
  return append(event.text);
}

Status EventFile::write(const StepRecord &record) {
  std::vector<Figure> figures = {{"loss", record.loss},
                                 {"grad_norm", record.gradientNorm},
                                 {"lr", record.learningRate},
                                 {"samples_per_s", record.samplesPerSecond}};
  if (record.tokensPerSample)
    figures.push_back({"tokens_per_s", record.tokensPerSecond()});
  if (record.lossScale != 0)
    figures.push_back({"loss_scale", record.lossScale});
  return write(record.step, figures);
}

Status EventFile::write(const EvaluationRecord &record) {
  const Figure figures[] = {{"eval_loss", record.loss}, {"perplexity", std::exp(record.loss)}};
  return write(record.step, std::span(figures).first(record.isOfTokens ? 2 : 1));
}
