//===- ChooseProgram.cpp - Which program a run takes ----------------------===//

#include "train/ChooseProgram.h"

#include <CLI/CLI.hpp>

using namespace fsdp::rt;

std::string fsdp::rt::compiledFor(const PlanView &plan) {
  const fsdp_plan &tables = plan.tables();
  std::string replicas;
  if (tables.replicate_axis)
    replicas = std::string(plan.string(tables.replicate_axis)) + "=" +
               std::to_string(tables.replicas) + ",";
  return std::to_string(tables.world_size) + (tables.world_size == 1 ? " rank" : " ranks") +
         " (mesh " + replicas + plan.string(tables.axis) + "=" + std::to_string(plan.meshShards()) +
         ")";
}

static std::string compiledFor(std::span<const fsdp_plan *const> programs) {
  std::string text;
  for (const fsdp_plan *program : programs)
    text += (text.empty() ? "" : ", ") + compiledFor(PlanView(*program));
  return text;
}

/// The number of ranks that a flag gives, with the flag; other flags are not parsed yet.
static std::optional<std::pair<std::string, unsigned>> ranksAskedFor(int argc,
                                                                     const char *const *argv) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  unsigned ranks = 0, fakeRanks = 0;
  app.add_option("--ranks", ranks);
  app.add_option("--fake-ranks", fakeRanks);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &) {
    return std::nullopt; // reported when all flags are parsed
  }
  if (app.count("--ranks"))
    return std::pair("--ranks " + std::to_string(ranks), ranks);
  if (app.count("--fake-ranks"))
    return std::pair("--fake-ranks " + std::to_string(fakeRanks), fakeRanks);
  return std::nullopt;
}

Result<const fsdp_plan *>
fsdp::rt::chooseProgram(std::span<const fsdp_plan *const> programs, int argc,
                        const char *const *argv,
                        const std::optional<LaunchEnvironment> &environment) {
  if (programs.size() == 1)
    return programs.front();
  auto asked = ranksAskedFor(argc, argv);
  const bool isAsked = asked || environment;
  if (!asked && environment)
    asked = {environment->launcher + " started " + std::to_string(environment->worldSize) +
                 (environment->worldSize == 1 ? " process" : " processes"),
             environment->worldSize};
  const unsigned ranks = asked ? asked->second : 1;
  for (const fsdp_plan *program : programs)
    if (program->world_size == ranks)
      return program;
  if (!isAsked)
    return static_cast<const fsdp_plan *>(nullptr);
  return Status::error(asked->first + ", but this binary is compiled for " + compiledFor(programs));
}

Status fsdp::rt::startedAlone(std::span<const fsdp_plan *const> programs) {
  return Status::error("this binary is compiled for " + compiledFor(programs) +
                       ", but was started alone: use --ranks N, or start it with torchrun, mpirun "
                       "or srun");
}
