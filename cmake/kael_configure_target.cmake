# Warnings, sanitizers and coverage: every target of the project passes through this one function.
function(kael_configure_target target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Wno-psabi
    "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
  # Messages name files as in the repository. Ccache, with a base_dir, hands the compiler relative names, which are those
  # already where the build is in the source folder; an empty prefix would match every name.
  file(RELATIVE_PATH up "${CMAKE_BINARY_DIR}" "${PROJECT_SOURCE_DIR}/")
  if(up)
    target_compile_options(${target} PRIVATE "-ffile-prefix-map=${up}=")
  endif()
  if(KAEL_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(kael_sanitizer_flags)
    target_compile_options(${target} PRIVATE ${kael_sanitizer_flags} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE ${kael_sanitizer_flags})
    # GCC's manual, of -fsanitize: instrumented code makes this warning see what is not there.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    # A cached block is never given back, so a sanitizer could not see a use after free.
    target_compile_definitions(${target} PRIVATE KAEL_NO_CACHING_ALLOCATOR)
  endif()
  if(KAEL_BUILD_FUZZERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(KAEL_ENABLE_COVERAGE)
    target_compile_options(${target} PRIVATE -fprofile-instr-generate -fcoverage-mapping)
    target_link_options(${target} PRIVATE -fprofile-instr-generate)
  endif()
endfunction()
