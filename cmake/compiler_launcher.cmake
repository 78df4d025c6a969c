# Repeated builds (branches, presets, CI) reuse objects where ccache is installed.
find_program(KAEL_CCACHE ccache)
if(KAEL_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${KAEL_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${KAEL_CCACHE}")
endif()
