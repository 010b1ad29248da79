//===- ConformanceTest.cpp - What every communicator does -----------------===//

#include "DType.h"
#include "Ranks.h"
#include "Values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

using namespace fsdp::rt;

namespace {
/// An empty tensor has no address, which memcpy must not be given.
void copyBytes(std::byte *to, const at::Tensor &from, size_t bytes) {
  if (bytes)
    std::memcpy(to, from.const_data_ptr(), bytes);
}

constexpr size_t kArenaBytes = size_t(64) << 20;

#define EXPECT_OK(expression)                                                                      \
  do {                                                                                             \
    Status statusOfExpression = (expression);                                                      \
    EXPECT_TRUE(statusOfExpression.ok()) << statusOfExpression.message();                          \
  } while (false)

/// Where inputs lie.
enum class Place { Outside, Arena };

/// Hands out memory in one place; the same addresses, as offsets, on all ranks.
class Memory {
public:
  Memory(std::byte *arena, Place place) : arena(arena), place(place) {}
  std::byte *take(size_t bytes) {
    std::byte *result;
    if (place == Place::Arena) {
      result = arena + used;
      used += (bytes + 127) / 64 * 64;
    } else {
      heap.push_back(std::make_unique<std::byte[]>(bytes + 1));
      result = heap.back().get();
    }
    std::memset(result, 0x55, bytes);
    return result;
  }

private:
  std::byte *arena;
  Place place;
  size_t used = 0;
  std::vector<std::unique_ptr<std::byte[]>> heap;
};

std::byte *makeArena(Communicator &communicator) {
  Result<std::byte *> arena = communicator.makeArena(kArenaBytes);
  EXPECT_TRUE(arena.ok()) << arena.status().message();
  return arena.ok() ? *arena : nullptr;
}

class Conformance : public testing::TestWithParam<Ranks> {
protected:
  void SetUp() override {
    if (std::string reason = whyNot(GetParam()); !reason.empty())
      GTEST_SKIP() << reason;
  }
};

const fsdp_dtype kFloating[] = {FSDP_F32, FSDP_F64, FSDP_F16, FSDP_BF16};
const fsdp_dtype kIntegers[] = {FSDP_I32, FSDP_I64, FSDP_U8, FSDP_I8};

// Nothing, less than a word, odd sizes. kLarge is more than fits in any staging space.
const size_t kCounts[] = {0, 1, 7, 64, 4099};
constexpr size_t kLarge = 270001;

/// Calls `check` for every dtype, reduction and count that has a meaning.
void forReductions(const std::function<void(fsdp_dtype, ReduceOp, size_t)> &check) {
  for (size_t count : kCounts) {
    for (fsdp_dtype dtype : kFloating)
      for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Average, ReduceOp::Max})
        check(dtype, op, count);
    for (fsdp_dtype dtype : kIntegers)
      for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max})
        check(dtype, op, count);
  }
  check(FSDP_F32, ReduceOp::Average, kLarge);
  check(FSDP_BF16, ReduceOp::Sum, kLarge);
}

std::string name(fsdp_dtype dtype, ReduceOp op, size_t count, Place place) {
  return std::to_string(count) + " " + dtypeName(dtype) + " op " + std::to_string(int(op)) +
         (place == Place::Arena ? " in the arena" : " outside the arena");
}

/// The inputs of all ranks; every rank can compute them.
std::vector<at::Tensor> allInputs(const Ranks &ranks, size_t count, fsdp_dtype dtype,
                                  unsigned salt) {
  std::vector<at::Tensor> inputs;
  for (unsigned rank = 0; rank < ranks.size; ++rank)
    inputs.push_back(makeValues(count, dtype, rank, !ranks.sumsInRankOrder(), salt));
  return inputs;
}

// The arena is zeroed, aligned, usable to its end, and made once.
TEST_P(Conformance, Arena) {
  onRanks(GetParam(), [](Communicator &communicator) {
    constexpr size_t kBytes = 100003;
    Result<std::byte *> arena = communicator.makeArena(kBytes);
    ASSERT_TRUE(arena.ok()) << arena.status().message();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*arena) % 64, 0u);
    EXPECT_TRUE(
        std::all_of(*arena, *arena + kBytes, [](std::byte b) { return b == std::byte(0); }));
    std::memset(*arena, 1, kBytes);
    EXPECT_OK(communicator.barrier(kControlLane));
    EXPECT_FALSE(communicator.makeArena(kBytes).ok());
  });
}

// A large arena begins where a huge page may, whatever its length, and is zeroed to its end.
TEST_P(Conformance, LargeArena) {
  onRanks(GetParam(), [](Communicator &communicator) {
    constexpr size_t kHugePageBytes = size_t(2) << 20, kBytes = 3 * kHugePageBytes + 4099;
    Result<std::byte *> arena = communicator.makeArena(kBytes);
    ASSERT_TRUE(arena.ok()) << arena.status().message();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*arena) % kHugePageBytes, 0u);
    EXPECT_TRUE(
        std::all_of(*arena, *arena + kBytes, [](std::byte b) { return b == std::byte(0); }));
    std::memset(*arena, 1, kBytes);
    EXPECT_OK(communicator.barrier(kControlLane));
  });
}

// The output holds the inputs of all ranks in rank order; the input may be its place in the output.
TEST_P(Conformance, AllGather) {
  onRanks(GetParam(), [](Communicator &communicator) {
    unsigned rank = communicator.rank(), size = communicator.size();
    std::byte *arena = makeArena(communicator);
    unsigned salt = 0;
    for (Place place : {Place::Outside, Place::Arena})
      for (bool inPlace : {false, true})
        for (size_t bytes : {0, 1, 3, 64, 1000, 65537, (1 << 20) + 5}) {
          Memory memory(arena, place);
          std::byte *output = memory.take(size * bytes);
          std::byte *input = inPlace ? output + rank * bytes : memory.take(bytes);
          ++salt;
          copyBytes(input, makeValues(bytes, FSDP_U8, rank, true, salt), bytes);
          EXPECT_OK(communicator.allGather(kGatherLane, input, output, bytes));
          for (unsigned peer = 0; peer < size; ++peer)
            EXPECT_EQ(
                difference(output + peer * bytes, makeValues(bytes, FSDP_U8, peer, true, salt)), "")
                << bytes << " bytes, block " << peer << ", in place " << inPlace;
          // The input is the caller's again: writing it must not change what peers receive.
          if (!inPlace)
            std::memset(input, 0, bytes);
        }
  });
}

// So does that of inputs that are larger than caches.
TEST_P(Conformance, LargeAllGather) {
  onRanks(GetParam(), [](Communicator &communicator) {
    constexpr size_t kBytes = (size_t(4) << 20) + 5;
    unsigned rank = communicator.rank(), size = communicator.size();
    Memory memory(makeArena(communicator), Place::Arena);
    std::byte *output = memory.take(size * kBytes), *input = memory.take(kBytes);
    auto valueOf = [](unsigned owner, size_t i) { return std::byte((i >> 8) * 31 + i + owner); };
    for (size_t i = 0; i < kBytes; ++i)
      input[i] = valueOf(rank, i);
    EXPECT_OK(communicator.allGather(kGatherLane, input, output, kBytes));
    for (unsigned peer = 0; peer < size; ++peer) {
      size_t wrong = 0;
      for (size_t i = 0; i < kBytes; ++i)
        wrong += output[peer * kBytes + i] != valueOf(peer, i);
      EXPECT_EQ(wrong, 0u) << "block " << peer;
    }
  });
}

// Each rank gets the reduction of its block, bitwise as torch adds the tensors one after another,
// and the input is left alone.
TEST_P(Conformance, ReduceScatter) {
  Ranks ranks = GetParam();
  onRanks(ranks, [&](Communicator &communicator) {
    unsigned rank = communicator.rank(), size = communicator.size();
    std::byte *arena = makeArena(communicator);
    for (Place place : {Place::Outside, Place::Arena})
      forReductions([&](fsdp_dtype dtype, ReduceOp op, size_t count) {
        size_t element = elementBytes(dtype), block = count * element;
        std::vector<at::Tensor> inputs = allInputs(ranks, size * count, dtype, unsigned(count));
        Memory memory(arena, place);
        std::byte *input = memory.take(size * block), *output = memory.take(block);
        copyBytes(input, inputs[rank], size * block);
        EXPECT_OK(communicator.reduceScatter(kReduceLane, input, output, count, dtype, op));
        EXPECT_EQ(difference(input, inputs[rank]), "") << name(dtype, op, count, place);
        std::vector<at::Tensor> blocks;
        for (const at::Tensor &tensor : inputs)
          blocks.push_back(tensor.slice(0, int64_t(rank * count), int64_t((rank + 1) * count)));
        at::Tensor expected = reduceWithTorch(blocks, op);
        EXPECT_EQ(difference(output, expected), "") << name(dtype, op, count, place);
        std::memset(input, 0, size * block);
      });
  });
}

// The sum of what each rank brings, multiplied by a number; and divisions by a number.
TEST_P(Conformance, ScaledSumsAndDivisions) {
  Ranks ranks = GetParam();
  onRanks(ranks, [&](Communicator &communicator) {
    unsigned rank = communicator.rank(), size = communicator.size();
    std::byte *arena = makeArena(communicator);
    constexpr size_t kCount = 1000;
    for (Place place : {Place::Outside, Place::Arena})
      for (fsdp_dtype dtype : kFloating) {
        size_t block = kCount * elementBytes(dtype);
        std::vector<at::Tensor> inputs = allInputs(ranks, size * kCount, dtype, 7), blocks;
        Memory memory(arena, place);
        std::byte *input = memory.take(size * block), *output = memory.take(block);
        copyBytes(input, inputs[rank], size * block);
        EXPECT_OK(
            communicator.reduceScatterScaled(kReduceLane, input, output, kCount, dtype, 0.25));
        for (const at::Tensor &tensor : inputs)
          blocks.push_back(
              tensor.slice(0, int64_t(rank * kCount), int64_t((rank + 1) * kCount)).mul(0.25));
        at::Tensor expected = reduceWithTorch(blocks, ReduceOp::Sum);
        EXPECT_EQ(difference(output, expected), "") << name(dtype, ReduceOp::Sum, kCount, place);
        const bool isOnGpu = ranks.backend == "nccl";
        const bool isRefused = isOnGpu && dtype == FSDP_F64;
        Status divided = communicator.divide(kReduceLane, output, kCount, dtype, 1.5);
        EXPECT_EQ(divided.ok(), !isRefused) << divided.message();
        if (!isRefused) {
          // On GPUs as torch's div_ by a number there.
          at::Tensor quotient = isOnGpu ? expected.mul(1 / 1.5f) : expected.div(1.5);
          EXPECT_EQ(difference(output, quotient), "") << dtypeName(dtype);
        }
        std::memset(input, 0, size * block);
      }
    int32_t integer = 3;
    EXPECT_FALSE(communicator.divide(kReduceLane, &integer, 1, FSDP_I32, 2).ok());
    EXPECT_OK(communicator.barrier(kControlLane));
  });
}

// The output may be this rank's block of the input.
TEST_P(Conformance, ReduceScatterInPlace) {
  Ranks ranks = GetParam();
  onRanks(ranks, [&](Communicator &communicator) {
    unsigned rank = communicator.rank(), size = communicator.size();
    std::byte *arena = makeArena(communicator);
    for (Place place : {Place::Outside, Place::Arena})
      for (size_t count : {size_t(1), size_t(1000), kLarge}) {
        std::vector<at::Tensor> inputs = allInputs(ranks, size * count, FSDP_F32, 5);
        Memory memory(arena, place);
        std::byte *input = memory.take(size * count * 4), *own = input + rank * count * 4;
        std::memcpy(input, inputs[rank].const_data_ptr(), size * count * 4);
        EXPECT_OK(communicator.reduceScatter(kReduceLane, input, own, count, FSDP_F32,
                                             ReduceOp::Average));
        std::vector<at::Tensor> blocks;
        for (const at::Tensor &tensor : inputs)
          blocks.push_back(tensor.slice(0, int64_t(rank * count), int64_t((rank + 1) * count)));
        EXPECT_EQ(difference(own, reduceWithTorch(blocks, ReduceOp::Average)), "") << count;
      }
  });
}

// All ranks get the same bits; those of rank-order sums where the backend promises them.
TEST_P(Conformance, AllReduce) {
  Ranks ranks = GetParam();
  onRanks(ranks, [&](Communicator &communicator) {
    std::byte *arena = makeArena(communicator);
    for (Place place : {Place::Outside, Place::Arena})
      forReductions([&](fsdp_dtype dtype, ReduceOp op, size_t count) {
        size_t bytes = count * elementBytes(dtype);
        std::vector<at::Tensor> inputs = allInputs(ranks, count, dtype, unsigned(count));
        Memory memory(arena, place);
        std::byte *data = memory.take(bytes);
        copyBytes(data, inputs[communicator.rank()], bytes);
        EXPECT_OK(communicator.allReduce(kControlLane, data, count, dtype, op));
        at::Tensor expected = reduceWithTorch(inputs, op);
        EXPECT_EQ(difference(data, expected), "") << name(dtype, op, count, place);
      });
  });
}

// Sums whose result depends on the order are nevertheless the same bits on all ranks.
TEST_P(Conformance, AllReduceGivesTheSameBits) {
  onRanks(GetParam(), [](Communicator &communicator) {
    unsigned size = communicator.size();
    for (size_t count : {5, 30011}) {
      at::Tensor values = makeValues(count, FSDP_F32, communicator.rank(), false, 3);
      EXPECT_OK(communicator.allReduce(kControlLane, values.data_ptr(), count, FSDP_F32,
                                       ReduceOp::Average));
      std::vector<float> all(size * count);
      EXPECT_OK(communicator.allGather(kControlLane, values.data_ptr(), all.data(), count * 4));
      for (unsigned peer = 0; peer < size; ++peer)
        EXPECT_EQ(difference(all.data() + peer * count, values), "");
    }
  });
}

TEST_P(Conformance, Broadcast) {
  onRanks(GetParam(), [](Communicator &communicator) {
    std::byte *arena = makeArena(communicator);
    for (Place place : {Place::Outside, Place::Arena})
      for (unsigned root = 0; root < communicator.size(); ++root)
        for (size_t bytes : {0, 1, 4099, (1 << 20) + 1}) {
          Memory memory(arena, place);
          std::byte *data = memory.take(bytes);
          at::Tensor values = makeValues(bytes, FSDP_U8, root, true, 7);
          if (communicator.rank() == root)
            copyBytes(data, values, bytes);
          EXPECT_OK(communicator.broadcast(kControlLane, data, bytes, root));
          EXPECT_EQ(difference(data, values), "") << bytes << " bytes from " << root;
        }
  });
}

// Lanes are independent: three threads per rank, each with its own order of collectives, the sizes
// of which differ by rank of the thread, never wait for each other.
TEST_P(Conformance, LanesInFlight) {
  Ranks ranks = GetParam();
  onRanks(ranks, [&](Communicator &communicator) {
    unsigned rank = communicator.rank(), size = communicator.size();
    std::byte *arena = makeArena(communicator);
    auto gather = [&] {
      std::byte *output = arena;
      for (unsigned i = 0; i < 40; ++i) {
        size_t bytes = 1 + i * 5003;
        at::Tensor values = makeValues(bytes, FSDP_U8, rank, true, i);
        std::memcpy(output + rank * bytes, values.const_data_ptr(), bytes);
        EXPECT_OK(communicator.allGather(kGatherLane, output + rank * bytes, output, bytes));
        for (unsigned peer = 0; peer < size; ++peer)
          EXPECT_EQ(difference(output + peer * bytes, makeValues(bytes, FSDP_U8, peer, true, i)),
                    "");
      }
    };
    auto reduce = [&] {
      std::byte *input = arena + kArenaBytes / 2, *output = arena + kArenaBytes * 3 / 4;
      for (unsigned i = 0; i < 40; ++i) {
        size_t count = 1 + i * 1009;
        std::vector<at::Tensor> inputs = allInputs(ranks, size * count, FSDP_F32, i);
        std::memcpy(input, inputs[rank].const_data_ptr(), size * count * 4);
        EXPECT_OK(
            communicator.reduceScatter(kReduceLane, input, output, count, FSDP_F32, ReduceOp::Sum));
        std::vector<at::Tensor> blocks;
        for (const at::Tensor &tensor : inputs)
          blocks.push_back(tensor.slice(0, int64_t(rank * count), int64_t((rank + 1) * count)));
        EXPECT_EQ(difference(output, reduceWithTorch(blocks, ReduceOp::Sum)), "");
      }
    };
    auto control = [&] {
      for (unsigned i = 0; i < 100; ++i) {
        double value = rank + i;
        EXPECT_OK(communicator.allReduce(kControlLane, &value, 1, FSDP_F64, ReduceOp::Max));
        EXPECT_EQ(value, size - 1 + i);
      }
    };
    std::thread gathers(gather), reductions(reduce);
    control();
    gathers.join();
    reductions.join();
  });
}

// Nobody leaves a barrier before everybody has entered it.
TEST_P(Conformance, Barrier) {
  onRanks(GetParam(), [](Communicator &communicator) {
    unsigned rank = communicator.rank(), size = communicator.size();
    constexpr unsigned lanes[] = {kGatherLane, kReduceLane, kControlLane};
    for (unsigned i = 0; i < 50; ++i)
      EXPECT_OK(communicator.barrier(lanes[i % 3]));
    int64_t entered = rank;
    EXPECT_OK(communicator.barrier(kControlLane));
    EXPECT_OK(communicator.allReduce(kControlLane, &entered, 1, FSDP_I64, ReduceOp::Sum));
    EXPECT_EQ(entered, int64_t(size) * (size - 1) / 2);
  });
}

// What has no meaning is refused on every rank, and does no harm.
TEST_P(Conformance, RefusesWhatHasNoMeaning) {
  onRanks(GetParam(), [](Communicator &communicator) {
    int64_t data[8] = {};
    int64_t output = 0;
    EXPECT_EQ(communicator.barrier(3).message(), "collective on lane 3, but there are 3 lanes");
    float value = 0;
    EXPECT_EQ(communicator.divide(3, &value, 1, FSDP_F32, 2).message(),
              "collective on lane 3, but there are 3 lanes");
    EXPECT_EQ(communicator.reduceScatterScaled(3, &value, &value, 1, FSDP_F32, 2).message(),
              "collective on lane 3, but there are 3 lanes");
    EXPECT_EQ(
        communicator.reduceScatter(kReduceLane, data, &output, 1, FSDP_I64, ReduceOp::Average)
            .message(),
        "no average of i64 between ranks: sum and max take u8, i8, i32, i64 and floating-point "
        "types, average takes floating-point types");
    EXPECT_FALSE(communicator.allReduce(kReduceLane, data, 1, FSDP_BOOL, ReduceOp::Max).ok());
    EXPECT_FALSE(communicator.broadcast(kControlLane, data, 8, communicator.size()).ok());
    EXPECT_OK(communicator.barrier(kControlLane));
  });
}

std::vector<Ranks> allRanks() {
  std::vector<Ranks> all;
  for (const char *backend : {"local", "shm", "gloo"})
    for (unsigned size : {1, 2, 3, 4})
      all.push_back({backend, size});
  // NCCL averages by multiplying with 1 / size first: that is exact where the others are at powers
  // of two.
  for (unsigned size : {1, 2, 4})
    all.push_back({"nccl", size});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::ValuesIn(allRanks()),
                         [](const auto &info) {
                           return info.param.backend + std::to_string(info.param.size);
                         });

} // namespace
