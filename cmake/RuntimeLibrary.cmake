# fsdp_runtime_library(NAME SOURCES... [USES NAMES...])
#
# A part of libfsdp_runtime.so: runtime/NAME, as the target fsdp_rt_NAME. It sees its own headers,
# those of the parts that it uses, directly or not, and those of runtime/ itself; an include of
# another part's is a file that does not exist. Parts are declared after those that they use, so
# that none can use another one in turn.
function(fsdp_runtime_library name)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  set(runtime "${PROJECT_SOURCE_DIR}/runtime")
  set(seen ${name})
  foreach(used ${ARG_USES})
    if(NOT TARGET fsdp_rt_${used})
      message(FATAL_ERROR "runtime/${name} uses runtime/${used}, which is not declared before it")
    endif()
    get_target_property(theirs fsdp_rt_${used} FSDP_SEES)
    list(APPEND seen ${theirs})
  endforeach()
  list(REMOVE_DUPLICATES seen)

  # A folder of links to what the part sees.
  set(headers "${CMAKE_CURRENT_BINARY_DIR}/headers")
  file(REMOVE_RECURSE "${headers}")
  file(MAKE_DIRECTORY "${headers}")
  foreach(entry ${seen} DType.h Hash.h Status.h)
    file(CREATE_LINK "${runtime}/${entry}" "${headers}/${entry}" SYMBOLIC)
  endforeach()

  add_library(fsdp_rt_${name} OBJECT ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(fsdp_rt_${name} PROPERTIES FSDP_SEES "${seen}")
  target_include_directories(fsdp_rt_${name} PRIVATE "${headers}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(fsdp_rt_${name} PRIVATE LibTorch::cpu FsdpFiles fsdp_flags)
  target_sources(fsdp_runtime PRIVATE $<TARGET_OBJECTS:fsdp_rt_${name}>)
endfunction()
