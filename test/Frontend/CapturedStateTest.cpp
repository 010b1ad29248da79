//===- CapturedStateTest.cpp - What a captured step reads and updates -----===//
//
// Its parameters, gradients, buffers, literals and optimizer, and the file of weights.
//
//===----------------------------------------------------------------------===//

#include "TestModels.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <set>

using namespace fsdp;
using namespace fsdp::frontend;

// Names of the same memory are one parameter; it has one gradient and one update.
TEST(CapturedState, SharedParameters) {
  mlir::MLIRContext context;
  for (const char *file : {"gpt2.script.pt", "gpt2.trace.pt", "gpt2.pt2", "gpt2_meta.pt"}) {
    auto module = capture(makeOptions(file, getInputs("gpt2")), context);
    ASSERT_TRUE(module);
    auto param = module->lookupSymbol<ParamOp>("wte.weight");
    ASSERT_TRUE(param) << file;
    ASSERT_TRUE(param.getAliases()) << file;
    ASSERT_EQ(param.getAliases()->size(), 1u) << file;
    EXPECT_EQ(llvm::cast<mlir::StringAttr>((*param.getAliases())[0]).getValue(), "head.weight");
    EXPECT_FALSE(module->lookupSymbol("head.weight"));
    int numGradients = 0, numUpdates = 0;
    module->walk([&](GradOp op) { numGradients += op.getParam() == "wte.weight"; });
    module->walk([&](UpdateOp op) { numUpdates += op.getTarget() == "wte.weight"; });
    EXPECT_EQ(numGradients, 1) << file;
    EXPECT_EQ(numUpdates, 1) << file;
  }
}

// Every parameter has one gradient and one update, in model order for the updates.
TEST(CapturedState, GradientsAndUpdates) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("vit.script.pt", getInputs("vit")), context);
  ASSERT_TRUE(module);
  std::vector<std::string> params, updates;
  std::multiset<std::string> gradients;
  module->walk([&](ParamOp op) { params.push_back(op.getSymName().str()); });
  module->walk([&](UpdateOp op) { updates.push_back(op.getTarget().str()); });
  module->walk([&](GradOp op) { gradients.insert(op.getParam().str()); });
  ASSERT_FALSE(params.empty());
  EXPECT_EQ(params.front(), "cls");
  EXPECT_EQ(params, updates);
  EXPECT_EQ(gradients, std::multiset<std::string>(params.begin(), params.end()));
}

// Batch norm's running statistics and counter are written; other buffers are not.
TEST(CapturedState, WrittenBuffers) {
  mlir::MLIRContext context;
  for (const char *file : {"convnet.script.pt", "convnet.trace.pt", "convnet.pt2"}) {
    auto module = capture(makeOptions(file, getInputs("convnet")), context);
    ASSERT_TRUE(module);
    std::set<std::string> written;
    module->walk([&](WriteOp write) { written.insert(write.getBuffer().str()); });
    EXPECT_EQ(written,
              (std::set<std::string>{"layers.0.bn.num_batches_tracked", "layers.0.bn.running_mean",
                                     "layers.0.bn.running_var", "layers.1.bn.num_batches_tracked",
                                     "layers.1.bn.running_mean", "layers.1.bn.running_var"}))
        << file;
  }
}

// Optimizers have torch's defaults.
TEST(CapturedState, Optimizers) {
  mlir::MLIRContext context;
  CaptureOptions options = makeOptions("Two.pt", {"x:f32[2,4]"});
  auto get = [&](OptimizerSpec spec) {
    options.optimizer = spec;
    auto module = capture(options, context);
    std::string text;
    llvm::raw_string_ostream os(text);
    for (auto op : module->getOps<OptimizerOp>())
      op.print(os);
    return text;
  };
  EXPECT_EQ(get({.kind = OptimizerKind::AdamW}),
            "fsdp.optimizer adamw lr = 1.000000e-03 weight_decay = 1.000000e-02 betas = "
            "[9.000000e-01, 9.990000e-01] eps = 1.000000e-08");
  EXPECT_EQ(get({.kind = OptimizerKind::Adam, .options = {{"lr", {0.5}}, {"betas", {0.5, 0.75}}}}),
            "fsdp.optimizer adam lr = 5.000000e-01 weight_decay = 0.000000e+00 betas = "
            "[5.000000e-01, 7.500000e-01] eps = 1.000000e-08");
  EXPECT_EQ(get({.kind = OptimizerKind::SGD, .options = {{"momentum", {0.9}}}}),
            "fsdp.optimizer sgd lr = 1.000000e-03 weight_decay = 0.000000e+00 momentum = "
            "9.000000e-01");
  EXPECT_EQ(get({.kind = OptimizerKind::RMSprop, .options = {{"centered", {1}}}}),
            "fsdp.optimizer rmsprop lr = 1.000000e-02 weight_decay = 0.000000e+00 momentum = "
            "0.000000e+00 alpha = 0.98999999999999999 eps = 1.000000e-08 centered");
  EXPECT_EQ(get({.kind = OptimizerKind::Adagrad, .options = {{"lr_decay", {0}}}}),
            "fsdp.optimizer adagrad lr = 1.000000e-02 weight_decay = 0.000000e+00 eps = "
            "1.000000e-10");
}

static std::vector<std::string> getFrozen(mlir::ModuleOp module) {
  std::vector<std::string> frozen;
  for (auto param : module.getOps<ParamOp>())
    if (param.getFrozen())
      frozen.push_back(param.getSymName().str());
  return frozen;
}

// What requires no gradient is frozen, and so is what the loss does not depend on, with a note.
TEST(CapturedState, FrozenParameters) {
  mlir::MLIRContext context;
  auto frozen = captureStep(makeOptions("Frozen.pt", {"x:f32[4]"}), nullptr, context);
  ASSERT_TRUE(static_cast<bool>(frozen)) << llvm::toString(frozen.takeError());
  EXPECT_EQ(getFrozen(*frozen->module), std::vector<std::string>{"table"});
  EXPECT_TRUE(frozen->notes.empty());
  auto unused = captureStep(makeOptions("Unused.pt", {"x:f32[4]"}), nullptr, context);
  ASSERT_TRUE(static_cast<bool>(unused)) << llvm::toString(unused.takeError());
  EXPECT_EQ(getFrozen(*unused->module), (std::vector<std::string>{"head.weight", "head.bias"}));
  const std::string reason = "' is frozen: the loss does not depend on it, it has no gradient";
  EXPECT_EQ(unused->notes, (std::vector<std::string>{"parameter 'head.weight" + reason,
                                                     "parameter 'head.bias" + reason}));
}

namespace {

/// A weights file, read.
struct WeightsFile {
  explicit WeightsFile(llvm::StringRef path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return;
    text = (*buffer)->getBuffer().str();
    uint64_t headerSize;
    std::memcpy(&headerSize, text.data(), sizeof(headerSize));
    begin = 8 + headerSize;
    header = nlohmann::json::parse(text.substr(8, headerSize));
  }

  bool holds(const std::string &name, const at::Tensor &tensor) const {
    if (!header.contains(name) || header[name]["dtype"] != "F32" ||
        header[name]["shape"].get<std::vector<int64_t>>() != tensor.sizes().vec())
      return false;
    size_t first = header[name]["data_offsets"][0], last = header[name]["data_offsets"][1];
    return last - first == tensor.nbytes() &&
           std::memcmp(text.data() + begin + first, tensor.const_data_ptr(), last - first) == 0;
  }

  std::string text;
  size_t begin = 0;
  nlohmann::json header;
};

/// A temporary file that is removed.
struct TemporaryFile {
  TemporaryFile() { (void)llvm::sys::fs::createTemporaryFile("weights", "safetensors", path); }
  ~TemporaryFile() { llvm::sys::fs::remove(path); }
  llvm::SmallString<128> path;
};

} // namespace

// The weights file holds parameters and buffers by name, shared ones once, with the model's bytes.
TEST(CapturedState, Weights) {
  mlir::MLIRContext context;
  TemporaryFile file;
  for (const char *model : {"gpt2.script.pt", "gpt2.pt2"}) {
    ASSERT_TRUE(capture(makeOptions(model, getInputs("gpt2")), context, file.path.str().str()));
    WeightsFile weights(file.path);
    EXPECT_FALSE(weights.header.contains("head.weight"));
    auto module = torch::jit::load(getModelPath("gpt2.script.pt"));
    size_t bytes = 0;
    for (const auto &parameter : module.named_parameters()) {
      if (parameter.name == "head.weight")
        continue;
      bytes += parameter.value.nbytes();
      EXPECT_TRUE(weights.holds(parameter.name, parameter.value)) << parameter.name;
    }
    ASSERT_GT(bytes, 0u);
    EXPECT_EQ(weights.text.size(), weights.begin + bytes);
  }
}

// A literal is a part of the step, however large, and known by its name; the weights file holds
// what a state_dict holds.
TEST(CapturedState, LargeLiterals) {
  mlir::MLIRContext context;
  TemporaryFile file;
  auto module = capture(makeOptions("Table.pt", {"x:f32[2048]"}), context, file.path.str().str());
  ASSERT_TRUE(module);
  EXPECT_TRUE(module->lookupSymbol<ParamOp>("literal0"));
  WeightsFile weights(file.path);
  EXPECT_EQ(weights.header.size(), 1u);
  EXPECT_TRUE(weights.header.contains("literal0"));
  int numConstants = 0;
  module->walk([&](aten::ConstantOp constant) {
    ++numConstants;
    auto name = llvm::dyn_cast<mlir::NameLoc>(constant.getLoc());
    ASSERT_TRUE(name);
    EXPECT_EQ(name.getName().getValue(), "constant0");
  });
  EXPECT_EQ(numConstants, 1);
}

// A transient buffer that the step writes is a buffer, and begins with its value in the file. One
// that the step only reads is a literal. The weights have neither.
TEST(CapturedState, TransientBuffers) {
  mlir::MLIRContext context;
  TemporaryFile file;
  auto module = capture(makeOptions("Regions.pt2"), context, file.path.str().str());
  ASSERT_TRUE(module);
  auto seen = module->lookupSymbol<BufferOp>("seen");
  ASSERT_TRUE(seen);
  auto init = llvm::dyn_cast_or_null<mlir::DenseElementsAttr>(seen.getInitAttr());
  ASSERT_TRUE(init);
  EXPECT_TRUE(init.isSplat() && init.getSplatValue<float>() == 0.0F);
  EXPECT_FALSE(module->lookupSymbol("scale"));
  EXPECT_FALSE(module->lookupSymbol("offsets"));
  std::set<std::string> names;
  module->walk([&](aten::ConstantOp constant) {
    if (auto name = llvm::dyn_cast<mlir::NameLoc>(constant.getLoc()))
      names.insert(name.getName().str());
  });
  EXPECT_EQ(names, (std::set<std::string>{"lifted_tensor_0", "offsets", "scale"}));
  WeightsFile weights(file.path);
  EXPECT_EQ(weights.header.size(), 2u);
  EXPECT_TRUE(weights.header.contains("linear.weight") && weights.header.contains("linear.bias"));
}
