//===- ProblemFile.h - Scheduling problems as JSON ----------------*- C++ -*-===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_PROBLEMFILE_H
#define FSDP_BENCHMARKS_SCHEDULE_PROBLEMFILE_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::benchmark {

/// Reads back as the same problem, to the last bit; the cap is no part of it. Returns what is
/// wrong, with the file's name.
std::optional<std::string> writeProblem(const schedule::Problem &problem, const std::string &path);
std::optional<std::string> readProblem(const std::string &path, schedule::Problem &problem);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_PROBLEMFILE_H
