//===- OperatorWorkTest.cpp - Operations and bytes, counted by hand --------===//

#include "fsdp/CostModel/OperatorWork.h"
#include "Calls.h"
#include "fsdp/CostModel/Device.h"

using namespace fsdp;
using namespace fsdp::cost;

static OperatorWork count(const std::string &arguments, const std::string &call) {
  return countWork(Calls(arguments, call)[0]);
}

TEST(OperatorWork, ProductsCountTwoOperationsPerMultiplyAdd) {
  OperatorWork mm = count("%a: tensor<8x16xf32>, %b: tensor<16x32xf32>",
                          R"(%r = aten.call "mm.default"(%a, %b) fwd in ""
                             : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>)");
  EXPECT_EQ(mm.arithmetic, Arithmetic::MatrixProduct);
  EXPECT_EQ(mm.flops, 2 * 8 * 16 * 32);
  EXPECT_EQ(mm.bytes, 4 * (8 * 16 + 16 * 32 + 8 * 32));
  EXPECT_TRUE(mm.element.isF32());

  OperatorWork addmm = count("%c: tensor<32xbf16>, %a: tensor<8x16xbf16>, %b: tensor<16x32xbf16>",
                             R"(%r = aten.call "addmm.default"(%c, %a, %b, 1, 1) fwd in ""
               : (tensor<32xbf16>, tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16>)");
  EXPECT_EQ(addmm.flops, 2 * 8 * 16 * 32 + 8 * 32);
  EXPECT_EQ(addmm.bytes, 2 * (32 + 8 * 16 + 16 * 32 + 8 * 32));
  EXPECT_TRUE(addmm.element.isBF16());
}

TEST(OperatorWork, BatchedProductsCountEachBatch) {
  OperatorWork bmm = count("%a: tensor<3x8x16xf32>, %b: tensor<3x16x4xf32>",
                           R"(%r = aten.call "bmm.default"(%a, %b) fwd in ""
                              : (tensor<3x8x16xf32>, tensor<3x16x4xf32>) -> tensor<3x8x4xf32>)");
  EXPECT_EQ(bmm.flops, 3 * 2 * 8 * 16 * 4);
  EXPECT_EQ(bmm.bytes, 4 * 3 * (8 * 16 + 16 * 4 + 8 * 4));

  OperatorWork baddbmm =
      count("%c: tensor<3x8x4xf32>, %a: tensor<3x8x16xf32>, %b: tensor<3x16x4xf32>",
            R"(%r = aten.call "baddbmm.default"(%c, %a, %b, 1, 1) fwd in ""
         : (tensor<3x8x4xf32>, tensor<3x8x16xf32>, tensor<3x16x4xf32>) -> tensor<3x8x4xf32>)");
  EXPECT_EQ(baddbmm.flops, 3 * 2 * 8 * 16 * 4 + 3 * 8 * 4);
}

// Each of 32 tokens meets the 16 x 8 matrix of one of 4 experts.
TEST(OperatorWork, GroupedProductsCountEachRowOnce) {
  OperatorWork work =
      count("%a: tensor<32x16xbf16>, %b: tensor<4x16x8xbf16>, %o: tensor<4xi32>",
            R"(%r = aten.call "_grouped_mm.default"(%a, %b, %o, none, none) fwd in ""
           : (tensor<32x16xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<32x8xbf16>)");
  EXPECT_EQ(work.flops, 2 * 32 * 16 * 8);
}

// A GPU multiplies 8-bit numbers faster than bf16.
TEST(OperatorWork, ProductsOfEightBitsHaveTheirOwnPeak) {
  Calls calls(
      "%a: tensor<64x32xf8E4M3FN>, %b: tensor<32x16xf8E4M3FN>, %s: tensor<f32>, "
      "%l: tensor<64x32xi8>, %r: tensor<32x16xi8>",
      R"(%x = aten.call "_scaled_mm.default"(%a, %b, %s, %s, none, none, bf16, true) fwd in ""
                   : (tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<f32>, tensor<f32>)
                     -> tensor<64x16xbf16>
                 %y = aten.call "_int_mm.default"(%l, %r) fwd in ""
                   : (tensor<64x32xi8>, tensor<32x16xi8>) -> tensor<64x16xi32>)");
  const Device *device = llvm::cantFail(lookupDevice("h100"));
  for (size_t i : {0, 1}) {
    OperatorWork work = countWork(calls[i]);
    EXPECT_EQ(work.flops, 2 * 64 * 32 * 16);
    EXPECT_DOUBLE_EQ(device->getPeakNs(work), work.flops / 1979e12 * 1e9);
  }
}

// Scores: batch 2, 4 heads, 16 queries, 32 keys; heads of 8. Two products forward, five backward;
// the key's two heads serve four of the query's.
TEST(OperatorWork, AttentionCountsTwoProductsForwardAndFiveBackward) {
  const std::string arguments = "%q: tensor<2x4x16x8xf32>, %k: tensor<2x2x32x8xf32>, "
                                "%v: tensor<2x2x32x8xf32>, %l: tensor<2x4x16xf32>";
  const double scores = 2 * 4 * 16 * 32;
  for (bool causal : {false, true}) {
    std::string flag = causal ? "true" : "false";
    OperatorWork forward = count(
        arguments,
        R"(%r:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v, 0.0, )" +
            flag + R"(, none, none) fwd in ""
           : (tensor<2x4x16x8xf32>, tensor<2x2x32x8xf32>, tensor<2x2x32x8xf32>)
             -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>))");
    EXPECT_EQ(forward.arithmetic, Arithmetic::Attention);
    EXPECT_EQ(forward.flops, 2 * 2 * scores * 8 / (causal ? 2 : 1));
    EXPECT_EQ(forward.bytes, 4 * (2 * 2 * 4 * 16 * 8 + 2 * 2 * 2 * 32 * 8 + 2 * 4 * 16));

    OperatorWork backward = count(
        arguments,
        R"(%r:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward.default"(%q, %q, %k, %v, %q, %l, 0.0, )" +
            flag + R"(, none, none) bwd in ""
           : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x2x32x8xf32>,
              tensor<2x2x32x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
             -> (tensor<2x4x16x8xf32>, tensor<2x2x32x8xf32>, tensor<2x2x32x8xf32>))");
    EXPECT_EQ(backward.flops, 2 * 5 * scores * 8 / (causal ? 2 : 1));
  }
}

TEST(OperatorWork, CudaAttentionHasItsCausalFlagElsewhere) {
  OperatorWork work = count(
      "%g: tensor<1x1x4x8xbf16>, %l: tensor<1x1x4xf32>, %s: tensor<2xui64>, %o: tensor<ui64>",
      R"(%r:3 = aten.call "_scaled_dot_product_flash_attention_backward.default"(%g, %g, %g, %g, %g, %l, none, none, 4, 4, 0.0, true, %s, %o, none) bwd in ""
         : (tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>,
            tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>, tensor<1x1x4xf32>, tensor<2xui64>,
            tensor<ui64>) -> (tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>))");
  EXPECT_EQ(work.flops, 2 * 5 * 4 * 4 * 8 / 2);
  EXPECT_TRUE(work.element.isBF16());
}

// 6 output channels from 2 groups of 2 input channels, a kernel of 3 x 3: each of 1 x 6 x 8 x 8
// outputs takes 2 x 3 x 3 multiply-adds.
TEST(OperatorWork, ConvolutionsCountPerOutputAndPerGradient) {
  OperatorWork forward = count(
      "%x: tensor<1x4x10x10xf32>, %w: tensor<6x2x3x3xf32>",
      R"(%r = aten.call "convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 2) fwd in ""
         : (tensor<1x4x10x10xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x8x8xf32>)");
  const double flops = 2 * (6 * 8 * 8) * (2 * 3 * 3);
  EXPECT_EQ(forward.flops, flops);
  EXPECT_EQ(forward.bytes, 4 * (4 * 10 * 10 + 6 * 2 * 3 * 3 + 6 * 8 * 8));

  auto backward = [](const std::string &mask, const std::string &input) {
    return count(
        "%g: tensor<1x6x8x8xf32>, %x: tensor<1x4x10x10xf32>, %w: tensor<6x2x3x3xf32>",
        R"(%r:3 = aten.call "convolution_backward.default"(%g, %x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 2, )" +
            mask + R"() bwd in "" : (tensor<1x6x8x8xf32>, tensor<1x4x10x10xf32>,
           tensor<6x2x3x3xf32>) -> ()" +
            input + ", tensor<6x2x3x3xf32>, none)");
  };
  EXPECT_EQ(backward("[true, true, false]", "tensor<1x4x10x10xf32>").flops, 2 * flops);
  EXPECT_EQ(backward("[false, true, false]", "none").flops, flops);
}

TEST(OperatorWork, TransposedConvolutionsCountPerInput) {
  OperatorWork work = count(
      "%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x2x2xf32>",
      R"(%r = aten.call "convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1) fwd in ""
         : (tensor<1x4x5x5xf32>, tensor<4x3x2x2xf32>) -> tensor<1x3x10x10xf32>)");
  EXPECT_EQ(work.flops, 2 * (4 * 5 * 5) * (3 * 2 * 2));
}

// A lookup reads the rows that it yields, not the table.
TEST(OperatorWork, LookupsMoveWhatTheyYield) {
  OperatorWork forward =
      count("%w: tensor<1000x8xf32>, %i: tensor<5xi64>",
            R"(%r = aten.call "embedding.default"(%w, %i, -1, false, false) fwd in ""
                                  : (tensor<1000x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>)");
  EXPECT_EQ(forward.arithmetic, Arithmetic::None);
  EXPECT_EQ(forward.bytes, 5 * 8 + 2 * 4 * (5 * 8));

  OperatorWork backward =
      count("%g: tensor<5x8xf32>, %i: tensor<5xi64>",
            R"(%r = aten.call "embedding_dense_backward.default"(%g, %i, 1000, -1, false) bwd in ""
               : (tensor<5x8xf32>, tensor<5xi64>) -> tensor<1000x8xf32>)");
  EXPECT_EQ(backward.bytes, 5 * 8 + 3 * 4 * (5 * 8) + 4 * 1000 * 8);
}

TEST(OperatorWork, EverythingElseMovesOperandsAndResultsOnce) {
  OperatorWork norm =
      count("%x: tensor<4x8xf32>, %w: tensor<8xf32>",
            R"(%r:3 = aten.call "native_layer_norm.default"(%x, [8], %w, %w, 1.0e-5) fwd in ""
         : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
           -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>))");
  EXPECT_EQ(norm.bytes, 4 * (4 * 8 + 8 + 8 + 4 * 8 + 4 + 4));
  EXPECT_EQ(norm.flops, 0);

  // The expanded operand has 8 distinct elements.
  OperatorWork add = count("%x: tensor<4x8xf32>, %b: tensor<4x8xf32, #aten.strides<[0, 1]>>",
                           R"(%r = aten.call "add.Tensor"(%x, %b, 1) fwd in ""
                              : (tensor<4x8xf32>, tensor<4x8xf32, #aten.strides<[0, 1]>>)
                                -> tensor<4x8xf32>)");
  EXPECT_EQ(add.bytes, 4 * (4 * 8 + 8 + 4 * 8));
}

TEST(OperatorWork, ViewsAndEmptyMemoryRunNothingAndFillsReadNothing) {
  Calls calls("%x: tensor<4x8xf32>", R"(
    %t = aten.call "t.default"(%x) fwd in ""
        : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
    %e = aten.call "empty_like.default"(%x, none, none, none, none, none) fwd in ""
        : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %z = aten.call "zeros_like.default"(%x, none, none, none, none, none) fwd in ""
        : (tensor<4x8xf32>) -> tensor<4x8xf32>)");
  EXPECT_TRUE(countWork(calls[0]).runsNothing);
  EXPECT_TRUE(countWork(calls[1]).runsNothing);
  EXPECT_FALSE(countWork(calls[2]).runsNothing);
  EXPECT_EQ(countWork(calls[2]).bytes, 4 * 4 * 8);
}

// torch's kernels load whole vectors where all tensors have one layout and none is converted.
TEST(OperatorWork, BroadcastStridedAndConvertedElementsAreSingle) {
  Calls calls("%x: tensor<4x8xf32>, %w: tensor<8xf32>, %t: tensor<4x8xf32, #aten.strides<[1, 4]>>, "
              "%h: tensor<4x8xbf16>",
              R"(
    %a = aten.call "add.Tensor"(%x, %x, 1) fwd in ""
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %b = aten.call "mul.Tensor"(%x, %w) fwd in ""
        : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %c = aten.call "neg.default"(%t) fwd in ""
        : (tensor<4x8xf32, #aten.strides<[1, 4]>>) -> tensor<4x8xf32>
    %d = aten.call "neg.default"(%t) fwd in ""
        : (tensor<4x8xf32, #aten.strides<[1, 4]>>) -> tensor<4x8xf32, #aten.strides<[1, 4]>>
    %e = aten.call "_to_copy.default"(%h, f32, none, none, none, false, none) fwd in ""
        : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %f = aten.call "_to_copy.default"(%x, bf16, none, none, none, false, none) fwd in ""
        : (tensor<4x8xf32>) -> tensor<4x8xbf16>)");
  const double expected[] = {0, 32, 32, 0, 32, 0};
  for (size_t i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(countWork(calls[i]).singleElements, expected[i]) << i;
}

TEST(OperatorWork, ReductionsAndConcatenationsCountTheirElements) {
  Calls calls("%x: tensor<4x8xf32>, %t: tensor<4x8xf32, #aten.strides<[16, 1]>>", R"(
    %m = aten.call "mean.dim"(%x, [-1], true, none) fwd in "" : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %a = aten.call "cat.default"([%x, %x], -1) fwd in ""
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    %b = aten.call "cat.default"([%x, %t], -1) fwd in ""
        : (tensor<4x8xf32>, tensor<4x8xf32, #aten.strides<[16, 1]>>) -> tensor<4x16xf32>)");
  EXPECT_EQ(countWork(calls[0]).singleElements, 16);
  EXPECT_EQ(countWork(calls[1]).singleElements, 0);
  EXPECT_DOUBLE_EQ(countWork(calls[2]).singleElements, 1.4 * 64);
}

// The loss reads one number of each row; its backward zeroes the gradient and writes as many.
TEST(OperatorWork, LossesPickANumberOfEachRow) {
  Calls calls("%x: tensor<4x1000xf32>, %t: tensor<4xi64>, %g: tensor<f32>", R"(
    %l:2 = aten.call "nll_loss_forward.default"(%x, %t, none, 1, -100) fwd in ""
        : (tensor<4x1000xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
    %b = aten.call "nll_loss_backward.default"(%g, %x, %t, none, 1, -100, %l#1) bwd in ""
        : (tensor<f32>, tensor<4x1000xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x1000xf32>)");
  EXPECT_EQ(countWork(calls[0]).bytes, 4 * 4 + 8 * 4 + 2 * 4);
  EXPECT_EQ(countWork(calls[1]).bytes, 4 * 4 * 1000);
}
