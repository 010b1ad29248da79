//===- StepProgress.cpp - A rank's progress in its plan -------------------===//

#include "watch/StepProgress.h"
#include "plan/CollectiveOrder.h"

using namespace fsdp::rt;

Result<std::unique_ptr<StepProgress>> StepProgress::create(const PlanView &plan, Device &device) {
  unsigned numLanes = 1 + plan.tables().num_communicators;
  Result<std::unique_ptr<Memory>> memory = device.allocateHost(2 * numLanes * sizeof(ProgressWord));
  if (!memory.ok())
    return memory.status();
  return std::unique_ptr<StepProgress>(new StepProgress(plan, std::move(*memory)));
}

StepProgress::StepProgress(const PlanView &plan, std::unique_ptr<Memory> memory)
    : plan(plan), memory(std::move(memory)),
      words(reinterpret_cast<ProgressWord *>(this->memory->data())),
      lanes(1 + plan.tables().num_communicators) {
  for (uint32_t entry : collectiveEntries(plan))
    lanes[laneOf(plan.entries()[entry])].entries.push_back(entry);
}

std::string StepProgress::laneName(unsigned lane) const {
  return std::string(plan.string(communicatorOf(plan, lane).name)) + " lane";
}

uint32_t StepProgress::issue(unsigned lane) {
  Lane &own = lanes[lane];
  uint32_t number = own.issued.load(std::memory_order_relaxed) % own.entries.size() + 1;
  own.issued.store(number, std::memory_order_relaxed);
  return number;
}

StepProgress::Numbers StepProgress::numbers(unsigned lane) const {
  return {lanes[lane].issued.load(std::memory_order_relaxed),
          started(lane).load(std::memory_order_acquire),
          completed(lane).load(std::memory_order_acquire)};
}

void StepProgress::loseMarks(const std::string &reason) {
  std::lock_guard lock(mutex);
  if (lost.empty())
    lost = reason;
}

std::string StepProgress::lostMarks() const {
  std::lock_guard lock(mutex);
  return lost;
}

std::string StepProgress::describeEntry(uint32_t index) const {
  const fsdp_entry &entry = plan.entries()[index];
  return plan.describeEntry(entry) +
         (entry.phase == FSDP_FORWARD ? " in forward" : " in backward") + " (entry " +
         std::to_string(index + 1) + " of " + std::to_string(plan.entries().size()) + ")";
}

std::string StepProgress::describe(unsigned lane, uint32_t number) const {
  return number == 0 || number > lanes[lane].entries.size()
             ? "nothing"
             : describeEntry(lanes[lane].entries[number - 1]);
}

std::chrono::nanoseconds StepProgress::expected(unsigned lane, uint32_t number) const {
  const std::vector<uint32_t> &entries = lanes[lane].entries;
  std::chrono::nanoseconds sum{0};
  for (uint32_t i = number; i > 0 && i <= entries.size(); ++i) {
    const fsdp_entry &entry = plan.entries()[entries[i - 1]];
    if (i > number && !entry.coalesced)
      break;
    sum += std::chrono::nanoseconds(entry.expected_ns);
  }
  return sum;
}

std::string StepProgress::dump() const {
  const std::string marksLost = lostMarks();
  std::string text = "step " + std::to_string(currentStep()) + "\n";
  text += std::string(streamName(FSDP_COMPUTE)) + ": issued " +
          (compute ? describeEntry(compute->load(std::memory_order_relaxed)) : "nothing") + "\n";
  for (unsigned lane = kControlLane + 1; lane < numLanes(); ++lane) {
    if (lanes[lane].entries.empty())
      continue;
    Numbers now = numbers(lane);
    text += laneName(lane) + ": issued " + describe(lane, now.issued);
    if (marksLost.empty())
      text += ", started " + describe(lane, now.started) + ", completed " +
              describe(lane, now.completed);
    text += "\n";
  }
  if (!marksLost.empty())
    text += "what the lanes have started and completed is unknown: " + marksLost + "\n";
  return text;
}
