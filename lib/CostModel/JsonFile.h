//===- JsonFile.h - Reads a versioned JSON file -------------------*- C++ -*-===//

#ifndef FSDP_LIB_COSTMODEL_JSONFILE_H
#define FSDP_LIB_COSTMODEL_JSONFILE_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <string>

namespace fsdp::cost {

/// Larger numbers are no measurements, and their sums and products could overflow.
inline constexpr double kLargest = 1e18;

/// Reports a field that is larger than kLargest; 1e999 is read as infinity.
inline bool checkNotTooLarge(double value, llvm::json::Path path) {
  if (value <= kLargest)
    return true;
  path.report("expected at most 1e18");
  return false;
}

/// Reports a field that is less than `least`.
template <typename T> bool checkAtLeast(T value, T least, llvm::json::Path path) {
  if (value >= least)
    return true;
  path.report("the number is too small");
  return false;
}
inline bool checkAtLeast(double value, int least, llvm::json::Path path) {
  return checkNotTooLarge(value, path) && checkAtLeast<double>(value, least, path);
}
inline bool checkAtLeast(int64_t value, int least, llvm::json::Path path) {
  return checkAtLeast<int64_t>(value, least, path);
}
/// Reports a field whose inverse would be too large.
inline bool checkPositive(double value, llvm::json::Path path) {
  if (value >= 1 / kLargest)
    return checkNotTooLarge(value, path);
  path.report("expected at least 1e-18");
  return false;
}

/// Reports a relative standard deviation that samples cannot have. A SizedDuration's is at most
/// 1.4826: half of the samples are at most the median, so they deviate from it by at most itself.
inline bool checkSpread(double value, llvm::json::Path path) {
  if (value >= 0 && value <= 2)
    return true;
  path.report("expected a number in [0, 2]");
  return false;
}

/// Reads the JSON object in `file` by fromJSON. Its `format` must be this one, its `version`
/// between `oldest` (0: `version`) and `version`. The error is one line: the expected kind of file,
/// its name, and the field.
template <typename T>
llvm::Expected<T> readJsonFile(const std::string &what, const std::string &file,
                               llvm::StringRef format, int64_t version, int64_t oldest = 0) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError(what + " '" + file + "': " + message);
  };
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer)
    return fail(buffer.getError().message());
  llvm::Expected<llvm::json::Value> json = llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return fail("not JSON, or cut off: " + llvm::toString(json.takeError()));
  const llvm::json::Object *object = json->getAsObject();
  std::optional<llvm::StringRef> actual = object ? object->getString("format") : std::nullopt;
  if (actual != format)
    return fail("its format is '" + actual.value_or("").str() + "', expected '" + format + "'");
  std::optional<int64_t> actualVersion = object->getInteger("version");
  if (oldest == 0)
    oldest = version;
  if (!actualVersion || *actualVersion < oldest || *actualVersion > version)
    return fail("its version is " +
                (actualVersion ? std::to_string(*actualVersion) : std::string("missing")) +
                ", expected " + (oldest == version ? "" : std::to_string(oldest) + " to ") +
                std::to_string(version));
  T result;
  llvm::json::Path::Root root(what);
  if (!fromJSON(*json, result, root))
    return fail(llvm::toString(root.getError()));
  return result;
}

} // namespace fsdp::cost

#endif // FSDP_LIB_COSTMODEL_JSONFILE_H
