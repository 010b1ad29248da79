//===- interpret-steps.cpp - Captures and evaluates steps of a folder -----===//
//
// For random_modules.py. Of each subfolder: captures `model.pt2` or `model.pt`, evaluates the step
// that its text says on the tensors of `given.pt` (a dict of "state" and "inputs", each by name), and writes
// `result.pt`: loss, gradients and written buffers by name; or `error.txt`.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Frontend/Capture.h"
#include "fsdp/Interpreter/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace fsdp;
namespace files = std::filesystem;
using Tensors = c10::Dict<std::string, at::Tensor>;

static std::vector<char> readFile(const files::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

static interpreter::NamedTensors getTensors(const c10::IValue &given, const char *key) {
  interpreter::NamedTensors tensors;
  for (const auto &entry : given.toGenericDict().at(key).toGenericDict())
    tensors[entry.key().toStringRef()] = entry.value().toTensor();
  return tensors;
}

static const char *getDtypeName(at::ScalarType dtype) {
  return dtype == at::kLong ? "i64" : dtype == at::kBool ? "bool" : "f32";
}

static Tensors makeDict(const interpreter::NamedTensors &tensors) {
  Tensors dict;
  for (const auto &[name, tensor] : tensors)
    dict.insert(name, tensor.contiguous());
  return dict;
}

/// The module as a user's text holds it: printed and read again.
static mlir::OwningOpRef<mlir::ModuleOp> reread(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return mlir::parseSourceString<mlir::ModuleOp>(text, module.getContext());
}

static llvm::Error evaluate(const files::path &folder) {
  frontend::CaptureOptions options;
  bool isExported = files::exists(folder / "model.pt2");
  options.model = folder / (isExported ? "model.pt2" : "model.pt");
  c10::IValue given = torch::jit::pickle_load(readFile(folder / "given.pt"));
  interpreter::NamedTensors inputs = getTensors(given, "inputs");
  if (!isExported)
    for (const auto &[name, tensor] : inputs)
      options.inputs.push_back({name, getDtypeName(tensor.scalar_type()), tensor.sizes().vec()});
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::Expected<frontend::CapturedStep> step = frontend::captureStep(options, nullptr, context);
  if (!step)
    return step.takeError();
  mlir::OwningOpRef<mlir::ModuleOp> module = reread(*step->module);
  if (!module)
    return llvm::createStringError("the text of the captured step cannot be read");
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(7);
  llvm::Expected<interpreter::StepValues> values =
      interpreter::interpretStep(*module, getTensors(given, "state"), inputs);
  if (!values)
    return values.takeError();
  c10::Dict<std::string, Tensors> result;
  Tensors loss;
  loss.insert("loss", values->loss);
  result.insert("loss", loss);
  result.insert("gradients", makeDict(values->gradients));
  result.insert("buffers", makeDict(values->buffers));
  Tensors relaid;
  for (const std::string &call : values->relaid)
    relaid.insert(call, at::Tensor(values->loss));
  result.insert("relaid", relaid);
  std::vector<char> bytes = torch::jit::pickle_save(result);
  std::ofstream(folder / "result.pt", std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: interpret-steps FOLDER\n";
    return 2;
  }
  at::set_num_threads(1);
  std::vector<files::path> folders;
  for (const auto &entry : files::directory_iterator(argv[1]))
    if (entry.is_directory())
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const files::path &folder : folders)
    if (llvm::Error error = evaluate(folder))
      std::ofstream(folder / "error.txt") << llvm::toString(std::move(error)) << "\n";
  return 0;
}
