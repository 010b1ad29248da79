//===- TinyTrain.cpp - A training binary of the tiny step ----------------------===//
//
// tiny_train-RANKS-LAYOUT is what fsdp-compile would link, with tables made at start.
//
//===----------------------------------------------------------------------===//

#include "TinyPlan.h"

int main(int argc, char **argv) {
  fsdp::test::TinyPlan tiny(TINY_RANKS, fsdp::plan::Layout::TINY_LAYOUT);
  return fsdp_train_main(argc, argv, &tiny.tables());
}
