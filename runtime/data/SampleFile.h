//===- SampleFile.h - One file of samples ------------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_SAMPLEFILE_H
#define FSDP_RUNTIME_SAMPLEFILE_H

#include "Status.h"
#include "fsdp/Plan/Abi.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// An input of the step: [B, ...] per rank, contiguous.
struct InputShape {
  std::string name;
  fsdp_dtype dtype;
  std::vector<int64_t> sizes;
};

/// An open data file. Used by one thread.
class SampleFile {
public:
  explicit SampleFile(std::string path) : filePath(std::move(path)) {}
  virtual ~SampleFile() = default;

  const std::string &path() const { return filePath; }
  virtual int64_t samples() const = 0;
  /// 0 if the file does not hold tokens.
  virtual int64_t tokensPerSample() const = 0;
  virtual size_t sizeBytes() const = 0;
  /// Copies `sample` to row `row` of all inputs, in the plan's order. Allocates nothing.
  virtual Status read(int64_t sample, int64_t row,
                      std::span<const std::span<std::byte>> inputs) = 0;
  /// Asks the kernel to read the sample soon, or all of them; does not block.
  virtual void willNeed(int64_t sample) const = 0;
  virtual void willNeedAll() const = 0;

private:
  std::string filePath;
};

/// A safetensors file with one tensor per input.
Result<std::unique_ptr<SampleFile>> openTensors(const std::string &path,
                                                const std::vector<InputShape> &inputs);

/// Element types of token files.
enum class TokenType { U8, U16, U32, I32, I64 };

/// A file of tokens: raw tokens of `type`, or a file whose header names the type (TokenHeader.h),
/// which must agree with `type` if that is given.
Result<std::unique_ptr<SampleFile>> openTokens(const std::string &path,
                                               std::optional<TokenType> type,
                                               const std::vector<InputShape> &inputs);

/// "ids:i64[4,128], labels:i64[4,128]".
std::string describeInputs(const std::vector<InputShape> &inputs);

/// True if both sets of inputs have the same samples: equal dtypes, and equal sizes except the
/// first, which counts samples.
bool haveEqualSamples(const std::vector<InputShape> &inputs, const std::vector<InputShape> &others);

/// Splits `2:tokens.bin` into "2:" and "tokens.bin": the number of the shape of a file's samples,
/// and the path. The first is "" if the path has no such number, or if there is a file of exactly
/// that name.
std::pair<std::string, std::string> splitShape(const std::string &path);

/// The files for each shape. `shapes`: the inputs of each shape. With one shape nothing is checked,
/// since opening the files checks it. With several shapes each needs a file; errors name the file,
/// or the shape without a file. `flag`: the flag that names the files.
Result<std::vector<std::vector<std::string>>>
filesByShape(const std::vector<std::string> &paths,
             const std::vector<std::vector<InputShape>> &shapes, const char *flag);

/// The files that `patterns` name, in order. A pattern with *, ? or [ stands for all matching
/// files, sorted by name, unless there is a file of exactly that name. A shape's number before a
/// pattern (splitShape()) is put before each file. An error names the pattern that matches nothing,
/// and the `flag` that has it.
Result<std::vector<std::string>> findDataFiles(const std::vector<std::string> &patterns,
                                               const char *flag);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SAMPLEFILE_H
