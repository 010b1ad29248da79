//===- Conversion.cpp - To and from torch's pickled checkpoints -----------===//
//
// Only torch can read and write its own format, so the Python package fsdpc (tools/python)
// converts.
//
//===----------------------------------------------------------------------===//

#include "Conversion.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace fsdp::rt;
namespace fs = std::filesystem;

/// The first argument is the folder of the package, or empty if the package is installed. The
/// working directory is removed from the import path.
static constexpr const char kProgram[] = R"py(
import importlib.util, runpy, sys
sys.path = [folder for folder in (sys.argv.pop(1), *sys.path) if folder]
needs = "--python or FSDP_PYTHON names a Python that has torch and fsdpc (pip install tools/python)"
for name in ("torch", "fsdpc"):
    if importlib.util.find_spec(name) is None:
        sys.exit(f"error: '{sys.executable}' has no package '{name}': {needs}")
try:
    runpy.run_module("fsdpc.checkpoints", run_name="__main__", alter_sys=True)
except ImportError as error:
    sys.exit(f"error: '{sys.executable}' cannot import fsdpc.checkpoints: {error}: {needs}")
)py";

/// The package's folder in the checkout in which this program was built, or empty.
static std::string findPackage() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  const fs::path folder = program.parent_path() / "../../../tools/python"; // build/release/bin
  return !code && fs::is_regular_file(folder / "fsdpc/checkpoints.py", code) ? folder.string() : "";
}

Status becomeConversion(const Conversion &conversion) {
  const std::string package = findPackage(), key = "--model-key=" + conversion.modelKey;
  const char *arguments[] = {conversion.python.c_str(),
                             "-c",
                             kProgram,
                             package.c_str(),
                             key.c_str(),
                             "--", // a name may begin with a dash
                             conversion.checkpoint.c_str(),
                             conversion.folder.c_str(),
                             nullptr};
  std::fflush(stdout);
  ::execvp(arguments[0], const_cast<char *const *>(arguments));
  return Status::error("Python cannot be started as '" + conversion.python +
                       "': " + std::strerror(errno) +
                       ": --python or FSDP_PYTHON names one that has torch and fsdpc");
}
