# Compile through ccache when it is installed; the cache is shared by all build folders.
find_program(FSDP_CCACHE ccache)
if(FSDP_CCACHE)
  set(launcher ${CMAKE_COMMAND} -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      # What precompiled headers need (PrecompiledHeaders.cmake); their contents are hashed once.
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_INODECACHE=1
      ${FSDP_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
