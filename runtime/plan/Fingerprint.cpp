//===- Fingerprint.cpp - A number that tells plans apart ------------------===//

#include "plan/Fingerprint.h"
#include "plan/ProgramPlans.h"

#include <cstdio>

using namespace fsdp::rt;

namespace {
struct Hash {
  uint64_t state = 0xcbf29ce484222325;

  void add(const void *data, size_t bytes) {
    const auto *next = static_cast<const unsigned char *>(data);
    for (size_t i = 0; i < bytes; ++i)
      state = (state ^ next[i]) * 0x100000001b3;
  }
  template <typename T> void add(std::span<const T> rows) { add(rows.data(), rows.size_bytes()); }
};
} // namespace

static void add(Hash &hash, const PlanView &plan) {
  const fsdp_plan &tables = plan.tables();
  // All before the addresses of the tables.
  hash.add(&tables, offsetof(fsdp_plan, values));
  hash.add(plan.values());
  hash.add(std::span(tables.arguments, tables.num_arguments));
  hash.add(plan.entries());
  hash.add(plan.inputs());
  hash.add(plan.buffers());
  hash.add(plan.constants());
  hash.add(plan.groups());
  hash.add(plan.parameters());
  hash.add(plan.pieces());
  hash.add(plan.integers(0, tables.num_integers));
  hash.add(plan.optimizerGroups());
  hash.add(plan.communicators());
  hash.add(tables.strings, tables.num_string_bytes);
  hash.add(tables.data, tables.num_data_bytes);
}

std::string fsdp::rt::fingerprintOf(const PlanView &first) {
  Hash hash;
  for (const PlanView &plan : trainingPlans(first.tables()))
    add(hash, plan);
  char text[24];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash.state));
  return text;
}
