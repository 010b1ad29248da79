//===- CostModelTest.cpp - Measured costs first, then the roofline ---------===//

#include "fsdp/CostModel/CostModel.h"
#include "Calls.h"
#include "fsdp/CostModel/Device.h"
#include "fsdp/CostModel/Profile.h"
#include "fsdp/CostModel/Temporaries.h"

using namespace fsdp;
using namespace fsdp::cost;
using testing::HasSubstr;

static std::unique_ptr<CostModel> create(const CostOptions &options) {
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(options);
  if (model)
    return std::move(*model);
  ADD_FAILURE() << llvm::toString(model.takeError());
  return nullptr;
}

static const char *const kArguments = "%a: tensor<4096x4096xbf16>, %x: tensor<1024x1024xf32>";
static const char *const kBody = R"(
    %p = aten.call "mm.default"(%a, %a) fwd in ""
        : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    %s = aten.call "add.Tensor"(%x, %x, 1) fwd in ""
        : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %t = aten.call "t.default"(%a) fwd in ""
        : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16, #aten.strides<[1, 4096]>>
    %u = aten.call "add.Tensor"(%x, %x, 1) bwd in "again"
        : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>)";

// H100: 989 TFLOPS x 0.75 and 14 us for a product's ramp, 3.35 TB/s x 0.9, 2 us per kernel.
TEST(CostModel, RooflineTakesTheSlowerOfArithmeticAndTraffic) {
  Calls calls(kArguments, kBody);
  std::unique_ptr<CostModel> model = create({.device = "h100"});
  OperationCost product = model->getCost(calls[0]);
  EXPECT_NEAR(product.durationNs, 16000 + 2. * 4096 * 4096 * 4096 / (989e12 * 0.75) * 1e9, 1e-6);
  EXPECT_EQ(product.origin, Origin::Roofline);
  OperationCost sum = model->getCost(calls[1]);
  EXPECT_NEAR(sum.durationNs, 2000 + 3. * 4 * 1024 * 1024 / (3.35e12 * 0.9) * 1e9, 1e-6);
  EXPECT_EQ(model->getCost(calls[2]).durationNs, 0);
  EXPECT_EQ(model->getMemoryBytes(), int64_t(81559) << 20);
}

TEST(CostModel, CopiesToAndFromTheHostAreScaledAlone) {
  constexpr int64_t kBytes = 1 << 24;
  for (const char *device : {"h100", "cpu"}) {
    std::unique_ptr<CostModel> model = create({.device = device}),
                               faster = create({.device = device, .hostCopyFactor = 0.5});
    EXPECT_DOUBLE_EQ(faster->getHostCopyCost(kBytes).durationNs,
                     model->getHostCopyCost(kBytes).durationNs / 2);
    EXPECT_EQ(faster->getCopyCost(kBytes).durationNs, model->getCopyCost(kBytes).durationNs);
  }
}

// A product of 14 us or less has a ramp as long as itself.
TEST(CostModel, ASmallProductsRampIsAsLongAsTheProduct) {
  Calls calls("%a: tensor<1024x1024xbf16>", R"(
    %p = aten.call "mm.default"(%a, %a) fwd in ""
        : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>)");
  EXPECT_NEAR(create({.device = "h100"})->getCost(calls[0]).durationNs,
              2000 + 2 * 2. * 1024 * 1024 * 1024 / (989e12 * 0.75) * 1e9, 1e-6);
}

// On a GPU torch handles broadcast operands element by element; a CPU's core is bound by its
// memory.
TEST(CostModel, SingleElementsBoundKernelsOfGpus) {
  Calls calls("%x: tensor<4096x4096xbf16>, %w: tensor<4096xbf16>", R"(
    %m = aten.call "mul.Tensor"(%x, %w) fwd in ""
        : (tensor<4096x4096xbf16>, tensor<4096xbf16>) -> tensor<4096x4096xbf16>)");
  EXPECT_NEAR(create({.device = "h100"})->getCost(calls[0]).durationNs,
              2000 + 4096. * 4096 / 325e9 * 1e9, 1e-6);
  EXPECT_NEAR(create({.device = "cpu"})->getCost(calls[0]).durationNs,
              800 + 2. * (2 * 4096 * 4096 + 4096) / (12e9 * 0.9) * 1e9, 1e-6);
}

// Rows of logits are longer than what a multiprocessor's shared memory holds: three passes. A CPU's
// cache holds them.
TEST(CostModel, LongRowsAreReadAgain) {
  Calls calls("%x: tensor<64x32000xf32>, %y: tensor<64x1000xf32>", R"(
    %a = aten.call "_log_softmax.default"(%x, 1, false) fwd in ""
        : (tensor<64x32000xf32>) -> tensor<64x32000xf32>
    %b = aten.call "_log_softmax.default"(%y, 1, false) fwd in ""
        : (tensor<64x1000xf32>) -> tensor<64x1000xf32>)");
  double bytesPerNs = 3.35e12 * 0.9 / 1e9;
  EXPECT_NEAR(create({.device = "h100"})->getCost(calls[0]).durationNs,
              2000 + 4. * 4 * 64 * 32000 / bytesPerNs, 1e-6);
  EXPECT_NEAR(create({.device = "h100"})->getCost(calls[1]).durationNs,
              2000 + 2. * 4 * 64 * 1000 / bytesPerNs, 1e-6);
  EXPECT_NEAR(create({.device = "cpu"})->getCost(calls[0]).durationNs,
              800 + 2. * 4 * 64 * 32000 / (12e9 * 0.9) * 1e9, 1e-6);
}

// Generated kernels reach 0.88 of an H100's bandwidth; the log-softmax of long rows reads them for
// its maximum and its sum, and again for what is stored.
TEST(CostModel, GeneratedKernelsHaveARateOfTheirOwn) {
  auto launch = [](const std::string &row) {
    const std::string x = "tensor<64x" + row + "xbf16>", f = "tensor<64x" + row + "xf32>";
    return std::make_unique<Calls>("%x: " + x,
                                   "%r = fsdp.launch @k(%x) fwd in <\"m\"> : (" + x + ") -> " + x,
                                   "fsdp.kernel @k fast {\n^bb0(%x: " + x + R"():
          %f = aten.call "_to_copy.default"(%x, f32, none, none, none, false, none) fwd in "" : ()" +
                                       x + ") -> " + f + R"(
          %s = aten.call "_log_softmax.default"(%f, 1, false) fwd in "" : ()" +
                                       f + ") -> " + f +
                                       R"(
          %r = aten.call "_to_copy.default"(%s, bf16, none, none, none, false, none) fwd in "" : ()" +
                                       f + ") -> " + x + "\nfsdp.yield %r : " + x + "\n}");
  };
  std::unique_ptr<Calls> shortRows = launch("1000"), longRows = launch("32000");
  std::unique_ptr<CostModel> model = create({.device = "h100"});
  double bytesPerNs = 3.35e12 * 0.88 / 1e9;
  EXPECT_NEAR(model->getCost(shortRows->getLaunch(0)).durationNs,
              2000 + 2. * 2 * 64 * 1000 / bytesPerNs, 1e-6);
  EXPECT_NEAR(model->getCost(longRows->getLaunch(0)).durationNs,
              2000 + 4. * 2 * 64 * 32000 / bytesPerNs, 1e-6);
}

TEST(CostModel, RatesDependOnTheDtype) {
  Calls calls("%h: tensor<512x512xbf16>, %f: tensor<512x512xf32>", R"(
    %a = aten.call "mm.default"(%h, %h) fwd in ""
        : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
    %b = aten.call "mm.default"(%f, %f) fwd in ""
        : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>)");
  for (const char *name : {"a100", "h100", "h200", "b200"}) {
    std::unique_ptr<CostModel> model = create({.device = name});
    EXPECT_LT(model->getCost(calls[0]).durationNs, model->getCost(calls[1]).durationNs) << name;
  }
}

TEST(CostModel, UpdatesAndCopiesMoveTheirBytes) {
  Calls calls("%x: tensor<f32>", "");
  mlir::Type f32 = mlir::Float32Type::get(&calls.getContext());
  std::unique_ptr<CostModel> model = create({.device = "h100"});
  double bytesPerNs = 3.35e12 * 0.9 / 1e9;
  EXPECT_NEAR(model->getUpdateCost(OptimizerKind::AdamW, 1 << 20, f32, 8 << 20).durationNs,
              2000 + 7. * 4 * (1 << 20) / bytesPerNs, 1e-6);
  EXPECT_NEAR(model->getUpdateCost(OptimizerKind::SGD, 1 << 20, f32, 4 << 20).durationNs,
              2000 + 5. * 4 * (1 << 20) / bytesPerNs, 1e-6);
  EXPECT_NEAR(model->getCopyCost(1 << 20).durationNs, 2000 + 2. * (1 << 20) / bytesPerNs, 1e-6);
  EXPECT_EQ(model->getUpdateCost(OptimizerKind::AdamW, 0, f32, 0).durationNs, 0);
  EXPECT_EQ(model->getCopyCost(0).durationNs, 0);
}

static std::string profileText() {
  Profile profile;
  profile.device = "cpu";
  profile.description = "a CPU, 1 thread";
  profile.source = "a test";
  ProfiledCall call;
  call.key = {
      "add", "Tensor", {{"f32", {1024, 1024}, {}}, {"f32", {1024, 1024}, {}}}, {"%", "%", "1"}};
  call.medianNs = 777;
  call.spread = 0.25;
  call.samples = 3;
  call.temporaryBytes = 64;
  profile.calls.push_back(call);
  profile.updates.push_back(
      {OptimizerKind::AdamW, "f32", {{1000, 500, 0.1, 9}, {2000, 900, 0.2, 9}}});
  profile.copies = {{1000, 100, 0.1, 9}};
  std::string text;
  llvm::raw_string_ostream os(text);
  writeProfile(profile, os);
  return text;
}

TEST(CostModel, AProfileComesBeforeTheRoofline) {
  TemporaryFile file(profileText());
  Calls calls(kArguments, kBody);
  std::unique_ptr<CostModel> model = create({.profile = file.path});
  OperationCost sum = model->getCost(calls[1]);
  EXPECT_EQ(sum.durationNs, 777);
  EXPECT_EQ(sum.spread, 0.25);
  EXPECT_EQ(sum.temporaryBytes, 64);
  EXPECT_EQ(sum.origin, Origin::Measured);
  EXPECT_EQ(model->getCost(calls[3]).durationNs, 777);
  EXPECT_EQ(model->getCost(calls[0]).origin, Origin::Roofline);
  model->getCost(calls[2]);

  mlir::Type f32 = mlir::Float32Type::get(&calls.getContext());
  OperationCost update = model->getUpdateCost(OptimizerKind::AdamW, 1500, f32, 12000);
  EXPECT_EQ(update.durationNs, 700);
  EXPECT_EQ(update.spread, 0.2);
  EXPECT_EQ(update.origin, Origin::Measured);
  EXPECT_EQ(model->getUpdateCost(OptimizerKind::SGD, 1500, f32, 6000).origin, Origin::Roofline);
  EXPECT_EQ(model->getCopyCost(2000).durationNs, 200);

  EXPECT_THAT(
      model->describeSources(),
      HasSubstr(
          "measured on a CPU, 1 thread: 1 of 2 distinct calls; "
          "roofline of one thread of a server CPU (a typical core): 1; network shared-memory ("));
}

// A kernel is known by what it computes: a launch of an equal one in another module has its
// duration, a launch of another one that of its traffic.
TEST(CostModel, AProfileComesBeforeTheRooflineOfKernels) {
  const std::string x = "tensor<1024x1024xf32>";
  auto step = [&](const std::string &name, const std::string &alpha) {
    return std::make_unique<Calls>(
        "%x: " + x, "%r = fsdp.launch @" + name + "(%x) fwd in <\"m\"> : (" + x + ") -> " + x,
        "fsdp.kernel @" + name + " exact {\n^bb0(%a: " + x +
            "):\n%b = aten.call \"add.Tensor\"(%a, %a, " + alpha + ") fwd in \"\" : (" + x + ", " +
            x + ") -> " + x + "\nfsdp.yield %b : " + x + "\n}");
  };
  std::unique_ptr<Calls> measured = step("first", "1"), equal = step("second", "1"),
                         other = step("second", "-1");
  Profile profile;
  profile.device = "cpu";
  profile.description = "a CPU, 1 thread";
  profile.source = "a test";
  profile.kernels.push_back(
      {KernelKey::of(measured->getLaunch(0).getDeclaration()), "first", 888, 0.125, 20});
  std::string text;
  llvm::raw_string_ostream os(text);
  writeProfile(profile, os);
  TemporaryFile file(text);
  std::unique_ptr<CostModel> model = create({.profile = file.path});
  for (int time = 0; time < 2; ++time) { // computed, remembered
    OperationCost cost = model->getCost(equal->getLaunch(0));
    EXPECT_EQ(cost.durationNs, 888);
    EXPECT_EQ(cost.spread, 0.125);
    EXPECT_EQ(cost.temporaryBytes, 0);
    EXPECT_EQ(cost.origin, Origin::Measured);
    EXPECT_EQ(model->getCost(other->getLaunch(0)).origin, Origin::Roofline);
  }
  EXPECT_EQ(model->getCost(other->getLaunch(0)).durationNs,
            create({})->getCost(equal->getLaunch(0)).durationNs);
  EXPECT_THAT(
      model->describeSources(),
      testing::StartsWith("measured on a CPU, 1 thread: 1 of 2 distinct calls; roofline of "));
  std::unique_ptr<CostModel> given = create({.profile = file.path, .computeJitter = "2"});
  EXPECT_EQ(given->getCost(equal->getLaunch(0)).spread, 0.02);
}

// What is given takes the place of what is measured, for everything; nothing given leaves it.
TEST(CostModel, GivenJitterReplacesWhatIsMeasured) {
  Calls calls(kArguments, kBody);
  mlir::Type f32 = mlir::Float32Type::get(&calls.getContext());
  TemporaryFile file(profileText());
  auto model = create({.profile = file.path, .computeJitter = "2.5", .networkJitter = "0"});
  for (unsigned call : {0, 1})
    EXPECT_EQ(model->getCost(calls[call]).spread, 0.025);
  EXPECT_EQ(model->getUpdateCost(OptimizerKind::AdamW, 1500, f32, 12000).spread, 0.025);
  EXPECT_EQ(model->getCopyCost(2000).spread, 0.025);
  EXPECT_EQ(model->getCollectiveCost(CollectiveKind::AllGather, 2).spread, 0);
  EXPECT_THAT(model->describeSources(),
              HasSubstr("; jitter of computation 2.5 %, as given; jitter of the network 0.0 %"));
  EXPECT_EQ(create({.device = "h100"})->getCost(calls[0]).spread, 0);
  for (const char *text : {"x", "-1", "101", "nan"})
    EXPECT_EQ(messageOf(CostModel::create({.networkJitter = text})),
              std::string("network-jitter is '") + text +
                  "', expected percent from 0 to 100, as in 2.5");
}

// The area is as large as the largest call needs; views need none, and what was not measured is
// told apart from what needs none.
TEST(CostModel, TemporariesAreThoseOfTheLargestCall) {
  TemporaryFile file(profileText());
  Calls calls(kArguments, kBody);
  auto module = calls[0]->getParentOfType<mlir::ModuleOp>();
  Temporaries measured = findTemporaries(module, *create({.profile = file.path}));
  EXPECT_EQ(measured.scratchBytes, 64);
  EXPECT_EQ(measured.numMeasured, 2u);
  EXPECT_EQ(measured.numCalls, 3u);
  EXPECT_FALSE(measured.areKnown());
  EXPECT_EQ(measured.describe(), "64 bytes beside the arena, measured for 2 of 3 calls");
  Temporaries unknown = findTemporaries(module, *create({.device = "h100"}));
  EXPECT_EQ(unknown.scratchBytes, 0);
  EXPECT_FALSE(unknown.areKnown());
}

TEST(CostModel, ErrorsNameWhatDoesNotFit) {
  EXPECT_EQ(messageOf(CostModel::create({.device = "k80"})),
            "unknown device 'k80', expected one of a100, h100, h100-500w, h200, b200, cpu");
  TemporaryFile file(profileText());
  EXPECT_EQ(messageOf(CostModel::create({.device = "h100", .profile = file.path})),
            "profile '" + file.path +
                "' was measured on device 'cpu', but device 'h100' is asked for");
  EXPECT_THAT(messageOf(CostModel::create({.network = "no-such-network"})),
              HasSubstr("network 'no-such-network' is neither a file nor one of"));
}

// A GPU is known by a word of its driver's name.
TEST(CostModel, FindsProducts) {
  for (auto [product, name] :
       {std::pair("NVIDIA H100 80GB HBM3", "h100"), std::pair("NVIDIA A100-SXM4-80GB", "a100"),
        std::pair("NVIDIA H200", "h200"), std::pair("NVIDIA B200", "b200")}) {
    const Device *device = findProduct(product);
    ASSERT_NE(device, nullptr) << product;
    EXPECT_EQ(device->name, name);
  }
  for (const char *product : {"NVIDIA L40S", "NVIDIA GH200 480GB", "NVIDIA A10", ""})
    EXPECT_EQ(findProduct(product), nullptr) << product;
}

TEST(CostModel, EveryDeviceHasANetwork) {
  for (const char *name : {"a100", "h100", "h200", "b200", "cpu"}) {
    std::unique_ptr<CostModel> model = create({.device = name});
    ASSERT_TRUE(model);
    EXPECT_GT(model->getCollectiveCost(CollectiveKind::AllGather, 8).nsPerByte, 0);
    const schedule::Contention contention = model->getContention();
    EXPECT_GE(contention.gathers, 1);
    EXPECT_GE(contention.several, contention.gathers);
    EXPECT_GE(contention.lanes, 1);
    EXPECT_LE(contention.lanes, 2);
  }
}
