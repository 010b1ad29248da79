//===- GradientSumsTest.cpp - Which sums of gradients depend on the groups ------===//

#include "TestModels.h"
#include "fsdp/IR/GradientSum.h"

using namespace fsdp;
using namespace fsdp::frontend;

static std::vector<std::vector<std::string>> getSums(mlir::ModuleOp module) {
  std::vector<std::vector<std::string>> sums;
  module.walk([&](aten::CallOp call) {
    auto scopes = call->getAttrOfType<mlir::ArrayAttr>(aten::kGradientSumAttrName);
    if (!scopes)
      return;
    std::vector<std::string> paths;
    for (aten::ScopeAttr scope : scopes.getAsRange<aten::ScopeAttr>())
      paths.push_back(scope.getPath());
    sums.push_back(std::move(paths));
  });
  return sums;
}

// The memory's gradients, in the order of the backward: four of two readers, which may be groups.
TEST(GradientSums, ReadersOfOneValue) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("Readers.pt", {"x:f32[2,4]"}), context);
  ASSERT_TRUE(module);
  EXPECT_EQ(getSums(*module),
            (std::vector<std::vector<std::string>>{
                {"encoder", "second.value", "second.key", "first.value", "first.key"}}));
}

// Attention's input is used three times, but by one module; the order of tied weights, which are no
// module's input, is always the same.
TEST(GradientSums, OthersAreNotMarked) {
  mlir::MLIRContext context;
  for (const char *file : {"gpt2.script.pt", "gpt2.pt2", "vit.script.pt"}) {
    auto module = capture(
        makeOptions(file, getInputs(llvm::StringRef(file).split('.').first.str())), context);
    ASSERT_TRUE(module);
    EXPECT_EQ(getSums(*module).size(), 0u) << file;
  }
}
