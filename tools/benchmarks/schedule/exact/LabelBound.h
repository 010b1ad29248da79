//===- LabelBound.h - Lower bound of all plans of a label ----- -*- C++ -*-===//
//
// Private to the exact search.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LABELBOUND_H
#define FSDP_LIB_SCHEDULE_LABELBOUND_H

#include "Label.h"

namespace fsdp::schedule {

class LabelBound {
public:
  explicit LabelBound(const LabelProblem &problem);
  /// The least makespan of any plan of a label at a position. O(operations).
  double operator()(const Label &label, uint32_t position);
  /// A lower bound of the time from an operation's start to the step's end.
  double getTailNs(uint32_t operation) const { return tailsNs[operation]; }

private:
  const LabelProblem &problem;
  std::vector<double> tailsNs;
  std::vector<double> arrivedNs; // scratch space
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LABELBOUND_H
