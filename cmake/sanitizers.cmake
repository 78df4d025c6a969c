# Which sanitizers a build has, and what a process that was not built with them needs to load such a library.
foreach(option IN ITEMS KAEL_BUILD_FUZZERS KAEL_ENABLE_COVERAGE)
  if(${option} AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "${option} needs clang; the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
endforeach()

set(kael_sanitizer_flags "")
set(kael_sanitizer_runtime "")
if(KAEL_ENABLE_SANITIZERS)
  set(kael_sanitizer_flags -fsanitize=address,undefined)
  set(kael_sanitizer_runtime asan)
elseif(KAEL_ENABLE_TSAN)
  set(kael_sanitizer_flags -fsanitize=thread)
  set(kael_sanitizer_runtime tsan)
endif()

if(kael_sanitizer_flags)
  include(CheckCXXSourceCompiles)
  list(JOIN kael_sanitizer_flags " " CMAKE_REQUIRED_FLAGS)
  check_cxx_source_compiles("int main() { return 0; }" KAEL_SANITIZER_LINKS)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT KAEL_SANITIZER_LINKS)
    unset(KAEL_SANITIZER_LINKS CACHE)
    string(REGEX MATCH "^[0-9]+" major "${CMAKE_CXX_COMPILER_VERSION}")
    message(FATAL_ERROR
      "${CMAKE_CXX_COMPILER} cannot link ${kael_sanitizer_flags}: its runtime is missing. "
      "Debian, Ubuntu: apt-get install libclang-rt-${major}-dev (clang) or libgcc-${major}-dev (gcc)")
  endif()
endif()

# Puts into `variable` the environment entries (NAME=VALUE) with which an ordinary Python loads the library of this build.
function(kael_python_environment variable)
  set(entries "KAEL_LIBRARY=$<TARGET_FILE:kael>" "PYTHONPATH=${PROJECT_SOURCE_DIR}/py:${PROJECT_SOURCE_DIR}")
  if(kael_sanitizer_runtime AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      set(runtime "libclang_rt.${kael_sanitizer_runtime}-${CMAKE_SYSTEM_PROCESSOR}.so")
    else()
      set(runtime "lib${kael_sanitizer_runtime}.so")
    endif()
    # libstdc++ as well: a runtime that is loaded without it cannot intercept __cxa_throw and dies at the first exception.
    set(preload "")
    foreach(file IN ITEMS "${runtime}" libstdc++.so.6)
      execute_process(COMMAND "${CMAKE_CXX_COMPILER}" "-print-file-name=${file}"
        OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
      list(APPEND preload "${path}")
    endforeach()
    list(JOIN preload ":" preload)
    list(APPEND entries "LD_PRELOAD=${preload}")
    if(kael_sanitizer_runtime STREQUAL "asan")
      # The interpreter's own allocator would hide its blocks, and with them ours, from the leak check.
      list(APPEND entries PYTHONMALLOC=malloc
        "LSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/cmake/leak_suppressions.txt':print_suppressions=0")
    else()
      list(APPEND entries "TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1:atexit_sleep_ms=100")
    endif()
  endif()
  set(${variable} "${entries}" PARENT_SCOPE)
endfunction()
