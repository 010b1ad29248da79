//===- AtenSemantics.cpp - Properties of aten operators -------------------===//

#include "fsdp/IR/AtenSemantics.h"

#include "llvm/ADT/StringSet.h"

using namespace fsdp::aten;

Semantics fsdp::aten::lookupSemantics(llvm::StringRef baseName) {
  static const llvm::StringSet<> views = {"_reshape_alias",
                                          "_unsafe_view",
                                          "alias",
                                          "as_strided",
                                          "detach",
                                          "diagonal",
                                          "expand",
                                          "lift_fresh",
                                          "permute",
                                          "select",
                                          "slice",
                                          "split",
                                          "split_with_sizes",
                                          "squeeze",
                                          "t",
                                          "transpose",
                                          "unbind",
                                          "unfold",
                                          "unsafe_split",
                                          "unsqueeze",
                                          "unsafe_split_with_sizes",
                                          "view",
                                          "view_as_complex",
                                          "view_as_real"};
  static const llvm::StringSet<> random = {"_sample_dirichlet",
                                           "_scaled_dot_product_cudnn_attention",
                                           "_scaled_dot_product_efficient_attention",
                                           "_scaled_dot_product_flash_attention",
                                           "_standard_gamma",
                                           "bernoulli",
                                           "binomial",
                                           "cauchy",
                                           "exponential",
                                           "geometric",
                                           "log_normal",
                                           "multinomial",
                                           "native_dropout",
                                           "normal",
                                           "normal_functional",
                                           "poisson",
                                           "rand",
                                           "rand_like",
                                           "randint",
                                           "randint_like",
                                           "randn",
                                           "randn_like",
                                           "random",
                                           "randperm",
                                           "rrelu_with_noise_functional",
                                           "uniform"};
  static const llvm::StringSet<> cuts = {"detach",    "empty_like", "full_like", "new_empty",
                                         "new_full",  "new_ones",   "new_zeros", "ones_like",
                                         "rand_like", "randn_like", "zeros_like"};
  static const llvm::StringSet<> cheap = {"_to_copy", "abs",  "add",  "clone", "mul",
                                          "neg",      "relu", "rsub", "sub"};
  return {.isView = views.contains(baseName),
          .isRandom = random.contains(baseName),
          .cutsGradient = cuts.contains(baseName),
          .isCheap = cheap.contains(baseName)};
}
