//===- InterpretTest.cpp - Captured steps against eager autograd, bitwise -===//

#include "TestModels.h"
#include "TestTensors.h"
#include "fsdp/Interpreter/Interpreter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

using namespace fsdp;
using namespace fsdp::frontend;
using interpreter::NamedTensors;
using interpreter::StepValues;

namespace {

struct Case {
  std::string file;  // what is captured
  std::string eager; // the script that runs eagerly
  std::vector<std::string> inputs;
};

void PrintTo(const Case &value, std::ostream *os) { *os << value.file; }

class InterpretTest : public testing::TestWithParam<Case> {};

/// A model's tensors under the names of the IR, and the forward on real tensors.
struct EagerModel {
  explicit EagerModel(const std::string &file) : module(torch::jit::load(getModelPath(file))) {
    // Plain interpretation: no fusion.
    torch::jit::getExecutorMode() = false;
    torch::jit::getProfilingMode() = false;
    torch::jit::setGraphExecutorOptimize(false);
    for (const auto &parameter : module.named_parameters()) {
      state[parameter.name] = parameter.value;
      parameters[parameter.name] = parameter.value;
    }
    for (const auto &buffer : module.named_buffers())
      state[buffer.name] = buffer.value;
  }

  torch::jit::Module module;
  NamedTensors state, parameters;
};

} // namespace

// The interpreted capture yields eager's loss, gradients and buffers, bit by bit; under the same
// generator state where numbers are drawn. The interpreter checks sizes, strides, dtypes and
// aliasing of every result on the way.
TEST_P(InterpretTest, EqualsEagerBitwise) {
  CaptureOptions options = makeOptions(GetParam().file, GetParam().inputs);
  mlir::MLIRContext context;
  auto module = capture(options, context);
  ASSERT_TRUE(module);
  EagerModel eager(GetParam().eager);
  std::vector<at::Tensor> inputs = makeInputs(options);
  NamedTensors namedInputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    namedInputs[options.inputs[i].name] = inputs[i];

  seedGenerator(7);
  llvm::Expected<StepValues> step = interpreter::interpretStep(*module, eager.state, namedInputs);
  ASSERT_TRUE(static_cast<bool>(step)) << llvm::toString(step.takeError());

  std::vector<at::Tensor> parameters;
  std::vector<std::string> names;
  module->walk([&](ParamOp param) {
    names.push_back(param.getSymName().str());
    parameters.push_back(eager.parameters.at(names.back()));
  });
  NamedTensors before;
  for (const auto &[name, value] : step->buffers)
    before[name] = eager.state.at(name).clone();
  seedGenerator(7);
  at::Tensor loss = eager.module.forward({inputs.begin(), inputs.end()}).toTensor();
  auto gradients = torch::autograd::grad({loss}, parameters);

  EXPECT_TRUE(isBitwiseEqual(step->loss, loss));
  EXPECT_TRUE(step->relaid.empty()) << "strides of " << step->relaid.front();
  EXPECT_EQ(step->gradients.size(), parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(isBitwiseEqual(step->gradients[names[i]], gradients[i])) << names[i];
  for (const auto &[name, value] : step->buffers) {
    EXPECT_TRUE(isBitwiseEqual(value, eager.state.at(name))) << name;
    EXPECT_FALSE(isBitwiseEqual(value, before.at(name))) << name << " did not change";
  }
  // Every buffer that eager wrote is written by the step.
  EagerModel fresh(GetParam().eager);
  module->walk([&](BufferOp buffer) {
    std::string name = buffer.getSymName().str();
    if (step->buffers.count(name))
      return;
    EXPECT_TRUE(isBitwiseEqual(eager.state.at(name), fresh.state.at(name))) << name;
  });
}

static std::vector<Case> makeCases() {
  std::vector<Case> cases;
  for (std::string model : {"mlp", "vit", "convnet", "llama", "llama_bf16", "gpt2", "gpt2_dropout"})
    for (std::string form : {".script.pt", ".trace.pt", ".pt2"})
      cases.push_back({model + form, model + ".script.pt", getInputs(model)});
  cases.push_back({"Literals.pt", "Literals.pt", {"x:f32[3]"}});
  cases.push_back({"Two.pt", "Two.pt", {"x:f32[2,4]"}});
  cases.push_back({"Extra.pt", "Extra.pt", {"x:f32[2,2,8,8]"}});
  cases.push_back({"Masked.pt", "Masked.pt", {"x:f32[2,6,8]"}});
  cases.push_back({"Expanded.pt", "Expanded.pt", {"x:f32[4]"}});
  cases.push_back({"Factors.pt", "Factors.pt", {"x:f32[4]"}});
  cases.push_back({"Draws.pt", "Draws.pt", {"x:f32[4]"}});
  cases.push_back({"Random.pt", "Random.pt", {"x:f32[4]"}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, InterpretTest, testing::ValuesIn(makeCases()),
                         [](const testing::TestParamInfo<Case> &info) {
                           std::string name = info.param.file;
                           for (char &c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

// Another generator state gives another loss: the numbers are really drawn.
TEST(Interpret, DrawsFromTheDefaultGenerator) {
  CaptureOptions options = makeOptions("gpt2_dropout.script.pt", getInputs("gpt2_dropout"));
  mlir::MLIRContext context;
  auto module = capture(options, context);
  ASSERT_TRUE(module);
  EagerModel eager("gpt2_dropout.script.pt");
  std::vector<at::Tensor> inputs = makeInputs(options);
  NamedTensors named{{"tokens", inputs[0]}, {"targets", inputs[1]}};
  auto run = [&](uint64_t value) {
    seedGenerator(value);
    return llvm::cantFail(interpreter::interpretStep(*module, eager.state, named)).loss;
  };
  EXPECT_TRUE(isBitwiseEqual(run(7), run(7)));
  EXPECT_FALSE(isBitwiseEqual(run(7), run(8)));
}

// The interpreter reports a result whose strides are not those of its type.
TEST(Interpret, ReportsWrongTypes) {
  CaptureOptions options = makeOptions("Two.pt", {"x:f32[2,4]"});
  mlir::MLIRContext context;
  auto module = capture(options, context);
  ASSERT_TRUE(module);
  module->walk([&](aten::CallOp call) {
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(call.getResult(0).getType());
    if (type && type.getEncoding())
      call.getResult(0).setType(type.cloneWithEncoding({}));
  });
  EagerModel eager("Two.pt");
  auto step = interpreter::interpretStep(*module, eager.state, {{"x", at::randn({2, 4})}});
  ASSERT_FALSE(static_cast<bool>(step));
  EXPECT_EQ(llvm::toString(step.takeError()),
            "'t.default' yields Float of sizes [4, 4], strides [1, 4], offset 0, but its type is "
            "tensor<4x4xf32>");
}

// torch has products that are stored in another dtype for CUDA alone: the interpreter adds up and
// stores in fp32, which bf16 could not hold.
TEST(InterpretProductTest, StoresBf16ProductsInFp32) {
  mlir::MLIRContext context;
  context.loadDialect<aten::AtenDialect, FsdpDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    module attributes {fsdp.target = #fsdp.target<cuda>} {
      func.func @step() -> tensor<f32> {
        %a = fsdp.input "a" : tensor<3x8xbf16>
        %b = fsdp.input "b" : tensor<8x5xbf16>
        %c = aten.call "mm.dtype"(%a, %b, f32) fwd in "" : (tensor<3x8xbf16>, tensor<8x5xbf16>) -> tensor<3x5xf32>
        %loss = aten.call "sum.default"(%c, none) fwd in "" : (tensor<3x5xf32>) -> tensor<f32>
        return %loss : tensor<f32>
      }
    })",
                                                        &context);
  ASSERT_TRUE(module);
  seedGenerator(7);
  at::Tensor a = at::randn({3, 8}).to(at::kBFloat16), b = at::randn({8, 5}).to(at::kBFloat16);
  llvm::Expected<StepValues> step = interpreter::interpretStep(*module, {}, {{"a", a}, {"b", b}});
  ASSERT_TRUE(static_cast<bool>(step)) << llvm::toString(step.takeError());
  EXPECT_TRUE(isBitwiseEqual(step->loss, at::mm(a.to(at::kFloat), b.to(at::kFloat)).sum()));
  EXPECT_FALSE(isBitwiseEqual(step->loss, at::mm(a, b).to(at::kFloat).sum()));
}
