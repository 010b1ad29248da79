//===- CaptureTest.cpp - What a captured step says about its model --------===//

#include "TestModels.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <set>

using namespace fsdp;
using namespace fsdp::frontend;

static std::vector<std::string> getModules(mlir::ModuleOp module, aten::Phase phase,
                                           llvm::StringRef baseName) {
  std::vector<std::string> modules;
  module.walk([&](aten::CallOp call) {
    if (call.getPhase() == phase && call.getBaseName() == baseName)
      modules.push_back(call.getModule().str());
  });
  return modules;
}

// Forward and backward calls carry the full path, with the name of the ModuleList.
TEST(Capture, ModulePaths) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("Two.pt", {"x:f32[2,4]"}), context);
  ASSERT_TRUE(module);
  EXPECT_EQ(getModules(*module, aten::Phase::Forward, "addmm"),
            (std::vector<std::string>{"left.0", "left.1", "right.0", "right.1"}));
  auto backward = getModules(*module, aten::Phase::Backward, "mm");
  EXPECT_EQ(std::set<std::string>(backward.begin(), backward.end()),
            (std::set<std::string>{"left.0", "left.1", "right.0", "right.1"}));
  EXPECT_EQ(backward.front(), "right.1");
  EXPECT_EQ(backward.back(), "left.0");
}

// Script, trace and .pt2 agree on the paths of the matrix products.
TEST(Capture, FormatsAgreeOnModulePaths) {
  mlir::MLIRContext context;
  std::vector<std::vector<std::string>> paths;
  for (const char *file : {"llama.script.pt", "llama.trace.pt", "llama.pt2"}) {
    auto module = capture(makeOptions(file, getInputs("llama")), context);
    ASSERT_TRUE(module);
    paths.push_back(getModules(*module, aten::Phase::Forward, "mm"));
    for (std::string &path : getModules(*module, aten::Phase::Backward, "mm"))
      paths.back().push_back(path);
  }
  EXPECT_EQ(paths[0][0], "layers.0.attn.wq");
  EXPECT_EQ(paths[0], paths[1]);
  EXPECT_EQ(paths[0], paths[2]);
}

// The only calls without a module are the root's own; the backward of a block is in the block.
TEST(Capture, BackwardBelongsToModules) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("llama.script.pt", getInputs("llama")), context);
  ASSERT_TRUE(module);
  int numRoot = 0;
  module->walk([&](aten::CallOp call) {
    numRoot += call.getPhase() == aten::Phase::Backward && call.getModule().empty();
  });
  // ones_like, the loss's own backward, and the views around it.
  EXPECT_LE(numRoot, 6);
}

// A call's location is the user's line, not the library's (which is all that traces keep).
TEST(Capture, Locations) {
  mlir::MLIRContext context;
  for (const char *file : {"Two.pt", "llama.pt2"}) {
    auto inputs =
        file == std::string("Two.pt") ? std::vector<std::string>{"x:f32[2,4]"} : getInputs("llama");
    auto module = capture(makeOptions(file, inputs), context);
    ASSERT_TRUE(module);
    module->walk([&](aten::CallOp call) {
      auto location = llvm::dyn_cast<mlir::FileLineColLoc>(call.getLoc());
      if (call.getBaseName() == "ones_like")
        return;
      ASSERT_TRUE(location) << file << " " << call.getCallee().str();
      EXPECT_TRUE(location.getFilename().getValue().contains("/test/"))
          << file << " " << location.getFilename().str();
      EXPECT_GT(location.getLine(), 1u);
    });
  }
}

// Names of the same memory are one parameter; it has one gradient and one update.
TEST(Capture, SharedParameters) {
  mlir::MLIRContext context;
  for (const char *file : {"gpt2.script.pt", "gpt2.trace.pt", "gpt2.pt2", "gpt2_meta.pt"}) {
    auto module = capture(makeOptions(file, getInputs("gpt2")), context);
    ASSERT_TRUE(module);
    auto param = module->lookupSymbol<ParamOp>("wte.weight");
    ASSERT_TRUE(param) << file;
    ASSERT_TRUE(param.getAliases()) << file;
    EXPECT_EQ(llvm::cast<mlir::StringAttr>((*param.getAliases())[0]).getValue(), "head.weight");
    EXPECT_FALSE(module->lookupSymbol("head.weight"));
  }
}

// Every parameter has one gradient and one update, in model order for the updates.
TEST(Capture, GradientsAndUpdates) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("vit.script.pt", getInputs("vit")), context);
  ASSERT_TRUE(module);
  std::vector<std::string> params, updates;
  std::multiset<std::string> gradients;
  module->walk([&](ParamOp op) { params.push_back(op.getSymName().str()); });
  module->walk([&](UpdateOp op) { updates.push_back(op.getTarget().str()); });
  module->walk([&](GradOp op) { gradients.insert(op.getParam().str()); });
  EXPECT_EQ(params.front(), "cls");
  EXPECT_EQ(params, updates);
  EXPECT_EQ(gradients, std::multiset<std::string>(params.begin(), params.end()));
}

// Batch norm's running statistics and counter are written; other buffers are not.
TEST(Capture, WrittenBuffers) {
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

// Draws are numbered in program order; one that nobody needs is gone, as is all else of that kind.
TEST(Capture, RandomPositionsAndDeadCalls) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("Random.pt", {"x:f32[4]"}), context);
  ASSERT_TRUE(module);
  std::vector<std::pair<std::string, int64_t>> draws;
  module->walk([&](aten::CallOp call) {
    if (call.getRng())
      draws.push_back({call.getBaseName().str(), *call.getRng()});
  });
  EXPECT_EQ(draws, (std::vector<std::pair<std::string, int64_t>>{
                       {"native_dropout", 0}, {"bernoulli", 1}, {"rand_like", 2}, {"randn", 3}}));
  module = capture(makeOptions("Literals.pt", {"x:f32[3]"}), context);
  ASSERT_TRUE(module);
  module->walk([&](aten::CallOp call) {
    EXPECT_FALSE(call.getRng()) << call.getCallee().str();
    EXPECT_TRUE(llvm::any_of(call.getResults(), [](mlir::Value v) { return !v.use_empty(); }))
        << call.getCallee().str();
  });
}

// Optimizers have torch's defaults.
TEST(Capture, Optimizers) {
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
  EXPECT_EQ(get({.kind = OptimizerKind::Adam, .lr = 0.5, .beta1 = 0.5, .beta2 = 0.75}),
            "fsdp.optimizer adam lr = 5.000000e-01 weight_decay = 0.000000e+00 betas = "
            "[5.000000e-01, 7.500000e-01] eps = 1.000000e-08");
  EXPECT_EQ(get({.kind = OptimizerKind::SGD, .momentum = 0.9}),
            "fsdp.optimizer sgd lr = 1.000000e-03 weight_decay = 0.000000e+00 momentum = "
            "9.000000e-01");
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
TEST(Capture, Weights) {
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
    EXPECT_EQ(weights.text.size(), weights.begin + bytes);
  }
}

// A literal is a part of the step, however large, and known by its name; the weights file holds
// what a state_dict holds.
TEST(Capture, LargeLiterals) {
  mlir::MLIRContext context;
  TemporaryFile file;
  auto module = capture(makeOptions("Table.pt", {"x:f32[2048]"}), context, file.path.str().str());
  ASSERT_TRUE(module);
  EXPECT_TRUE(module->lookupSymbol<ParamOp>("literal0"));
  EXPECT_EQ(WeightsFile(file.path).header.size(), 1u);
  int numConstants = 0;
  module->walk([&](aten::ConstantOp constant) {
    ++numConstants;
    auto name = llvm::dyn_cast<mlir::NameLoc>(constant.getLoc());
    ASSERT_TRUE(name);
    EXPECT_EQ(name.getName().getValue(), "constant0");
  });
  EXPECT_EQ(numConstants, 1);
}

// Regions of a .pt2 file are entered. Of its transient buffers the one that is written is a buffer
// that begins with its value in the file, the other a literal of the step; neither is in the
// weights.
TEST(Capture, RegionsOfExportedPrograms) {
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
  EXPECT_EQ(WeightsFile(file.path).header.size(), 2u);
  int numInBf16 = 0, numWeightCasts = 0;
  module->walk([&](aten::CallOp call) {
    bool isForward = call.getPhase() == aten::Phase::Forward;
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(call.getResult(0).getType());
    bool isBf16 = type && type.getElementType().isBF16();
    numInBf16 += isForward && isBf16 && call.getBaseName() != "_to_copy" && !call.isView();
    numWeightCasts += isForward && isBf16 && call.getBaseName() == "_to_copy" &&
                      type.getShape() == llvm::ArrayRef<int64_t>{4, 4} &&
                      call.getOperand(0).getDefiningOp<ReadOp>();
  });
  // A product with the bias, one with the input; two more that are added. The weight is cast once
  // in each outermost region, of which there is one.
  EXPECT_EQ(numInBf16, 5);
  EXPECT_EQ(numWeightCasts, 1);
}

// An input that the loss does not depend on is noted.
TEST(Capture, UnusedInputs) {
  mlir::MLIRContext context;
  auto step =
      captureStep(makeOptions("UnusedInput.pt", {"x:f32[4]", "mask:f32[4]"}), nullptr, context);
  ASSERT_TRUE(static_cast<bool>(step)) << llvm::toString(step.takeError());
  EXPECT_EQ(step->notes,
            std::vector<std::string>{"input 'mask' is not used: the loss does not depend on it"});
}

static std::vector<std::string> getFrozen(mlir::ModuleOp module) {
  std::vector<std::string> frozen;
  for (auto param : module.getOps<ParamOp>())
    if (param.getFrozen())
      frozen.push_back(param.getSymName().str());
  return frozen;
}

// What requires no gradient is frozen, and so is what the loss does not depend on, with a note.
TEST(Capture, FrozenParameters) {
  mlir::MLIRContext context;
  auto frozen = captureStep(makeOptions("Frozen.pt", {"x:f32[4]"}), nullptr, context);
  ASSERT_TRUE(static_cast<bool>(frozen)) << llvm::toString(frozen.takeError());
  EXPECT_EQ(getFrozen(*frozen->module), std::vector<std::string>{"table"});
  EXPECT_TRUE(frozen->notes.empty());
  auto unused = captureStep(makeOptions("Unused.pt", {"x:f32[4]"}), nullptr, context);
  ASSERT_TRUE(static_cast<bool>(unused)) << llvm::toString(unused.takeError());
  EXPECT_EQ(getFrozen(*unused->module), (std::vector<std::string>{"head.weight", "head.bias"}));
  ASSERT_EQ(unused->notes.size(), 2u);
  EXPECT_EQ(unused->notes[0],
            "parameter 'head.weight' is frozen: the loss does not depend on it, it "
            "has no gradient");
}

// A module's calls are numbered, back to back or not, in the backward as in the forward.
TEST(Capture, ModuleCalls) {
  mlir::MLIRContext context;
  for (const char *file : {"shared.script.pt", "shared.trace.pt", "shared.pt2"}) {
    SCOPED_TRACE(file);
    auto module = capture(makeOptions(file, getInputs("mlp")), context);
    ASSERT_TRUE(module);
    std::vector<std::string> forward, backward;
    module->walk([&](aten::CallOp call) {
      std::string path = call.getScope().getPath();
      if (call.getBaseName() == "addmm" && call.getModule().ends_with("up"))
        forward.push_back(path);
      if (call.getPhase() == aten::Phase::Backward && call.getBaseName() == "mm" &&
          call.getModule() == "layers.1.down" && (backward.empty() || backward.back() != path))
        backward.push_back(path);
    });
    EXPECT_EQ(forward, (std::vector<std::string>{"layers.0.up", "layers.1.up", "layers.1@1.up@1",
                                                 "layers.2.up", "layers.1@2.up@2"}));
    EXPECT_EQ(backward, (std::vector<std::string>{"layers.1@2.down@2", "layers.1@1.down@1",
                                                  "layers.1.down"}));
  }
}

// The numbers of a trace are numbers: fp32 stays fp32.
TEST(Capture, NumbersOfTraces) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("Numbers.pt", {"x:f32[4]"}), context);
  ASSERT_TRUE(module);
  module->walk([&](mlir::Operation *op) {
    for (mlir::Type type : op->getResultTypes())
      if (auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type)) {
        EXPECT_TRUE(tensor.getElementType().isF32()) << op->getName().getStringRef().str();
      }
  });
}

// A constant of a traced file, as an index.
TEST(Capture, IndicesOfTraces) {
  mlir::MLIRContext context;
  EXPECT_TRUE(capture(makeOptions("Indexed.pt", {"x:f32[4]"}), context));
}

// A model saved on meta has the same step as one with values, and no weights.
TEST(Capture, ModelsOnMeta) {
  mlir::MLIRContext context;
  auto print = [](mlir::ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream os(text);
    module->removeAttr(FsdpDialect::getModelAttrName());
    module.print(os);
    return text;
  };
  for (auto [with, without, model] : {std::tuple("gpt2.script.pt", "gpt2_meta.pt", "gpt2"),
                                      std::tuple("llama_bf16.pt2", "llama_meta.pt2", "llama")}) {
    auto step = captureStep(makeOptions(without, getInputs(model)), nullptr, context);
    ASSERT_TRUE(static_cast<bool>(step)) << llvm::toString(step.takeError());
    EXPECT_FALSE(step->hasWeights);
    auto real = captureStep(makeOptions(with, getInputs(model)), nullptr, context);
    ASSERT_TRUE(static_cast<bool>(real)) << llvm::toString(real.takeError());
    EXPECT_TRUE(real->hasWeights);
    EXPECT_EQ(print(*step->module), print(*real->module));
  }
}

// For CUDA, half-precision attention is CUDA's flash attention, forward and backward.
TEST(Capture, TargetCuda) {
  mlir::MLIRContext context;
  CaptureOptions options = makeOptions("llama_bf16.script.pt", getInputs("llama"));
  options.target = Target::Cuda;
  auto module = capture(options, context);
  ASSERT_TRUE(module);
  int numForward = 0, numBackward = 0;
  module->walk([&](aten::CallOp call) {
    numForward += call.getBaseName() == "_scaled_dot_product_flash_attention";
    numBackward += call.getBaseName() == "_scaled_dot_product_flash_attention_backward";
    EXPECT_FALSE(call.getBaseName().contains("for_cpu"));
  });
  EXPECT_EQ(numForward, 2);
  EXPECT_EQ(numBackward, 2);
}

// CUDA keeps the statistics of a layer norm in fp32, where a CPU keeps them in the dtype of the
// parameters.
TEST(Capture, NormStatistics) {
  mlir::MLIRContext context;
  for (Target target : {Target::Cpu, Target::Cuda}) {
    CaptureOptions options = makeOptions("gpt2_bf16_meta.pt", getInputs("gpt2"));
    options.target = target;
    auto step = captureStep(options, nullptr, context);
    ASSERT_TRUE(static_cast<bool>(step)) << llvm::toString(step.takeError());
    int numNorms = 0;
    (*step->module)->walk([&](aten::CallOp call) {
      if (call.getBaseName() != "native_layer_norm")
        return;
      ++numNorms;
      for (unsigned statistic : {1, 2}) {
        auto type = mlir::cast<mlir::RankedTensorType>(call.getResult(statistic).getType());
        EXPECT_EQ(type.getElementType().isF32(), target == Target::Cuda);
      }
    });
    EXPECT_GT(numNorms, 0);
  }
}

// The text with locations parses back to the same module.
TEST(Capture, RoundTripsThroughText) {
  mlir::MLIRContext context;
  for (const char *model : {"vit", "convnet", "gpt2_dropout", "llama_bf16"}) {
    auto module =
        capture(makeOptions(std::string(model) + ".script.pt", getInputs(model)), context);
    ASSERT_TRUE(module);
    auto print = [](mlir::ModuleOp op) {
      std::string text;
      llvm::raw_string_ostream os(text);
      op->print(os, mlir::OpPrintingFlags().enableDebugInfo(true, false));
      return text;
    };
    std::string text = print(*module);
    auto parsed = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(parsed) << model;
    EXPECT_EQ(print(*parsed), text);
  }
}
