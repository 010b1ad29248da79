# A self-contained HTML page, compiled in.
#
# fsdp_embed_page(TARGET HEADER SYMBOL PAGE STYLES scripts...)
#
# Writes HEADER into the current binary folder: `inline constexpr fsdp::explain::PageTemplate SYMBOL`,
# the page before and after the line <!-- data -->, with @PAGE_STYLES@ and @PAGE_SCRIPTS@ filled in.
function(fsdp_embed_page target header symbol page styles)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page} ${styles} ${ARGN})
  file(READ ${styles} PAGE_STYLES)
  set(PAGE_SCRIPTS "")
  foreach(script ${ARGN})
    file(READ ${script} text)
    string(APPEND PAGE_SCRIPTS "${text}")
  endforeach()
  set(joined "${CMAKE_CURRENT_BINARY_DIR}/${symbol}.html")
  configure_file(${page} "${joined}" @ONLY)
  file(READ "${joined}" text)
  string(FIND "${text}" "<!-- data -->" place)
  string(SUBSTRING "${text}" 0 ${place} PAGE_HEAD)
  math(EXPR place "${place} + 13")
  string(SUBSTRING "${text}" ${place} -1 PAGE_TAIL)
  set(PAGE_SYMBOL ${symbol})
  configure_file("${PROJECT_SOURCE_DIR}/cmake/EmbeddedPage.h.in" "${header}" @ONLY)
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
endfunction()
