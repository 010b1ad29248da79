//===- ListOperators.cpp - Writes the names of torch's operators ----------===//
//
// Of namespaces beside aten their own names, "quantized::".
//
// Run by the build: the compiler's libraries do not link LibTorch.
//
//===----------------------------------------------------------------------===//

#include <ATen/core/dispatch/Dispatcher.h>

#include <fstream>
#include <set>

int main(int argc, char **argv) {
  if (argc != 2)
    return 1;
  std::set<std::string> names;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::"))
      names.insert(name.name.substr(0, name.name.find("::") + 2));
    else if (c10::Dispatcher::singleton().findSchema(name))
      names.insert(name.name.substr(6) + "." +
                   (name.overload_name.empty() ? "default" : name.overload_name));
  }
  std::ofstream file(argv[1]);
  for (const std::string &name : names)
    file << '"' << name << "\",\n";
  return !names.contains("quantized::") || !file.flush() ? 1 : 0;
}
