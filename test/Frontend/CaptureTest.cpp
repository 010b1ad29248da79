//===- CaptureTest.cpp - The calls of a captured step ---------------------===//

#include "TestModels.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Path.h"

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
  ASSERT_EQ(std::set<std::string>(backward.begin(), backward.end()),
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

// The only backward calls without a module are the root's own: the first gradient and the loss's
// backward.
TEST(Capture, BackwardBelongsToModules) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("llama.script.pt", getInputs("llama")), context);
  ASSERT_TRUE(module);
  std::vector<std::string> ofRoot;
  int numInModules = 0;
  module->walk([&](aten::CallOp call) {
    if (call.getPhase() != aten::Phase::Backward)
      return;
    if (call.getModule().empty())
      ofRoot.push_back(call.getBaseName().str());
    else
      ++numInModules;
  });
  EXPECT_EQ(ofRoot, (std::vector<std::string>{"ones_like", "nll_loss_backward",
                                              "_log_softmax_backward_data", "view"}));
  EXPECT_GT(numInModules, 0);
}

// A call's location is the user's line, not the library's (which is all that traces keep).
TEST(Capture, Locations) {
  mlir::MLIRContext context;
  using Inputs = std::vector<std::string>;
  for (const auto &[file, inputs, source] :
       {std::tuple("Two.pt", Inputs{"x:f32[2,4]"}, "small_models.py"),
        std::tuple("llama.pt2", getInputs("llama"), "decoders.py")}) {
    SCOPED_TRACE(file);
    auto module = capture(makeOptions(file, inputs), context);
    ASSERT_TRUE(module);
    int numLocations = 0;
    module->walk([&, source = llvm::StringRef(source)](aten::CallOp call) {
      if (call.getBaseName() == "ones_like") // the first gradient, which no line of the model makes
        return;
      auto location = llvm::dyn_cast<mlir::FileLineColLoc>(call.getLoc());
      ASSERT_TRUE(location) << call.getCallee().str();
      // From the working directory, or the file alone: absolute folders are of the machine.
      const llvm::StringRef path = location.getFilename().getValue();
      EXPECT_EQ(llvm::sys::path::filename(path).str(), source.str());
      EXPECT_FALSE(llvm::sys::path::is_absolute(path)) << path.str();
      EXPECT_GT(location.getLine(), 1u);
      ++numLocations;
    });
    EXPECT_GT(numLocations, 0);
  }
}

// Random draws are numbered in program order. A draw whose result is not used is left out, as is
// every other call without a use.
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
  int numCalls = 0;
  module->walk([&](aten::CallOp call) {
    ++numCalls;
    EXPECT_FALSE(call.getRng()) << call.getCallee().str();
    EXPECT_TRUE(llvm::any_of(call.getResults(), [](mlir::Value v) { return !v.use_empty(); }))
        << call.getCallee().str();
  });
  EXPECT_GT(numCalls, 0);
}

// Regions of a .pt2 file are entered: the calls under autocast are in bf16, and the weight is cast
// once in each outermost region, of which there is one.
TEST(Capture, RegionsOfExportedPrograms) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("Regions.pt2"), context);
  ASSERT_TRUE(module);
  std::vector<std::string> inBf16;
  int numWeightCasts = 0;
  module->walk([&](aten::CallOp call) {
    bool isForward = call.getPhase() == aten::Phase::Forward;
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(call.getResult(0).getType());
    bool isBf16 = type && type.getElementType().isBF16();
    if (isForward && isBf16 && call.getBaseName() != "_to_copy" && !call.isView())
      inBf16.push_back(call.getBaseName().str());
    numWeightCasts += isForward && isBf16 && call.getBaseName() == "_to_copy" &&
                      type.getShape() == llvm::ArrayRef<int64_t>{4, 4} &&
                      call.getOperand(0).getDefiningOp<ReadOp>();
  });
  EXPECT_EQ(inBf16, (std::vector<std::string>{"addmm", "mm", "addmm", "addmm", "add"}));
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
  int numTensors = 0;
  module->walk([&](mlir::Operation *op) {
    for (mlir::Type type : op->getResultTypes())
      if (auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type)) {
        ++numTensors;
        EXPECT_TRUE(tensor.getElementType().isF32()) << op->getName().getStringRef().str();
      }
  });
  EXPECT_GT(numTensors, 0);
}

// The tensors by which a traced model indexes are constants of the step.
TEST(Capture, IndicesOfTraces) {
  mlir::MLIRContext context;
  auto module = capture(makeOptions("Indexed.pt", {"x:f32[4]"}), context);
  ASSERT_TRUE(module);
  std::vector<std::vector<int64_t>> constants;
  module->walk([&](aten::ConstantOp constant) {
    auto value = llvm::cast<mlir::DenseElementsAttr>(constant.getValue());
    constants.emplace_back(value.value_begin<int64_t>(), value.value_end<int64_t>());
  });
  EXPECT_EQ(constants, (std::vector<std::vector<int64_t>>{{0, 2, 2}, {1, 1, 0}}));
  EXPECT_EQ(getModules(*module, aten::Phase::Forward, "index").size(), 2u);
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

// On a GPU an RMS norm is one kernel, and attention is the one that eager torch chooses for the
// dtype, the mask and the architecture; none is O(T^2) in memory. A mask's rows begin at multiples
// of 16 elements for the efficient one.
TEST(Capture, KernelsOfGpus) {
  mlir::MLIRContext context;
  using Names = std::vector<std::string>;
  struct Case {
    const char *dtype;
    unsigned architecture;
    Names attention;
  };
  for (const Case &own :
       {Case{"", 90, {"efficient", "efficient"}}, Case{"bf16", 80, {"efficient", "flash"}},
        Case{"bf16", 90, {"cudnn", "cudnn"}}, Case{"f16", 100, {"cudnn", "cudnn"}}}) {
    CaptureOptions options = makeOptions("NormedAttention.pt", {"x:f32[2,6,16]"});
    options.target = Target::Cuda;
    options.cudaArchitecture = own.architecture;
    options.paramDtype = own.dtype;
    auto module = capture(options, context);
    ASSERT_TRUE(module);
    Names forward, backward;
    int numNorms = 0, numPads = 0;
    module->walk([&](aten::CallOp call) {
      llvm::StringRef name = call.getBaseName();
      numNorms += name == "_fused_rms_norm" || name == "_fused_rms_norm_backward";
      numPads += name == "constant_pad_nd";
      if (!name.consume_front("_scaled_dot_product_"))
        return;
      Names &names = name.consume_back("_backward") ? backward : forward;
      EXPECT_TRUE(name.consume_back("_attention"));
      names.push_back(name.str());
    });
    EXPECT_EQ(forward, own.attention);
    EXPECT_EQ(backward, Names(own.attention.rbegin(), own.attention.rend()));
    EXPECT_EQ(numNorms, 2);
    EXPECT_EQ(numPads, own.attention[0] == "efficient" ? 1 : 0);
  }
}

// With cuDNN's attention at hand, masks that it has no gradient of or errs with are the efficient
// kernel's; every mask has the dtype of the queries.
TEST(Capture, MasksOfOthers) {
  mlir::MLIRContext context;
  CaptureOptions options = makeOptions("MasksOfOthers.pt", {"x:f32[2,64,16]"});
  options.target = Target::Cuda;
  options.cudaArchitecture = 90;
  options.paramDtype = "bf16";
  auto module = capture(options, context);
  ASSERT_TRUE(module);
  std::vector<std::string> forward;
  module->walk([&](aten::CallOp call) {
    llvm::StringRef name = call.getBaseName();
    if (!name.consume_front("_scaled_dot_product_") || name.ends_with("_backward"))
      return;
    forward.push_back(name.str());
    auto mask = mlir::cast<mlir::RankedTensorType>(call.getOperand(3).getType());
    EXPECT_TRUE(mask.getElementType().isBF16());
  });
  EXPECT_EQ(forward, (std::vector<std::string>{"efficient_attention", "efficient_attention",
                                               "cudnn_attention"}));
}

// Heads of another number of dimensions get zeros for flash attention, and keep their scale.
TEST(Capture, PaddedHeads) {
  mlir::MLIRContext context;
  CaptureOptions options = makeOptions("NarrowHeads.pt", {"x:f32[2,6,12]"});
  options.target = Target::Cuda;
  options.cudaArchitecture = 90;
  options.paramDtype = "bf16";
  auto module = capture(options, context);
  ASSERT_TRUE(module);
  int numPads = 0, numForward = 0, numBackward = 0;
  module->walk([&](aten::CallOp call) {
    numPads += call.getBaseName() == "constant_pad_nd" && call.getPhase() == aten::Phase::Forward;
    numBackward += call.getBaseName() == "_scaled_dot_product_flash_attention_backward";
    if (call.getBaseName() != "_scaled_dot_product_flash_attention")
      return;
    ++numForward;
    EXPECT_EQ(mlir::cast<mlir::RankedTensorType>(call.getResult(0).getType()).getDimSize(3), 8);
    std::string text;
    llvm::raw_string_ostream os(text);
    call.print(os);
    EXPECT_NE(text.find("0.4082"), std::string::npos) << text; // 1 / sqrt(6)
  });
  EXPECT_EQ(numPads, 3);
  EXPECT_EQ(numForward, 1);
  EXPECT_EQ(numBackward, 1);
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
    EXPECT_EQ(numNorms, 5); // two of each of two blocks, and the last one
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
