//===- BatchReader.h - Batches from a file -----------------------*- C++ -*-===//
//
// Two kinds of files. A safetensors file has one tensor per input of the step, whose first
// dimension counts samples. A file of raw tokens, for language models, is cut into windows: with
// inputs of shape [B, T], sample s is tokens [s * T, s * T + T], of which the first T go to the
// first input and the last T to the second (the target of each token is the next one); with a
// single input, sample s is tokens [s * T, s * T + T).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_BATCHREADER_H
#define FSDP_RUNTIME_BATCHREADER_H

#include "Status.h"
#include "data/IndexUses.h"
#include "plan/PlanView.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp::rt {

/// An input of the step: [B, ...] per rank, contiguous.
struct InputShape {
  std::string name;
  fsdp_dtype dtype;
  std::vector<int64_t> sizes;
};

/// The plan's inputs of one microbatch, checked: at least one, contiguous, all with the same first
/// dimension, the same in all microbatches.
Result<std::vector<InputShape>> planInputs(const PlanView &plan);

/// Element types of token files.
enum class TokenType { U8, U16, I32, I64 };

struct DataOptions {
  std::string path;
  std::optional<TokenType> tokenType; // set: a file of raw tokens; else a safetensors file
  std::optional<uint64_t> shuffleSeed;
  unsigned rank = 0, worldSize = 1;
  unsigned microbatches = 1; // of a step
  int64_t origin = 0;        // of the order of samples, see SampleOrder
};

/// Reads the batches of one rank. Used by one thread.
class BatchReader {
public:
  virtual ~BatchReader() = default;
  virtual int64_t samples() const = 0;
  /// Tokens per sample; 0 if the file does not hold tokens.
  virtual int64_t tokensPerSample() const = 0;
  /// The sample of the file that is row `index` of the batch of `step`.
  virtual int64_t sample(int64_t step, int64_t index) = 0;
  /// Fills the inputs of `step` (from 0), in the plan's order. Allocates nothing. Fails for a token
  /// that the input's type cannot hold, and if the file has become shorter.
  virtual Status fill(int64_t step, std::span<const std::span<std::byte>> inputs) = 0;
};

/// Fills the inputs of all microbatches of `step`, in the plan's order: each is a step of the
/// reader.
Status fillStep(BatchReader &reader, int64_t step, size_t inputsOfMicrobatch,
                std::span<const std::span<std::byte>> inputs);

/// Fails if a batch that was read has an index that is out of range: it says which, of which sample
/// and input, in `path`, and for whom. `inputs` as for fillStep(), those of a microbatch of
/// `shapes`.
Status checkIndices(std::span<const IndexUse> uses, const std::vector<InputShape> &shapes,
                    std::span<const std::span<std::byte>> inputs, BatchReader &reader, int64_t step,
                    const std::string &path);

/// Opens the file and checks it against the inputs: names, dtypes, shapes, and a batch for every
/// microbatch of every rank. Errors name the file, the input and both values.
Result<std::unique_ptr<BatchReader>> openData(const DataOptions &options,
                                              const std::vector<InputShape> &inputs);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_BATCHREADER_H
