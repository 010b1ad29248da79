# A self-contained HTML page, compiled in.
#
# fsdp_embed_page(TARGET HEADER SYMBOL TITLE BODY STYLES scripts...)
#
# Writes HEADER into the current binary folder: `inline constexpr fsdp::explain::PageTemplate SYMBOL`,
# lib/Explain/page/frame.html with title, body, styles and scripts filled in, those of the frame
# first, before and after its line <!-- data -->.
function(fsdp_embed_page target header symbol title body styles)
  set(PAGE_TITLE "${title}")
  set(frame "${PROJECT_SOURCE_DIR}/lib/Explain/page/frame")
  set(scripts "${frame}.js" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    "${frame}.html" "${frame}.css" ${scripts} ${body} ${styles})
  file(READ ${body} PAGE_BODY)
  file(READ "${frame}.css" PAGE_STYLES)
  file(READ ${styles} text)
  string(APPEND PAGE_STYLES "${text}")
  set(PAGE_SCRIPTS "")
  foreach(script ${scripts})
    file(READ ${script} text)
    string(APPEND PAGE_SCRIPTS "${text}")
  endforeach()
  set(joined "${CMAKE_CURRENT_BINARY_DIR}/${symbol}.html")
  configure_file("${frame}.html" "${joined}" @ONLY)
  file(READ "${joined}" text)
  string(FIND "${text}" "<!-- data -->" place)
  string(SUBSTRING "${text}" 0 ${place} PAGE_HEAD)
  math(EXPR place "${place} + 13")
  string(SUBSTRING "${text}" ${place} -1 PAGE_TAIL)
  set(PAGE_SYMBOL ${symbol})
  configure_file("${PROJECT_SOURCE_DIR}/cmake/EmbeddedPage.h.in" "${header}" @ONLY)
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
endfunction()
