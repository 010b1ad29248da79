//===- Float8GatherTest.cpp - Gathers in float8 against whole parameters --===//

#include "TestTensors.h"
#include "fsdp/IR/Aten.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/Interpreter/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::frontend;
using namespace fsdp::interpreter;

static std::string writeConfig(llvm::FileRemover &remover) {
  llvm::SmallString<64> path;
  int file = -1;
  EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("float8", "yaml", file, path));
  llvm::raw_fd_ostream(file, /*shouldClose=*/true)
      << "mixed_precision: {gather_dtype: float8_e4m3fn}\n";
  remover.setFile(path);
  return path.str().str();
}

// The loss of every rank, to which gathered bytes and scale contribute, is that of the captured
// step, which casts the whole parameter.
TEST(Float8Gather, EqualsTheCastOfTheWhole) {
  mlir::MLIRContext context;
  context.loadDialect<aten::AtenDialect, FsdpDialect, mlir::func::FuncDialect>();
  auto captured = mlir::parseSourceFile<mlir::ModuleOp>(
      FSDP_TEST_INPUTS "/../passes/float8-gathers.mlir", &context);
  ASSERT_TRUE(captured);
  seedGenerator(5);
  const NamedTensors state = {{"w", at::randn({4, 8})}, {"b", at::randn({3})}};
  const StepValues expected = llvm::cantFail(interpretStep(*captured, state, {}));
  llvm::FileRemover remover;
  const std::string config = writeConfig(remover);
  for (auto [mesh, ranks] :
       {std::pair("dp=2", 2), {"dp=3", 3}, {"dp=5", 5}, {"replicate=2,shard=2", 4}})
    for (const char *layout : {"flat", "per-param"})
      for (ModulePhase phase : {ModulePhase::Sharded, ModulePhase::Planned}) {
        mlir::OwningOpRef<mlir::ModuleOp> module(captured->clone());
        PipelineOptions options;
        options.mesh = mesh;
        options.layout = layout;
        options.config = config;
        options.upTo = phase;
        mlir::PassManager manager(&context);
        buildPipeline(manager, options);
        ASSERT_TRUE(mlir::succeeded(manager.run(*module)));
        bool isEncoded = false;
        module->walk([&](EncodeOp) { isEncoded = true; });
        EXPECT_TRUE(isEncoded);
        const RanksStep step =
            llvm::cantFail(interpretRanks(*module, state, std::vector<NamedTensors>(ranks)));
        for (const RankValues &rank : step.ranks)
          EXPECT_TRUE(isBitwiseEqual(rank.loss, expected.loss))
              << mesh << " " << layout << " " << stringifyModulePhase(phase).str();
      }
}
