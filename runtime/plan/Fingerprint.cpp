//===- Fingerprint.cpp - A hash that identifies a plan --------------------===//

#include "plan/Fingerprint.h"
#include "Hash.h"
#include "plan/ProgramPlans.h"

#include <cstdio>

using namespace fsdp::rt;

static void add(Hash &hash, const PlanView &plan) {
  const fsdp_plan &tables = plan.tables();
  // All header fields before the addresses of the tables.
  hash.addBytes(&tables, offsetof(fsdp_plan, values));
  hash.addRows(plan.values());
  hash.addRows(std::span(tables.arguments, tables.num_arguments));
  hash.addRows(plan.entries());
  hash.addRows(plan.inputs());
  hash.addRows(plan.buffers());
  hash.addRows(plan.constants());
  hash.addRows(plan.groups());
  hash.addRows(plan.parameters());
  hash.addRows(plan.pieces());
  hash.addRows(plan.integers(0, tables.num_integers));
  hash.addRows(plan.optimizerGroups());
  hash.addRows(plan.communicators());
  hash.addRows(plan.kernels());
  hash.addBytes(tables.strings, tables.num_string_bytes);
  hash.addBytes(tables.data, tables.num_data_bytes);
}

std::string fsdp::rt::fingerprintOf(const PlanView &first) {
  Hash hash;
  for (const PlanView &plan : trainingPlans(first.tables()))
    add(hash, plan);
  char text[24];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash.value()));
  return text;
}
