//===- ShmCommunicator.cpp - Ranks that are processes of one host ---------===//

#include "comm/Backends.h"
#include "comm/CollectiveNames.h"
#include "comm/MappedMemory.h"
#include "comm/MemoryCommunicator.h"
#include "comm/ProcessWatch.h"

#include <climits>
#include <fstream>
#include <optional>
#include <sstream>
#include <sys/random.h>
#include <unistd.h>

using namespace fsdp::rt;

namespace {

/// Each rank's message to the others at the rendezvous.
struct Introduction {
  std::string host;     // for people
  std::string identity; // equal for processes that see each other's ids and memory
  int pid = 0;
  int regionFile = -1; // of rank 0: a file descriptor of that process
  // Of rank 0: the region's token, which distinguishes it from other runs' regions.
  uint64_t token = 0;
  uint64_t lanes = 0; // fingerprintOf() the lanes for which the region has room

  std::string text() const {
    return host + " " + identity + " " + std::to_string(pid) + " " + std::to_string(regionFile) +
           " " + std::to_string(token) + " " + std::to_string(lanes);
  }
  static std::optional<Introduction> parse(const std::string &text) {
    Introduction result;
    std::istringstream words(text);
    words >> result.host >> result.identity >> result.pid >> result.regionFile >> result.token >>
        result.lanes;
    return words && result.pid > 0 ? std::optional(result) : std::nullopt;
  }
  static Introduction ofThisProcess();
};

class ShmCommunicator final : public MemoryCommunicator {
public:
  ShmCommunicator(unsigned rank, const std::vector<Introduction> &ranks, MappedMemory memory,
                  const CommunicatorOptions &options)
      : MemoryCommunicator(
            rank, static_cast<unsigned>(ranks.size()),
            SharedRegion(memory.begin(), static_cast<unsigned>(ranks.size()), options.numLanes()),
            options),
        memory(std::move(memory)), arenas(ranks.size()) {
    for (const Introduction &introduction : ranks) {
      watches.emplace_back(introduction.pid);
      pids.push_back(introduction.pid);
    }
    region.rank(rank).pid = getpid();
  }

  ~ShmCommunicator() override { leave(); }

private:
  Result<std::byte *> createArena(size_t bytes) override {
    Result<FileDescriptor> file = createMemoryFile("fsdpc-arena", bytes);
    if (!file.ok())
      return file.status();
    arenaFile = std::move(*file);
    region.rank(rank()).arenaFile = arenaFile.get();
    Result<std::byte *> arena = map(rank(), arenaFile, bytes);
    if (arena.ok())
      arenas[rank()].makeHuge();
    return arena;
  }

  Result<std::byte *> mapArena(unsigned peer, size_t bytes) override {
    // The peer's process id comes from the rendezvous, not from memory that other processes can
    // write.
    Result<FileDescriptor> file = openMemoryFile(pids[peer], region.rank(peer).arenaFile, bytes);
    if (!file.ok())
      return file.status();
    return map(peer, *file, bytes);
  }

  void arenasAreMapped() override { arenaFile = FileDescriptor(); }

  bool isAlive(unsigned peer) override { return watches[peer].isAlive(); }
  bool isStopped(unsigned peer) override { return watches[peer].isStopped(); }

  std::string nameOf(unsigned rank) const override {
    return "rank " + std::to_string(rank) + " (pid " + std::to_string(region.rank(rank).pid) + ")";
  }

  Result<std::byte *> map(unsigned owner, const FileDescriptor &file, size_t bytes) {
    Result<MappedMemory> mapped = MappedMemory::shared(file, bytes);
    if (!mapped.ok())
      return mapped.status();
    arenas[owner] = std::move(*mapped);
    return arenas[owner].begin();
  }

  MappedMemory memory;              // of the region
  std::vector<MappedMemory> arenas; // by rank
  std::vector<ProcessWatch> watches;
  std::vector<int> pids;    // by rank
  FileDescriptor arenaFile; // until the peers have mapped it
};

} // namespace

/// The first word of a file of /proc; "-" if it cannot be read.
static std::string wordOf(const char *path) {
  std::string word;
  std::ifstream(path) >> word;
  return word.empty() ? "-" : word;
}

/// The target of a symbolic link in /proc; "-" if it cannot be read.
static std::string linkOf(const char *path) {
  char target[PATH_MAX];
  ssize_t length = readlink(path, target, sizeof(target));
  return length <= 0 ? "-" : std::string(target, static_cast<size_t>(length));
}

Introduction Introduction::ofThisProcess() {
  Introduction result;
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  result.host = name[0] ? name : "-";
  result.identity = wordOf("/proc/sys/kernel/random/boot_id") + "/" + linkOf("/proc/self/ns/pid");
  result.pid = getpid();
  return result;
}

Result<std::unique_ptr<Communicator>> fsdp::rt::connectShm(const LaunchEnvironment &environment,
                                                           std::unique_ptr<Store> store,
                                                           const CommunicatorOptions &options) {
  unsigned rank = environment.rank, size = environment.worldSize;
  size_t bytes = SharedRegion::bytes(size, options.numLanes());
  Introduction own = Introduction::ofThisProcess();
  own.lanes = fingerprintOf(options.lanes);
  FileDescriptor file;
  std::optional<MappedMemory> memory;
  auto map = [&]() -> Status {
    Result<MappedMemory> mapped = MappedMemory::shared(file, bytes);
    if (mapped.ok())
      memory = std::move(*mapped);
    return mapped.status();
  };
  auto token = [&]() -> uint64_t & {
    return SharedRegion(memory->begin(), size, options.numLanes()).run().token;
  };
  if (rank == 0) {
    Result<FileDescriptor> created = createMemoryFile("fsdpc-ranks", bytes);
    if (!created.ok())
      return created.status();
    file = std::move(*created);
    own.regionFile = file.get();
    if (getrandom(&own.token, sizeof(own.token), 0) != sizeof(own.token))
      return Status::error("no random number for the run's shared memory");
    if (Status status = map(); !status.ok())
      return status;
    token() = own.token;
  }
  if (Status status = store->set("shm/" + std::to_string(rank), own.text()); !status.ok())
    return status;

  std::vector<Introduction> ranks(size);
  for (unsigned peer = 0; peer < size; ++peer) {
    Result<std::string> text = store->get("shm/" + std::to_string(peer));
    if (!text.ok())
      return Status::error("rank " + std::to_string(peer) + " of " + std::to_string(size) +
                           " did not introduce itself: " + text.status().message());
    std::optional<Introduction> parsed = Introduction::parse(*text);
    if (!parsed)
      return Status::error("rank " + std::to_string(peer) + " introduces itself by '" + *text +
                           "', expected host, system, process and memory");
    ranks[peer] = std::move(*parsed);
    if (ranks[peer].identity != ranks[0].identity)
      return Status::error(
          "the shm communicator needs all ranks on one host (and in one container): "
          "rank 0 is on " +
          ranks[0].host + ", rank " + std::to_string(peer) + " on " + ranks[peer].host +
          "; use --communicator gloo");
  }
  for (unsigned peer = 0; peer < size; ++peer)
    if (ranks[peer].lanes != own.lanes)
      return otherLanes(rank, peer);
  if (rank != 0) {
    Result<FileDescriptor> opened = openMemoryFile(ranks[0].pid, ranks[0].regionFile, bytes);
    if (!opened.ok())
      return opened.status();
    file = std::move(*opened);
    if (Status status = map(); !status.ok())
      return status;
    if (token() != ranks[0].token)
      return Status::error("the shared memory of process " + std::to_string(ranks[0].pid) + " on " +
                           ranks[0].host + " is another run's");
  }
  std::unique_ptr<Communicator> communicator =
      std::make_unique<ShmCommunicator>(rank, ranks, std::move(*memory), options);
  // After this barrier all ranks have mapped the region, and the store and rank 0's file are not
  // needed any more.
  if (Status status = communicator->barrier(kControlLane); !status.ok())
    return status;
  return communicator;
}
