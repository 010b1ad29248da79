//===- DiffFigures.h - Figures and facts of two steps -----------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_DIFFFIGURES_H
#define FSDP_EXPLAIN_DIFFFIGURES_H

#include "fsdp/Explain/ScheduleDiff.h"

namespace fsdp::explain {

/// "+1.30 %", "="; empty if the left value is 0.
std::string formatChange(double left, double right);

/// One number of both steps.
struct Figure {
  const char *name, *key; // in text, in JSON
  double left, right;
  std::string leftText, rightText;
};
std::vector<Figure> getFigures(const ScheduleView &left, const ScheduleView &right);

/// A property of whole steps (mesh, lanes) that differs.
struct Fact {
  std::string name, left, right;
};
std::vector<Fact> findFacts(const ScheduleSide &left, const ScheduleSide &right);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_DIFFFIGURES_H
