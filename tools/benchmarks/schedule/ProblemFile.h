//===- ProblemFile.h - Scheduling problems as JSON ----------------*- C++ -*-===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_PROBLEMFILE_H
#define FSDP_BENCHMARKS_SCHEDULE_PROBLEMFILE_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::benchmark {

/// A problem reads back bit for bit; the cap is not stored. Both return an error with the file's
/// name, if there is one.
std::optional<std::string> writeProblem(const schedule::Problem &problem, const std::string &path);
std::optional<std::string> readProblem(const std::string &path, schedule::Problem &problem);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_PROBLEMFILE_H
