# Flags that every target of the project shares.
add_library(fsdp_flags INTERFACE)
target_compile_options(fsdp_flags INTERFACE
  # g++ 12 sees overlapping copies in `"text" + std::string` (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # clang blames us for what std::stable_sort of libstdc++ 12 calls.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  -Wall -Wextra -Wno-unused-parameter -Wimplicit-fallthrough
  # Results are compared bitwise with torch's: fuse only where the source says fma.
  -ffp-contract=off
  $<$<BOOL:${FSDP_WERROR}>:-Werror>)
if(FSDP_SANITIZE STREQUAL "address")
  target_compile_options(fsdp_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS
    # g++ takes the poisoning of LLVM's unions for uses of their values.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(fsdp_flags INTERFACE -fsanitize=address,undefined)
elseif(FSDP_SANITIZE STREQUAL "thread")
  target_compile_options(fsdp_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS)
  target_link_options(fsdp_flags INTERFACE -fsanitize=thread)
elseif(FSDP_SANITIZE)
  message(FATAL_ERROR "FSDP_SANITIZE is '${FSDP_SANITIZE}', expected 'address', 'thread' or nothing")
endif()
