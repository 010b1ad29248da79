//===- TokenHeader.h - The header of a token file ------------- -*- C++ -*-===//
//
// Files of llm.c (dev/data/data_common.py, write_datafile) and its descendants begin with 256
// numbers of 32 bits: a magic number, a version and the number of tokens. Version 1 of 20240520 has
// GPT-2's tokens of 16 bits, version 7 of 20240801 has Llama 3's tokens of 32 bits. nanoGPT's files
// (data/*/prepare.py) have no header: they are raw tokens of 16 bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_TOKENHEADER_H
#define FSDP_RUNTIME_TOKENHEADER_H

#include "data/SampleFile.h"

namespace fsdp::rt {

/// The type and position of tokens in a file.
struct TokenLayout {
  TokenType type = TokenType::U16;
  int64_t headerBytes = 0, tokens = 0;
};

int64_t tokenBytes(TokenType type);

/// "u16", as in --data-dtype, and back.
const char *tokenTypeName(TokenType type);
std::optional<TokenType> tokenTypeNamed(std::string_view name);

/// The layout of the file at `path`, whose bytes are `file`: by its header or, without one, raw
/// tokens of type `wanted`. Errors name the file and both values.
Result<TokenLayout> tokenLayoutOf(const std::string &path, std::span<const std::byte> file,
                                  std::optional<TokenType> wanted);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_TOKENHEADER_H
