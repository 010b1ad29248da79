//===- EventFile.h - Figures of steps for TensorBoard ------------*- C++ -*-===//
//
// An event file is a sequence of records, each its length, a checksum of that, an Event message of
// protobuf (tensorflow/core/util/event.proto), and a checksum of that; lib/io/record_writer.cc.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EVENTFILE_H
#define FSDP_RUNTIME_EVENTFILE_H

#include "train/StepLog.h"

namespace fsdp::rt {

/// An event file of --tensorboard DIR: loss, grad_norm, lr, samples_per_s and, of tokens,
/// tokens_per_s of each step. Move-only.
class EventFile {
public:
  EventFile() = default;
  EventFile(EventFile &&other) noexcept;
  EventFile &operator=(EventFile &&other) noexcept;
  ~EventFile();

  /// Makes a new file in `folder`, which is made if there is none. A reader takes what earlier
  /// files say of `firstStep` and later steps as overtaken. Errors name the flag and the path.
  static Result<EventFile> open(const std::string &folder, int64_t firstStep);
  /// Writes the step's figures at once. Without a file: nothing.
  Status write(const StepRecord &record);
  /// The same of an evaluation: eval_loss and, of tokens, perplexity.
  Status write(const EvaluationRecord &record);

private:
  using Figure = std::pair<const char *, double>;
  Status write(int64_t step, std::span<const Figure> figures);
  Status append(const std::string &event);

  int descriptor = -1;
  std::string path;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_EVENTFILE_H
