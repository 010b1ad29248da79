//===- Calls.h - Operator calls from text, for tests of costs ----*- C++ -*-===//

#ifndef FSDP_TEST_COSTMODEL_CALLS_H
#define FSDP_TEST_COSTMODEL_CALLS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace fsdp {

/// The calls and launches of a function, parsed.
class Calls {
public:
  /// `arguments` are the function's, `body` its calls: one per line; `kernels` what it launches.
  Calls(const std::string &arguments, const std::string &body, const std::string &kernels = "") {
    context.loadDialect<mlir::func::FuncDialect, aten::AtenDialect, FsdpDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(
        kernels + "\nfunc.func @step(" + arguments + ") {\n" + body + "\nreturn\n}", &context);
    EXPECT_TRUE(module) << body;
    if (!module)
      return;
    module->walk([&](aten::CallOp call) { calls.push_back(call); });
    module->walk([&](LaunchOp launch) { launches.push_back(launch); });
  }

  aten::CallOp operator[](size_t i) const { return calls.at(i); }
  LaunchOp getLaunch(size_t i) const { return launches.at(i); }
  mlir::MLIRContext &getContext() { return context; }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<aten::CallOp> calls;
  std::vector<LaunchOp> launches;
};

/// A file of this content for the life of the object.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &content) {
    static int count = 0;
    path = testing::TempDir() + "/fsdp-cost-" + std::to_string(::getpid()) + "-" +
           std::to_string(count++) + ".json";
    FILE *file = std::fopen(path.c_str(), "w");
    std::fputs(content.c_str(), file);
    std::fclose(file);
  }
  ~TemporaryFile() { std::remove(path.c_str()); }

  std::string path;
};

/// The message of an error, "" if there is none.
template <typename T> std::string messageOf(llvm::Expected<T> result) {
  return result ? "" : llvm::toString(result.takeError());
}

} // namespace fsdp

#endif // FSDP_TEST_COSTMODEL_CALLS_H
