# Included before project(): CMake's own message for a missing compiler does not say what to install.
function(kael_require_program variable program package)
  if(NOT program OR IS_ABSOLUTE "${program}")
    return()
  endif()
  find_program(${variable} "${program}" NO_CACHE)
  if(NOT ${variable})
    message(FATAL_ERROR
      "${program} is missing. Debian, Ubuntu: apt-get install ${package}; "
      "or name another one in CMakeUserPresets.json or with -D")
  endif()
endfunction()

if(CMAKE_CXX_COMPILER MATCHES "^clang\\+\\+-([0-9]+)$")
  kael_require_program(kael_clang "${CMAKE_CXX_COMPILER}" "clang-${CMAKE_MATCH_1}")
endif()
if(CMAKE_CXX_CLANG_TIDY MATCHES "^(clang-tidy-[0-9]+)")
  kael_require_program(kael_clang_tidy "${CMAKE_MATCH_1}" "${CMAKE_MATCH_1}")
endif()
if(NOT DEFINED CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND NOT DEFINED CMAKE_TOOLCHAIN_FILE)
  kael_require_program(kael_cxx "c++" "g++")
endif()
