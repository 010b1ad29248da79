//===- OperatorLibraries.cpp - Operators that torch does not have ---------===//

#include "fsdp/Frontend/OperatorLibraries.h"

#include "TorchErrors.h"
#include "llvm/Support/FileSystem.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <set>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

using namespace fsdp;
using c10::DispatchKey;

using Names = std::set<std::pair<std::string, std::string>>;

static Names getOperators() {
  Names names;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames())
    names.emplace(name.name, name.overload_name);
  return names;
}

static bool hasFormula(const c10::OperatorHandle &op) {
  return llvm::any_of(std::initializer_list<DispatchKey>{DispatchKey::Autograd,
                                                         DispatchKey::AutogradCPU,
                                                         DispatchKey::AutogradMeta,
                                                         DispatchKey::CompositeImplicitAutograd},
                      [&](DispatchKey key) { return op.hasKernelForDispatchKey(key); });
}

/// Makes a backward through operators without an autograd formula fail: torch would leave out the
/// gradients of all earlier operators. `old`: operators from before the library was loaded.
static void refuseMissingFormulas(const Names &old) {
  static std::vector<std::unique_ptr<torch::Library>> registered;
  for (const auto &[name, overload] : getOperators()) {
    auto op = c10::Dispatcher::singleton().findSchema({name, overload});
    size_t colons = name.find("::");
    if (old.contains({name, overload}) || !op || hasFormula(*op) || colons == std::string::npos)
      continue;
    auto library = std::make_unique<torch::Library>(torch::Library::IMPL, name.substr(0, colons),
                                                    DispatchKey::Autograd, __FILE__, __LINE__);
    library->impl((name.substr(colons + 2) + (overload.empty() ? "" : "." + overload)).c_str(),
                  torch::autograd::autogradNotImplementedFallback());
    registered.push_back(std::move(library));
  }
}

static std::string load(const std::string &path) {
  // dlopen would search a bare file name in the system's folders.
  llvm::SmallString<256> absolute(path);
  if (std::error_code code = llvm::sys::fs::make_absolute(absolute))
    return code.message();
  try {
    const Names old = getOperators();
    // Registering an operator twice throws, for example.
    if (!dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
      return dlerror();
    refuseMissingFormulas(old);
  } catch (const std::exception &exception) {
    return frontend::getReason(exception);
  }
  return "";
}

llvm::Error frontend::loadOperatorLibraries(const std::vector<std::string> &paths) {
  for (const std::string &path : paths)
    if (std::string reason = load(path); !reason.empty())
      return llvm::createStringError("--load-library " + path + ": " + reason);
  return llvm::Error::success();
}
