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
  set(FSDP_SANITIZER_FLAG -fsanitize=address,undefined)
  set(sanitizer_options -fno-sanitize=vptr -fno-sanitize-recover=undefined
    # g++ takes the poisoning of LLVM's unions for uses of their values.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
elseif(FSDP_SANITIZE STREQUAL "thread")
  set(FSDP_SANITIZER_FLAG -fsanitize=thread)
elseif(FSDP_SANITIZE)
  message(FATAL_ERROR "FSDP_SANITIZE is '${FSDP_SANITIZE}', expected 'address', 'thread' or nothing")
endif()
if(FSDP_FUZZ)
  if(NOT FSDP_SANITIZE STREQUAL "address" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "FSDP_FUZZ needs clang (it is ${CMAKE_CXX_COMPILER_ID}) and "
      "FSDP_SANITIZE=address (it is '${FSDP_SANITIZE}'): use the preset fuzz")
  endif()
  target_compile_options(fsdp_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
# The flag is also for the training binaries that this build's compiler links.
if(FSDP_SANITIZER_FLAG)
  target_compile_options(fsdp_flags INTERFACE
    # Checks keep clang from vectorizing loops, of which it warns where the source asks for that.
    $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>
    ${FSDP_SANITIZER_FLAG} ${sanitizer_options} -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS)
  target_link_options(fsdp_flags INTERFACE ${FSDP_SANITIZER_FLAG})
endif()
