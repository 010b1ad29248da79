//===- ListOperators.cpp - Writes the names of torch's operators ----------===//
//
// Each line also says whether the operator's schema writes to an argument. Operators outside of
// aten keep their namespace, as "quantized::".
//
// The build runs this program, since the compiler's libraries do not link LibTorch.
//
//===----------------------------------------------------------------------===//

#include <ATen/core/dispatch/Dispatcher.h>

#include <fstream>
#include <map>

int main(int argc, char **argv) {
  if (argc != 2)
    return 1;
  std::map<std::string, bool> operators;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::"))
      operators.emplace(name.name.substr(0, name.name.find("::") + 2), false);
    else if (auto handle = c10::Dispatcher::singleton().findSchema(name))
      operators.emplace(name.name.substr(6) + "." +
                            (name.overload_name.empty() ? "default" : name.overload_name),
                        handle->schema().is_mutable());
  }
  std::ofstream file(argv[1]);
  for (const auto &[name, isMutable] : operators)
    file << "{\"" << name << "\", " << (isMutable ? "true" : "false") << "},\n";
  return !operators.contains("quantized::") || !file.flush() ? 1 : 0;
}
