//===- OptimizerTest.cpp - Updates equal torch.optim's bit for bit ---------===//

#include "../Optimizers.h"
#include "executor/OptimizerUpdate.h"
#include "executor/ShardSegments.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

using namespace fsdp::rt;

namespace {
/// Python's `tensor.mul_(factor)`, for which bf16 tensors do not round the factor. C++'s mul_ does.
at::Tensor &multiply(at::Tensor &tensor, double factor) {
  return tensor.mul_(at::native::wrapped_scalar_tensor(factor));
}

/// What torch.optim's single-tensor functions execute (torch 2.11, _single_tensor_adam and
/// _single_tensor_sgd), on a whole parameter.
struct Reference {
  fsdp_optimizer optimizer;
  at::Tensor parameter, state[FSDP_MAX_STATES];
  bool hasBuffer = false;

  void step(at::Tensor gradient, int64_t number, double lr) {
    if (optimizer.clip_grad_value != 0)
      gradient = gradient.clamp(-optimizer.clip_grad_value, optimizer.clip_grad_value);
    if (optimizer.options & FSDP_MAXIMIZE)
      gradient = gradient.neg();
    if (optimizer.kind == FSDP_SGD)
      sgd(gradient, lr);
    else
      adam(gradient, static_cast<double>(number), lr);
  }

  void sgd(at::Tensor gradient, double lr) {
    if (optimizer.weight_decay != 0)
      gradient = gradient.add(parameter, optimizer.weight_decay);
    if (optimizer.momentum != 0) {
      if (!hasBuffer)
        state[0] = gradient.detach().clone();
      else
        multiply(state[0], optimizer.momentum).add_(gradient, 1 - optimizer.dampening);
      hasBuffer = true;
      gradient =
          optimizer.options & FSDP_NESTEROV ? gradient.add(state[0], optimizer.momentum) : state[0];
    }
    parameter.add_(gradient, -lr);
  }

  void adam(at::Tensor gradient, double number, double lr) {
    if (optimizer.weight_decay != 0) {
      if (optimizer.kind == FSDP_ADAMW)
        multiply(parameter, 1 - lr * optimizer.weight_decay);
      else
        gradient = gradient.add(parameter, optimizer.weight_decay);
    }
    state[0].lerp_(gradient, 1 - optimizer.beta1);
    multiply(state[1], optimizer.beta2).addcmul_(gradient, gradient, 1 - optimizer.beta2);
    double correction1 = 1 - std::pow(optimizer.beta1, number);
    double correction2 = 1 - std::pow(optimizer.beta2, number);
    at::Tensor square = state[1];
    if (optimizer.options & FSDP_AMSGRAD)
      square = at::maximum_out(state[2], state[2], state[1]);
    at::Tensor denominator = square.sqrt().div(std::pow(correction2, 0.5)).add_(optimizer.eps);
    parameter.addcdiv_(state[0], denominator, -(lr / correction1));
  }
};

fsdp_optimizer sgd(double weightDecay, double momentum) {
  return fsdp::test::makeOptimizer(FSDP_SGD,
                                   {{"weight_decay", {weightDecay}}, {"momentum", {momentum}}});
}
fsdp_optimizer withOptions(fsdp_optimizer optimizer, uint32_t options, double dampening = 0) {
  optimizer.options = options;
  optimizer.dampening = dampening;
  return optimizer;
}
fsdp_optimizer adam(fsdp_optimizer_kind kind, double weightDecay, double beta1 = 0.9,
                    double beta2 = 0.999) {
  return fsdp::test::makeOptimizer(kind,
                                   {{"weight_decay", {weightDecay}}, {"betas", {beta1, beta2}}});
}

std::byte *bytes(const at::Tensor &tensor) { return static_cast<std::byte *>(tensor.data_ptr()); }

/// The gradients as torch multiplies them before the update: GradScaler.unscale_(), then clipping
/// by a number of their dtype.
at::Tensor multiplied(const at::Tensor &gradient, const GradientFactors &factors) {
  at::Tensor product = gradient.clone();
  if (factors.inverseScale) {
    at::Tensor found = at::zeros({}), inverse = at::full({}, *factors.inverseScale);
    at::_amp_foreach_non_finite_check_and_unscale_({product}, found, inverse);
  }
  return factors.clip ? product.mul_(at::full({}, *factors.clip).to(gradient.dtype())) : product;
}

/// Runs a few steps of the shard and of the reference, parameter by parameter, with one gradient
/// sequence.
void compare(const fsdp_optimizer &optimizer, std::vector<ShardPiece> pieces, at::ScalarType type,
             const GradientFactors &factors = {}) {
  int64_t elements = pieces.back().first + pieces.back().count;
  at::Tensor parameter = at::randn({elements}).to(type);
  at::Tensor gradient = at::zeros_like(parameter);
  at::Tensor state[FSDP_MAX_STATES];
  for (at::Tensor &values : state)
    values = at::zeros_like(parameter);
  const bool amsgrad = optimizer.options & FSDP_AMSGRAD;
  auto part = [](const at::Tensor &tensor, const ShardPiece &piece) {
    return tensor.narrow(0, piece.first, piece.count);
  };
  std::vector<Reference> references;
  for (const ShardPiece &piece : pieces)
    references.push_back({optimizer,
                          part(parameter, piece).clone(),
                          {part(state[0], piece).clone(), part(state[1], piece).clone(),
                           part(state[2], piece).clone()}});
  auto update = makeShardUpdate(
      optimizer, {static_cast<fsdp_dtype>(type),
                  elements,
                  bytes(parameter),
                  bytes(gradient),
                  {bytes(state[0]), bytes(state[1]), amsgrad ? bytes(state[2]) : nullptr},
                  pieces});
  for (int64_t step = 1; step <= 5; ++step) {
    double lr = 1e-2 / static_cast<double>(step);
    // Gradients over many orders of magnitude, and exact zeros.
    for (const ShardPiece &piece : pieces) {
      at::Tensor scale = at::pow(10.0, at::mul(at::randn({piece.count}), 3));
      at::Tensor sign = at::mul(at::randn({piece.count}), at::rand({piece.count}).gt(0.05));
      part(gradient, piece).copy_(scale.mul_(sign));
    }
    double before = update->partialNorm(FSDP_NORM_2);
    double squares = update->run(step, lr, factors);
    EXPECT_EQ(squares, before);
    for (size_t i = 0; i < pieces.size(); ++i) {
      references[i].step(multiplied(part(gradient, pieces[i]), factors), step, lr);
      ASSERT_TRUE(at::equal(part(parameter, pieces[i]), references[i].parameter)) << step;
      ASSERT_TRUE(at::equal(part(state[0], pieces[i]), references[i].state[0])) << step;
      ASSERT_TRUE(at::equal(part(state[1], pieces[i]), references[i].state[1])) << step;
      ASSERT_TRUE(at::equal(part(state[2], pieces[i]), references[i].state[2])) << step;
    }
    at::Tensor wide = gradient.to(at::kDouble);
    double expected = wide.square().sum().item<double>();
    ASSERT_NEAR(squares, expected, 1e-12 * expected);
    double sum = wide.abs().sum().item<double>();
    ASSERT_NEAR(update->partialNorm(FSDP_NORM_1), sum, 1e-12 * sum);
    ASSERT_EQ(update->partialNorm(FSDP_NORM_INF), wide.abs().max().item<double>());
  }
}

/// A few steps of a shard whose state has dtypes of its own. The reference computes each in fp32
/// from what was stored, and stores its results.
void compareOwnStates(const fsdp_optimizer &optimizer, int64_t elements, at::ScalarType type,
                      std::array<at::ScalarType, FSDP_MAX_STATES> stateTypes,
                      const GradientFactors &factors) {
  at::Tensor parameter = at::randn({elements}).to(type), gradient = at::zeros_like(parameter);
  at::Tensor state[FSDP_MAX_STATES];
  for (int i = 0; i < FSDP_MAX_STATES; ++i)
    state[i] = at::zeros({elements}, stateTypes[i]);
  const bool amsgrad = optimizer.options & FSDP_AMSGRAD;
  ShardBuffers shard{
      .dtype = static_cast<fsdp_dtype>(type),
      .elements = elements,
      .parameters = bytes(parameter),
      .gradients = bytes(gradient),
      .state = {bytes(state[0]), bytes(state[1]), amsgrad ? bytes(state[2]) : nullptr},
      .pieces = {{0, elements}}};
  for (int i = 0; i < FSDP_MAX_STATES; ++i)
    shard.stateDtype[i] = static_cast<fsdp_dtype>(stateTypes[i]);
  auto update = makeShardUpdate(optimizer, shard);
  Reference reference{optimizer, {}, {}};
  reference.optimizer.clip_grad_value = 0; // gradients are clipped in their dtype before
  for (int64_t step = 1; step <= 4; ++step) {
    const double lr = 1e-2 / static_cast<double>(step);
    // Within the range of fp16.
    gradient.copy_(
        at::randn({elements}).mul_(at::pow(10.0, at::randn({elements}))).clamp_(-1e3, 1e3));
    at::Tensor own = multiplied(gradient, factors);
    if (optimizer.clip_grad_value != 0)
      own = own.clamp(-optimizer.clip_grad_value, optimizer.clip_grad_value);
    reference.parameter = parameter.to(at::kFloat, false, /*copy=*/true);
    for (int i = 0; i < FSDP_MAX_STATES; ++i)
      reference.state[i] = state[i].to(at::kFloat, false, /*copy=*/true);
    reference.step(own.to(at::kFloat), step, lr);
    const double before = update->partialNorm(FSDP_NORM_2);
    EXPECT_EQ(update->run(step, lr, factors), before);
    ASSERT_TRUE(at::equal(parameter, reference.parameter.to(type)))
        << "step " << step << " of " << elements << " elements of " << type;
    for (int i = 0; i < FSDP_MAX_STATES; ++i)
      ASSERT_TRUE(at::equal(state[i], reference.state[i].to(stateTypes[i])))
          << "step " << step << ", state " << i;
  }
}

class OptimizerTest : public testing::TestWithParam<fsdp_optimizer> {
protected:
  OptimizerTest() { at::set_num_threads(1); }
};
} // namespace

// fp32 updates are torch's, bit for bit, for shards below, at and above the size of a chunk and
// with any remainder.
TEST_P(OptimizerTest, SinglePrecisionIsBitwise) {
  at::manual_seed(1);
  for (int64_t elements : {1, 7, 8, 9, 1003, 8192, 8193, 40009})
    compare(GetParam(), {{0, elements}}, at::kFloat);
  compare(GetParam(), {{0, 17}, {32, 9000}, {9040, 5}}, at::kFloat);
}

// So are those with clipped gradients, and a factor of 1 changes nothing.
TEST_P(OptimizerTest, ClippedGradients) {
  at::manual_seed(5);
  for (float clip : {0.3f, 1.f})
    for (int64_t elements : {9, 8193}) {
      compare(GetParam(), {{0, elements}}, at::kFloat, {.clip = clip});
      compare(GetParam(), {{0, 17}, {32, elements}}, at::kBFloat16, {.clip = clip});
    }
}

// So are those whose gradients are divided by a loss scale, which need not be a power of 2, before
// they are clipped.
TEST_P(OptimizerTest, ScaledGradients) {
  at::manual_seed(9);
  fsdp_optimizer byValue = GetParam();
  byValue.clip_grad_value = 1e-5;
  for (float scale : {65536.f, 3.f, 0.75f})
    for (std::optional<float> clip : {std::optional<float>(), std::optional(0.3f)})
      for (int64_t elements : {9, 8193}) {
        const GradientFactors factors{.clip = clip, .inverseScale = inverseOfScale(scale)};
        for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble})
          compare(GetParam(), {{0, 17}, {32, elements}}, type, factors);
        compareOwnStates(GetParam(), elements, at::kBFloat16, {at::kFloat, at::kFloat, at::kFloat},
                         factors);
        if (!clip)
          compare(byValue, {{0, 17}, {32, elements}}, at::kFloat, factors);
      }
}

// So are those whose gradients are clipped to a value that is not a number of their dtype; the norm
// is that of the gradients before.
TEST_P(OptimizerTest, GradientsClippedByValue) {
  at::manual_seed(6);
  fsdp_optimizer optimizer = GetParam();
  for (double value : {0.3, 1e-9, 1e30}) { // the second rounds to 0 in f16
    optimizer.clip_grad_value = value;
    for (int64_t elements : {9, 8193}) {
      for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble})
        compare(optimizer, {{0, 17}, {32, elements}}, type);
      compareOwnStates(optimizer, elements, at::kFloat,
                       {at::kBFloat16, at::kBFloat16, at::kBFloat16}, {});
      if (value < 1e4) // in f16, torch refuses larger ones
        for (at::ScalarType narrow : {at::kBFloat16, at::kHalf})
          compareOwnStates(optimizer, elements, narrow, {at::kFloat, at::kFloat, at::kFloat}, {});
    }
  }
}

// Gradients of bf16 are clipped in the parameters' fp32, where the value is not rounded to bf16.
TEST_P(OptimizerTest, NarrowGradientsClippedByValue) {
  fsdp_optimizer optimizer = GetParam();
  optimizer.clip_grad_value = 0.3;
  at::manual_seed(8);
  const int64_t elements = 8193;
  at::Tensor parameter = at::randn({elements}), narrow = at::randn({elements}, at::kBFloat16);
  at::Tensor state = at::zeros({3, elements});
  Reference reference{optimizer,
                      parameter.clone(),
                      {at::zeros({elements}), at::zeros({elements}), at::zeros({elements})}};
  const bool amsgrad = optimizer.options & FSDP_AMSGRAD;
  auto update = makeShardUpdate(
      optimizer, {.dtype = FSDP_F32,
                  .elements = elements,
                  .parameters = bytes(parameter),
                  .gradients = bytes(narrow),
                  .state = {bytes(state[0]), bytes(state[1]), amsgrad ? bytes(state[2]) : nullptr},
                  .pieces = {{0, elements}},
                  .gradientDtype = FSDP_BF16});
  at::Tensor before = narrow.clone();
  update->run(1, 1e-2, {});
  reference.step(narrow.to(at::kFloat), 1, 1e-2);
  EXPECT_TRUE(at::equal(parameter, reference.parameter));
  EXPECT_TRUE(at::equal(narrow, before));
}

// A NaN stays a NaN, infinities are clipped.
TEST_P(OptimizerTest, NonFiniteGradientsClippedByValue) {
  fsdp_optimizer optimizer = GetParam();
  optimizer.clip_grad_value = 0.5;
  const double infinity = std::numeric_limits<double>::infinity();
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::Tensor parameter = at::ones({40}, type), state = at::zeros({3, 40}, type);
    at::Tensor gradient = at::full({40}, infinity, type);
    gradient[1].fill_(std::nan(""));
    gradient[2].neg_();
    const bool amsgrad = optimizer.options & FSDP_AMSGRAD;
    auto update = makeShardUpdate(
        optimizer, {static_cast<fsdp_dtype>(type),
                    40,
                    bytes(parameter),
                    bytes(gradient),
                    {bytes(state[0]), bytes(state[1]), amsgrad ? bytes(state[2]) : nullptr},
                    {{0, 40}}});
    update->run(1, 0.1, {});
    EXPECT_TRUE(std::isnan(parameter[1].item<float>()));
    EXPECT_EQ(parameter.isfinite().sum().item<int64_t>(), 39);
    EXPECT_NE(parameter[0].item<float>(), parameter[2].item<float>());
  }
}

// So are those of bf16 parameters, whose state is bf16 too.
TEST_P(OptimizerTest, BFloat16IsBitwise) {
  at::manual_seed(2);
  for (int64_t elements : {1, 16, 1003, 8192, 24577})
    compare(GetParam(), {{0, elements}}, at::kBFloat16);
  compare(GetParam(), {{0, 17}, {32, 9000}, {9040, 5}}, at::kBFloat16);
}

// State of another dtype than its parameters is widened, and rounded where it is stored, and so are
// parameters; they take the state as it is before that.
TEST_P(OptimizerTest, StateOfAnotherDtype) {
  at::manual_seed(7);
  constexpr std::array kNarrow = {at::kBFloat16, at::kBFloat16, at::kBFloat16},
                       kWide = {at::kFloat, at::kFloat, at::kFloat},
                       kMixed = {at::kBFloat16, at::kFloat, at::kBFloat16};
  for (int64_t elements : {1, 17, 8192, 20011})
    for (std::optional<float> clip : {std::optional<float>(), std::optional<float>(0.3f)}) {
      compareOwnStates(GetParam(), elements, at::kFloat, kNarrow, {.clip = clip});
      compareOwnStates(GetParam(), elements, at::kFloat, kMixed, {.clip = clip});
      for (at::ScalarType narrow : {at::kBFloat16, at::kHalf}) {
        compareOwnStates(GetParam(), elements, narrow, kWide, {.clip = clip});
        compareOwnStates(GetParam(), elements, narrow, kMixed, {.clip = clip});
      }
    }
}

// Gradients of bf16 and f16 update as those of fp32 with the same values do, and each update leaves
// the parameters' copy in the dtype in which they are gathered.
TEST_P(OptimizerTest, NarrowGradientsAndCopies) {
  at::manual_seed(5);
  for (int64_t elements : {7, 8192, 20011})
    for (auto [gathered, reduced] : {std::pair(at::kBFloat16, at::kBFloat16),
                                     {at::kHalf, at::kBFloat16},
                                     {at::kHalf, at::kHalf}}) {
      at::Tensor parameters = at::randn({2, elements}), state = at::zeros({6, elements});
      const bool amsgrad = GetParam().options & FSDP_AMSGRAD;
      parameters[1].copy_(parameters[0]);
      at::Tensor narrow = at::zeros({elements}, reduced), wide = at::zeros({elements});
      at::Tensor copy = at::zeros({elements}, gathered);
      auto own = makeShardUpdate(GetParam(), {.dtype = FSDP_F32,
                                              .elements = elements,
                                              .parameters = bytes(parameters[0]),
                                              .gradients = bytes(narrow),
                                              .state = {bytes(state[0]), bytes(state[1]),
                                                        amsgrad ? bytes(state[4]) : nullptr},
                                              .pieces = {{0, elements}},
                                              .gradientDtype = static_cast<fsdp_dtype>(reduced),
                                              .gathered = bytes(copy),
                                              .gatheredDtype = static_cast<fsdp_dtype>(gathered)});
      auto expected = makeShardUpdate(GetParam(), {.dtype = FSDP_F32,
                                                   .elements = elements,
                                                   .parameters = bytes(parameters[1]),
                                                   .gradients = bytes(wide),
                                                   .state = {bytes(state[2]), bytes(state[3]),
                                                             amsgrad ? bytes(state[5]) : nullptr},
                                                   .pieces = {{0, elements}}});
      own->writeGathered();
      EXPECT_TRUE(at::equal(copy, parameters[0].to(gathered)));
      for (int64_t step = 1; step <= 3; ++step) {
        narrow.copy_(at::randn({elements}));
        wide.copy_(narrow);
        EXPECT_EQ(own->run(step, 1e-2, {}), expected->run(step, 1e-2, {}));
        ASSERT_TRUE(at::equal(parameters[0], parameters[1])) << elements;
        ASSERT_TRUE(at::equal(copy, parameters[0].to(gathered))) << elements;
      }
    }
}

// Several threads give the same bits, and the same parts of norms.
TEST_P(OptimizerTest, ThreadsDoNotMatter) {
  at::manual_seed(3);
  at::Tensor start = at::randn({40003}), gradient = at::randn({40003});
  std::vector<at::Tensor> parameters;
  std::array<std::vector<double>, 2> norms;
  for (int count : {1, 2}) {
    at::set_num_threads(count);
    at::Tensor parameter = start.clone(), m = at::zeros_like(start), v = at::zeros_like(start);
    auto update = makeShardUpdate(GetParam(), {FSDP_F32,
                                               start.numel(),
                                               bytes(parameter),
                                               bytes(gradient),
                                               {bytes(m), bytes(v)},
                                               {{0, start.numel()}}});
    for (fsdp_norm_type type : {FSDP_NORM_1, FSDP_NORM_2, FSDP_NORM_INF})
      norms[count - 1].push_back(update->partialNorm(type));
    update->run(1, 0.1, {});
    update->run(2, 0.1, {});
    parameters.push_back(parameter);
  }
  EXPECT_TRUE(at::equal(parameters[0], parameters[1]));
  EXPECT_EQ(norms[0], norms[1]);
}

// The factor is clip_grad_norm_'s of a tensor with that norm; also where the norm is not finite.
TEST(ClipFactor, IsTorchs) {
  double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (double norm :
       {0.0, 1e-9, 0.3, 0.999999, 1.0, 1.0000001, 3.0, 12345.678, 1e30, infinity, nan})
    for (float limit : {1e-6f, 0.25f, 1.f, 1.3f, 1e4f}) {
      at::Tensor total = at::full({}, static_cast<float>(norm), at::kFloat);
      at::Tensor expected = at::clamp_max(at::mul(at::reciprocal(at::add(total, 1e-6)), limit), 1);
      float factor = clipFactor(FSDP_NORM_2, norm * norm, limit), wanted = expected.item<float>();
      EXPECT_TRUE(factor == wanted || (std::isnan(factor) && std::isnan(wanted)))
          << norm << " to " << limit << ": " << factor << ", torch " << wanted;
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerTest,
                         testing::Values(sgd(0, 0), sgd(0.1, 0), sgd(0, 0.9), sgd(0.01, 0.9),
                                         adam(FSDP_ADAM, 0), adam(FSDP_ADAM, 0.1),
                                         adam(FSDP_ADAMW, 0), adam(FSDP_ADAMW, 0.1),
                                         adam(FSDP_ADAMW, 0.1, 0.3),
                                         adam(FSDP_ADAMW, 0.1, 0.9, 0.95),
                                         withOptions(sgd(0.01, 0.9), FSDP_NESTEROV),
                                         withOptions(sgd(0.01, 0.9), FSDP_MAXIMIZE, 0.3),
                                         withOptions(adam(FSDP_ADAM, 0.1), FSDP_MAXIMIZE),
                                         withOptions(adam(FSDP_ADAMW, 0.1), FSDP_AMSGRAD)),
                         [](const auto &info) { return "Case" + std::to_string(info.index); });

// A shard is cut where the optimizer changes, not where a parameter ends; padding goes along.
TEST(ShardSegments, AreCutByOptimizer) {
  std::vector<float> values(20), state(20);
  std::vector<uint16_t> gradients(20), average(20);
  auto at = [](auto &memory, size_t i) { return reinterpret_cast<std::byte *>(&memory[i]); };
  ShardBuffers shard{.dtype = FSDP_F32,
                     .elements = 20,
                     .parameters = at(values, 0),
                     .gradients = at(gradients, 0),
                     .state = {at(state, 0)},
                     .pieces = {{12, 4, 0}, {0, 3, 1}, {3, 5, 1}, {8, 0, 0}, {10, 2, 2}},
                     .gradientDtype = FSDP_BF16,
                     .average = at(average, 0),
                     .averageDtype = FSDP_BF16};
  std::vector<ShardSegment> segments = splitByOptimizer(shard);
  ASSERT_EQ(segments.size(), 3u);
  const int64_t begins[] = {0, 10, 12}, ends[] = {10, 12, 20};
  const uint32_t optimizers[] = {1, 2, 0};
  for (size_t i = 0; i < 3; ++i) {
    const ShardBuffers &part = segments[i].shard;
    EXPECT_EQ(segments[i].optimizer, optimizers[i]);
    EXPECT_EQ(part.elements, ends[i] - begins[i]);
    EXPECT_EQ(part.parameters, at(values, begins[i]));
    EXPECT_EQ(part.gradients, at(gradients, begins[i]));
    EXPECT_EQ(part.state[0], at(state, begins[i]));
    EXPECT_EQ(part.state[1], nullptr);
    EXPECT_EQ(part.average, at(average, begins[i]));
    EXPECT_EQ(part.gathered, nullptr);
    EXPECT_EQ(part.pieces.front().first, 0);
  }
  EXPECT_EQ(segments[0].shard.pieces[1].first, 3);
  shard.pieces.clear();
  ASSERT_EQ(splitByOptimizer(shard).size(), 1u);
  EXPECT_EQ(splitByOptimizer(shard)[0].shard.elements, 20);
}
