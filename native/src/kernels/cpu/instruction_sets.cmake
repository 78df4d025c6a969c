# One translation unit per instruction set, chosen at run time. Only these files may use wider instructions than the
# baseline: anything inline that they share with others would otherwise leak into code that runs everywhere. They
# therefore include no library templates, and kernel_objects_test looks at their symbols.
#
# The features are named one by one, and dispatch.cpp asks the processor for exactly these. Contraction is off: a fused
# multiply-add is written where one is meant, so the bits do not depend on a compiler's choice. -O3 in every build type:
# accumulator arrays must become registers.
set(kael_kernel_sources baseline.cpp x86_64_v3.cpp x86_64_v4.cpp x86_64_v4_vnni.cpp x86_64_v4_bf16.cpp)
list(TRANSFORM kael_kernel_sources PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
set(kael_kernel_options -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math)

set_property(SOURCE ${kael_kernel_sources} TARGET_DIRECTORY kael_core APPEND PROPERTY COMPILE_OPTIONS ${kael_kernel_options})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/x86_64_v3.cpp" TARGET_DIRECTORY kael_core APPEND PROPERTY COMPILE_OPTIONS
    -mavx2 -mfma)
  set(kael_v4_options -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/x86_64_v4.cpp" TARGET_DIRECTORY kael_core APPEND PROPERTY COMPILE_OPTIONS
    ${kael_v4_options})
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/x86_64_v4_vnni.cpp" TARGET_DIRECTORY kael_core APPEND PROPERTY
    COMPILE_OPTIONS ${kael_v4_options} -mavx512vnni)
  set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/x86_64_v4_bf16.cpp" TARGET_DIRECTORY kael_core APPEND PROPERTY
    COMPILE_OPTIONS ${kael_v4_options} -mavx512vnni -mavx512bf16)
endif()
