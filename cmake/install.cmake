# Two components: `runtime` is libkael alone, what a Python wheel carries; `development` is what a C or C++ project needs.
# kael::kael is the C++ API (static), kael::capi the C ABI (shared).
include(CMakePackageConfigHelpers)
set(kael_package_folder lib/cmake/kael)

# A wheel cannot hold links: there the library is one file.
if(NOT SKBUILD)
  file(STRINGS "${PROJECT_SOURCE_DIR}/native/include/kael/kael.h" abi REGEX "^#define KAEL_ABI_VERSION ")
  string(REGEX REPLACE "[^0-9]" "" abi "${abi}")
  set_target_properties(kael PROPERTIES SOVERSION "${abi}")
endif()
install(TARGETS kael EXPORT kael
  LIBRARY DESTINATION lib COMPONENT runtime NAMELINK_COMPONENT development
  RUNTIME DESTINATION lib COMPONENT runtime
  ARCHIVE DESTINATION lib COMPONENT development)
install(TARGETS kael_core EXPORT kael ARCHIVE DESTINATION lib COMPONENT development)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/native/include/kael" DESTINATION include COMPONENT development)
install(EXPORT kael NAMESPACE kael:: FILE kaelTargets.cmake DESTINATION ${kael_package_folder} COMPONENT development)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/kaelConfig.cmake.in" "${PROJECT_BINARY_DIR}/kaelConfig.cmake"
  INSTALL_DESTINATION ${kael_package_folder})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kaelConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kaelConfig.cmake" "${PROJECT_BINARY_DIR}/kaelConfigVersion.cmake"
  DESTINATION ${kael_package_folder} COMPONENT development)
