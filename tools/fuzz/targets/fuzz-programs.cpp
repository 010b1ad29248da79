//===- fuzz-programs.cpp - The program of a .pt2 file ---------------------===//
//
// The input is the program's JSON. The other records come from the archive in the environment
// variable FSDP_FUZZ_ARCHIVE, so that mutations reach the reader instead of failing the archive's
// checksums.
//
//===----------------------------------------------------------------------===//

#include "ScratchFile.h"
#include "fsdp/Frontend/Capture.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <caffe2/serialize/inline_container.h>

#include <memory>

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

static const char *const program = "models/model.json";
static std::unique_ptr<PyTorchStreamReader> seed;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  const char *path = std::getenv("FSDP_FUZZ_ARCHIVE");
  if (!path) {
    std::fprintf(stderr, "fuzz-programs: error: FSDP_FUZZ_ARCHIVE must name a .pt2 file\n");
    std::exit(1);
  }
  seed = std::make_unique<PyTorchStreamReader>(std::string(path));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fsdp::fuzz::ScratchFile file(".pt2");
  {
    PyTorchStreamWriter writer(file.path);
    for (const std::string &name : seed->getAllRecords()) {
      // The writer adds these records itself.
      if (name == program || name == "version" || name == "byteorder" || name.starts_with(".data/"))
        continue;
      auto [record, bytes] = seed->getRecord(name);
      writer.writeRecord(name, record.get(), bytes);
    }
    writer.writeRecord(program, data, size);
    writer.writeEndOfFile();
  }
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  fsdp::frontend::CaptureOptions options;
  options.model = file.path;
  auto step = fsdp::frontend::captureStep(options, nullptr, context);
  if (!step)
    llvm::consumeError(step.takeError());
  return 0;
}
