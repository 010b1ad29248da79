//===- Blocks.cpp - Runs of operations of one block -----------------------===//

#include "fsdp/Explain/Blocks.h"

using namespace fsdp::explain;

std::string_view fsdp::explain::getBlockName(std::string_view module) {
  size_t end = module.find('.');
  for (size_t begin = end; begin != std::string_view::npos;) {
    size_t next = module.find('.', ++begin);
    std::string_view component = module.substr(begin, next - begin);
    if (!component.empty() && component.find_first_not_of("0123456789") == std::string_view::npos)
      return module.substr(0, begin + component.size());
    begin = next;
  }
  return module.substr(0, end);
}

std::vector<Block> fsdp::explain::findBlocks(const ScheduleView &view) {
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < view.operations.size(); ++i) {
    const OperationLabel &label = view.labels.operations[i];
    std::string_view name = getBlockName(label.module);
    bool isFree = view.operations[i].endNs == view.operations[i].startNs;
    if (!blocks.empty() &&
        (isFree || (blocks.back().name == name && blocks.back().part == label.part))) {
      blocks.back().last = i;
      continue;
    }
    blocks.push_back({std::string(name), label.part, i, i});
  }
  return blocks;
}
