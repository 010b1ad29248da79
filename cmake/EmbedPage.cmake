# A self-contained HTML page, compiled in.
#
# fsdp_embed_page(TARGET HEADER SYMBOL TITLE FILES...)
#
# Writes HEADER into the current binary folder: `inline constexpr fsdp::explain::PageTemplate SYMBOL`,
# lib/Explain/page/frame.html with the title and the files filled in, each kind (.html, .css, .js) in
# the given order, those of the frame first, before and after its line <!-- data -->.
function(fsdp_embed_page target header symbol title)
  set(PAGE_TITLE "${title}")
  set(frame "${PROJECT_SOURCE_DIR}/lib/Explain/page/frame")
  set(files "${frame}.css" "${frame}.js" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${frame}.html" ${files})
  set(page.html "")
  set(page.css "")
  set(page.js "")
  foreach(file ${files})
    cmake_path(GET file EXTENSION LAST_ONLY kind)
    file(READ ${file} text)
    string(APPEND page${kind} "${text}")
  endforeach()
  set(PAGE_BODY "${page.html}")
  set(PAGE_STYLES "${page.css}")
  set(PAGE_SCRIPTS "${page.js}")
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
