//===- Blocks.h - Runs of operations of one block ----------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_BLOCKS_H
#define FSDP_EXPLAIN_BLOCKS_H

#include "fsdp/Explain/ScheduleView.h"

namespace fsdp::explain {

/// Consecutive operations first, ..., last of one part of the step and of one block of modules.
struct Block {
  std::string name; // "layers.3"; "" for the root
  StepPart part = StepPart::Forward;
  uint32_t first = 0, last = 0;
};

/// The path up to and including its first number, else its first component: "layers.3" of
/// "layers.3.attention.wq", "head" of "head".
std::string_view getBlockName(std::string_view module);

/// The runs of all blocks. Operations of no cost (views) never end a run.
std::vector<Block> findBlocks(const ScheduleView &view);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_BLOCKS_H
