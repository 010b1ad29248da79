//===- Link.cpp - Link a step with the runtime ----------------------------===//

#include "fsdp/Export/EmitObject.h"

#include "BuildPaths.h"
#include "fsdp/IR/OutputFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

using namespace llvm;

std::string fsdp::getDefaultRuntimeDir(const char *argv0) {
  static int anchor;
  SmallString<256> path(sys::fs::getMainExecutable(argv0, &anchor));
  sys::path::remove_filename(path);
  sys::path::append(path, "..", "lib");
  sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return std::string(path);
}

/// `folder` relative to the folder of `file`: "$ORIGIN/../build/lib".
static std::string getPathFromOrigin(StringRef file, StringRef folder) {
  SmallString<256> parent(file), from, to;
  sys::fs::make_absolute(parent);
  sys::path::remove_filename(parent);
  if (sys::fs::real_path(parent, from) || sys::fs::real_path(folder, to))
    return std::string(folder);
  auto here = sys::path::begin(from), there = sys::path::begin(to);
  while (here != sys::path::end(from) && there != sys::path::end(to) && *here == *there)
    ++here, ++there;
  SmallString<256> path("$ORIGIN");
  for (; here != sys::path::end(from); ++here)
    sys::path::append(path, "..");
  for (; there != sys::path::end(to); ++there)
    sys::path::append(path, *there);
  return std::string(path);
}

Error fsdp::writeObject(ArrayRef<char> object, const std::string &path) {
  return writeFile(path, [&](raw_ostream &os) {
    os.write(object.data(), object.size());
    return Error::success();
  });
}

Error fsdp::linkObject(ArrayRef<char> object, const std::string &output,
                       const LinkOptions &options) {
  std::string linker = options.linker.empty() ? kDefaultLinker : options.linker;
  ErrorOr<std::string> program = sys::findProgramByName(linker);
  if (!program)
    return createStringError("linker '" + linker + "': " + program.getError().message());
  SmallString<256> runtime(options.runtimeDir);
  sys::path::append(runtime, "libfsdp_runtime.so");
  if (!sys::fs::exists(runtime))
    return createStringError("the runtime library '" + runtime.str() +
                             "' does not exist; build the target 'fsdp_runtime'");

  SmallString<128> path;
  if (std::error_code code = sys::fs::createTemporaryFile("fsdp-step", "o", path))
    return createStringError("cannot make a temporary file for the object: " + code.message());
  FileRemover objectRemover(path);
  sys::RemoveFileOnSignal(path);
  SmallString<128> linked;
  if (std::error_code code = sys::fs::createTemporaryFile("fsdp-linked", "", linked))
    return createStringError("cannot make a temporary file for the binary: " + code.message());
  FileRemover linkedRemover(linked);
  sys::RemoveFileOnSignal(linked);
  if (Error error = writeObject(object, std::string(path)))
    return error;

  // The run-time paths of the runtime and of torch's libraries find all other dependencies.
  std::string searchPath =
      options.searchPath.value_or(getPathFromOrigin(output, options.runtimeDir));
  searchPath = "$ORIGIN:$ORIGIN/lib" + (searchPath.empty() ? "" : ":" + searchPath);
  std::vector<std::string> arguments = {*program,
                                        std::string(path),
                                        "-o",
                                        std::string(linked),
                                        "-L" + options.runtimeDir,
                                        "-lfsdp_runtime",
                                        "-Wl,-rpath," + searchPath,
                                        "-Wl,--allow-shlib-undefined",
                                        "-Wl,-z,relro,-z,now"};
  arguments.push_back(options.shared ? "-shared" : "-pie");
  if (llvm::StringRef flag = kSanitizerFlag; !flag.empty())
    arguments.push_back(flag.str());

  SmallString<128> messages;
  if (std::error_code code = sys::fs::createTemporaryFile("fsdp-link", "txt", messages))
    return createStringError(code, "cannot make a temporary file for the linker's messages");
  FileRemover messagesRemover(messages);
  sys::RemoveFileOnSignal(messages);
  std::string problem;
  std::optional<StringRef> redirects[] = {StringRef(""), messages.str(), messages.str()};
  SmallVector<StringRef> views(arguments.begin(), arguments.end());
  int code = sys::ExecuteAndWait(*program, views, std::nullopt, redirects, 0, 0, &problem);
  if (code == 0) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> binary = MemoryBuffer::getFile(linked);
    if (!binary)
      return createStringError("cannot read '" + linked + "', which '" + *program +
                               "' has written: " + binary.getError().message());
    auto copy = [&](raw_ostream &os) {
      os << (*binary)->getBuffer();
      return Error::success();
    };
    return writeFile(output, copy, OutputFile::Mode::Executable);
  }
  if (auto text = MemoryBuffer::getFile(messages))
    problem += (*text)->getBuffer().rtrim();
  return createStringError("'" + *program + "' failed with exit code " + Twine(code) + ": " +
                           problem);
}
