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

/// Reports a field that is less than `least`.
template <typename T> bool checkAtLeast(T value, T least, llvm::json::Path path) {
  if (value >= least)
    return true;
  path.report("the number is too small");
  return false;
}
inline bool checkAtLeast(double value, int least, llvm::json::Path path) {
  return checkAtLeast<double>(value, least, path);
}
inline bool checkAtLeast(int64_t value, int least, llvm::json::Path path) {
  return checkAtLeast<int64_t>(value, least, path);
}
inline bool checkPositive(double value, llvm::json::Path path) {
  if (value > 0)
    return true;
  path.report("expected a number above 0");
  return false;
}

/// Reads the JSON object in `file`, whose `format` must be this one and whose `version` one from
/// `oldest` (0: `version`) to `version`, by fromJSON. The error is one line: what the file should
/// be, its name, and the field.
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
