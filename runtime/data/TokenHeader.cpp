//===- TokenHeader.cpp - The header of a token file -----------------------===//

#include "data/TokenHeader.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace fsdp::rt;

namespace {
struct TypeRow {
  TokenType type;
  const char *name;
  int64_t bytes;
};

struct HeaderRow {
  int32_t magic, version;
  TokenType type;
};
} // namespace

static constexpr TypeRow kTypes[] = {{TokenType::U8, "u8", 1},
                                     {TokenType::U16, "u16", 2},
                                     {TokenType::U32, "u32", 4},
                                     {TokenType::I32, "i32", 4},
                                     {TokenType::I64, "i64", 8}};
static constexpr HeaderRow kHeaders[] = {{20240520, 1, TokenType::U16},
                                         {20240801, 7, TokenType::U32}};
static constexpr int64_t kHeaderBytes = 1024;

int64_t fsdp::rt::tokenBytes(TokenType type) {
  return std::ranges::find(kTypes, type, &TypeRow::type)->bytes;
}

const char *fsdp::rt::tokenTypeName(TokenType type) {
  return std::ranges::find(kTypes, type, &TypeRow::type)->name;
}

std::optional<TokenType> fsdp::rt::tokenTypeNamed(std::string_view name) {
  for (const TypeRow &row : kTypes)
    if (name == row.name)
      return row.type;
  return std::nullopt;
}

/// Reads the header of a file whose first word is one of llm.c's magic numbers.
static Result<TokenLayout> readHeader(const std::string &path, std::span<const std::byte> file,
                                      const HeaderRow &row) {
  std::array<int32_t, 3> words{};
  if (file.size() < kHeaderBytes)
    return Status::error("'" + path + "' begins as llm.c's token files do, but has " +
                         std::to_string(file.size()) + " bytes, fewer than their header's " +
                         std::to_string(kHeaderBytes));
  std::memcpy(words.data(), file.data(), sizeof(words));
  if (words[1] != row.version)
    return Status::error("'" + path + "' is a token file of llm.c (" + std::to_string(row.magic) +
                         ") of version " + std::to_string(words[1]) + ", expected " +
                         std::to_string(row.version));
  const TokenLayout layout{row.type, kHeaderBytes, words[2]};
  const auto bytes = static_cast<int64_t>(file.size());
  if (words[2] < 0 || bytes != kHeaderBytes + layout.tokens * tokenBytes(row.type))
    return Status::error("'" + path + "' has " + std::to_string(bytes) +
                         " bytes, but its header says " + std::to_string(words[2]) +
                         " tokens of type " + tokenTypeName(row.type) + " behind " +
                         std::to_string(kHeaderBytes) + " bytes");
  return layout;
}

Result<TokenLayout> fsdp::rt::tokenLayoutOf(const std::string &path,
                                            std::span<const std::byte> file,
                                            std::optional<TokenType> wanted) {
  int32_t magic = 0;
  if (file.size() >= sizeof(magic))
    std::memcpy(&magic, file.data(), sizeof(magic));
  for (const HeaderRow &row : kHeaders) {
    if (row.magic != magic)
      continue;
    Result<TokenLayout> layout = readHeader(path, file, row);
    if (layout.ok() && wanted && *wanted != layout->type)
      return Status::error("'" + path + "': its header says tokens of type " +
                           tokenTypeName(layout->type) + ", but --data-dtype is " +
                           tokenTypeName(*wanted));
    return layout;
  }
  if (!wanted)
    return Status::error("'" + path +
                         "' is not a .safetensors file and has no header of llm.c's token files: "
                         "raw tokens need --data-dtype u8, u16, u32, i32 or i64");
  const auto bytes = static_cast<int64_t>(file.size());
  const int64_t width = tokenBytes(*wanted);
  if (bytes % width != 0)
    return Status::error("'" + path + "' has " + std::to_string(bytes) +
                         " bytes, not a multiple of the " + std::to_string(width) +
                         " bytes of a token (--data-dtype)");
  return TokenLayout{*wanted, 0, bytes / width};
}
