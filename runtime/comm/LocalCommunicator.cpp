//===- LocalCommunicator.cpp - Ranks that are threads of one process ------===//

#include "comm/MappedMemory.h"
#include "comm/MemoryCommunicator.h"

using namespace fsdp::rt;

namespace {

/// Memory of all ranks; the last communicator frees it.
struct LocalGroup {
  MappedMemory region;
  std::vector<MappedMemory> arenas; // by rank; each written only by its rank
};

class LocalCommunicator final : public MemoryCommunicator {
public:
  LocalCommunicator(unsigned rank, unsigned size, std::shared_ptr<LocalGroup> group,
                    const CommunicatorOptions &options)
      : MemoryCommunicator(rank, size,
                           SharedRegion(group->region.begin(), size, options.numLanes()), options),
        group(std::move(group)) {}

  ~LocalCommunicator() override { leave(); }

private:
  Result<std::byte *> createArena(size_t bytes) override {
    Result<MappedMemory> memory = MappedMemory::anonymous(bytes);
    if (!memory.ok())
      return memory.status();
    group->arenas[rank()] = std::move(*memory);
    return group->arenas[rank()].begin();
  }
  Result<std::byte *> mapArena(unsigned peer, size_t) override {
    return group->arenas[peer].begin();
  }
  bool isAlive(unsigned) override { return true; }
  bool isStopped(unsigned) override { return false; }
  std::string nameOf(unsigned rank) const override { return "rank " + std::to_string(rank); }

  std::shared_ptr<LocalGroup> group;
};

} // namespace

std::vector<std::unique_ptr<Communicator>>
fsdp::rt::makeLocalCommunicators(unsigned size, const CommunicatorOptions &options) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  Result<MappedMemory> region =
      MappedMemory::anonymous(SharedRegion::bytes(size, options.numLanes()));
  if (!region.ok())
    return communicators;
  auto group = std::make_shared<LocalGroup>();
  group->region = std::move(*region);
  group->arenas.resize(size);
  for (unsigned rank = 0; rank < size; ++rank)
    communicators.push_back(std::make_unique<LocalCommunicator>(rank, size, group, options));
  return communicators;
}
