//===- InputSpec.cpp - NAME:DTYPE[DIMS] -----------------------------------===//

#include "fsdp/Frontend/Capture.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace fsdp::frontend;

llvm::Expected<InputSpec> fsdp::frontend::parseInputSpec(llvm::StringRef text) {
  auto fail = [&](const llvm::Twine &reason) {
    return llvm::createStringError("input '" + text + "': " + reason +
                                   "; expected NAME:DTYPE[DIMS], for example tokens:i64[4,128]");
  };
  auto [name, rest] = text.split(':');
  if (name.empty() || rest.empty())
    return fail("no name or no dtype");
  auto [dtype, dims] = rest.split('[');
  if (!llvm::is_contained({"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"},
                          dtype))
    return fail("unknown dtype '" + dtype + "' (known: f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool)");
  if (!dims.consume_back("]"))
    return fail("no [DIMS] at the end");
  InputSpec spec{.name = name.str(), .dtype = dtype.str(), .sizes = {}};
  llvm::SmallVector<llvm::StringRef> parts;
  if (!dims.trim().empty())
    dims.split(parts, ',');
  for (llvm::StringRef part : parts) {
    int64_t size;
    if (part.trim().getAsInteger(10, size) || size < 1)
      return fail("'" + part + "' is no size");
    spec.sizes.push_back(size);
  }
  return spec;
}
