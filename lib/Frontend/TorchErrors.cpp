//===- TorchErrors.cpp - torch's errors in one line -----------------------===//
//
// An error that crossed TorchScript's interpreter reads
//
//     The following operation failed in the TorchScript interpreter.
//     Traceback of TorchScript, serialized code (most recent call last):
//       File "code/...", line 3, in forward
//         return torch.mm(x, y)
//                ~~~~~~~~ <--- HERE
//     RuntimeError: the reason
//
// An error of its parser begins with the reason and ends with the marked line. An error of a kernel
// begins with the reason, which frames may follow.
//
//===----------------------------------------------------------------------===//

#include "TorchErrors.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

using llvm::StringRef;

static constexpr StringRef kMark = "<--- HERE";

/// False for lines that give a location instead of a reason.
static bool isReason(StringRef line) {
  StringRef text = line.trim();
  bool isFrame = text.starts_with("File \"") || text.starts_with("frame #") ||
                 text.starts_with("Traceback ") || text.contains(kMark) ||
                 text.starts_with("The following operation failed") ||
                 text.starts_with("Exception raised from");
  return !text.empty() && !isFrame && text.find_first_not_of("~^ .") != StringRef::npos;
}

/// `condition INTERNAL ASSERT FAILED at "file":line, please report a bug to PyTorch. reason`.
static std::string explainInternal(StringRef line) {
  auto [condition, rest] = line.split("INTERNAL ASSERT FAILED");
  StringRef reason = rest.split("please report a bug to PyTorch.").second.trim();
  return ("torch cannot take this: " + (reason.empty() ? condition.trim() : reason)).str();
}

/// Errors of torch's archive reader: `PytorchStreamReader failed ACT[RECORD]: reason. This is an
/// internal miniz error. ...`, where ACT is the action on the whole archive or on a record.
static std::string explainArchive(StringRef line) {
  auto [act, reason] = line.split(". This is an internal miniz error").first.rsplit(": ");
  act = act.split("PytorchStreamReader failed ").second;
  if (act.consume_front("locating file "))
    return ("the zip archive has no record '" + act + "'").str();
  if (act.consume_front("reading file ") || act.consume_front("retrieving file meta-data for "))
    return ("record '" + act + "' of the zip archive is damaged (" + reason + ")").str();
  return ("it is no zip archive, or a damaged one (" + reason + ")").str();
}

static std::string pickLine(StringRef text) {
  // The next line shows the source.
  if (StringRef name = text.split("Unknown builtin op: ").second.split('\n').first; !name.empty())
    return ("torch does not have operator '" + name.rtrim('.') +
            "': name the library that does by --load-library")
        .str();
  llvm::SmallVector<StringRef> lines(llvm::split(text, '\n'));
  // Continue after the last mark, if a reason follows it.
  auto begin = lines.begin();
  for (auto it = lines.begin(); it != lines.end(); ++it)
    if (it->contains(kMark) && llvm::any_of(llvm::make_range(it + 1, lines.end()), isReason))
      begin = it + 1;
  auto found = std::find_if(begin, lines.end(), isReason);
  if (found == lines.end())
    return "torch gives no reason";
  StringRef reason = found->trim();
  for (StringRef prefix : {"RuntimeError:", "torch.jit.Error:", "ValueError:"})
    if (reason.consume_front(prefix))
      reason = reason.ltrim();
  if (size_t begin = reason.find("PytorchStreamReader failed "); begin != StringRef::npos) {
    // Our own prefix, if there is one: "not a readable file of torch.export.save: ".
    StringRef before = reason.take_front(begin);
    return (before.starts_with("[enforce fail at ") ? "" : before).str() +
           explainArchive(reason.drop_front(begin));
  }
  if (reason.contains("INTERNAL ASSERT FAILED"))
    return explainInternal(reason);
  if (reason.contains("hasRecord(\"version\")"))
    return "the zip archive has no record 'version': it is none of torch's";
  // torch puts its own source line before a reason, and a request to users after it.
  if (reason.starts_with("[enforce fail at "))
    reason = reason.split("] ").second.ltrim(". ");
  reason = reason.split("(Could this error message be improved?").first;
  // Removes the "...: " before an indented list that follows.
  return reason.rtrim(": ").str();
}

std::string fsdp::frontend::getReason(const std::exception &exception) {
  if (dynamic_cast<const std::bad_alloc *>(&exception))
    return "out of memory";
  if (auto *error = dynamic_cast<const nlohmann::json::exception *>(&exception)) {
    StringRef what = error->what();
    return ("the file's JSON is not as torch.export writes it: " + what.split("] ").second).str();
  }
  if (auto *error = dynamic_cast<const c10::Error *>(&exception))
    return pickLine(error->what_without_backtrace());
  return pickLine(exception.what());
}
