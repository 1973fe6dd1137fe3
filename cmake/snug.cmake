# The few commands that folders use: snug_folder, snug_test. Each folder is one static library that
# states exactly which folders it may include (DEPS); tools/check_includes.py reads the same lines.

# Most of what the compiler does for a small file is to read the headers of others. With SNUG_FAST_BUILD the sources of a folder are
# joined into units of several, and the standard library's headers are read once. The clang preset goes without, so that every
# file still includes what it uses.
set(SNUG_STANDARD_HEADERS <algorithm> <array> <charconv> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <numeric>
  <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <vector>)

# A target of which others with the same flags reuse the precompiled headers.
function(snug_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS;OPTIONS;LIBS" ${ARGN})
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE snug_warnings ${ARG_LIBS})
endfunction()

if(SNUG_FAST_BUILD)
  # The first is for ccache. The others: below 1 GB the compiler frees nothing, which took a tenth of its time.
  add_compile_options("$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess;--param=ggc-min-expand=1000;--param=ggc-min-heapsize=1000000>")
  snug_precompiled(snug_standard_headers HEADERS ${SNUG_STANDARD_HEADERS} OPTIONS $<$<CONFIG:Release>:-O2>)
  set_target_properties(snug_standard_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()

# snug_host_code(<target> [BUSY] [JOIN 20] [HOT a.cc ...]): what decides, reads and prints takes no time of a step, and the compiler's second
# level takes a quarter of a build. BUSY: at that level. JOIN: how many sources make a unit. HOT: sources at the highest level, and alone.
function(snug_host_code target)
  cmake_parse_arguments(ARG "BUSY" "JOIN" "HOT" ${ARGN})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:$<IF:$<BOOL:${ARG_BUSY}>,-O2,-O1>>)
  set_source_files_properties(${ARG_HOT} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  if(NOT SNUG_FAST_BUILD)
    return()
  endif()
  get_target_property(libs ${target} LINK_LIBRARIES)
  get_target_property(is_pic ${target} POSITION_INDEPENDENT_CODE)
  if(is_pic AND NOT OpenMP::OpenMP_CXX IN_LIST libs)  # the headers are read with the one and without the other
    target_precompile_headers(${target} REUSE_FROM snug_standard_headers)
  endif()
  if(ARG_JOIN)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ARG_JOIN})
    # A type of a joined file may have members of its unnamed namespace: no other unit includes the file.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# snug_folder(<name> SOURCES a.cc b.cc [KERNELS] [BUSY] [ALONE] [JOIN 20] [PRECOMPILED headers ...]
#   [DEPS base graph ...] [API session ...] [FRONTS session/run_session.h ...] [LIBS external::target ...])
# DEPS: folders whose headers it includes. API: folders of which it includes the public headers alone (include/snug), and FRONTS: single
# headers of such a folder besides.
# KERNELS: at the highest optimisation, and alone, as the hot loops of the planner are. PRECOMPILED: their headers besides the standard
# library's; all others share one set.
# BUSY: what planning, compilation, tokenizers and files spend their time in. ALONE: files that use one name for many things, so that they
# cannot be joined. JOIN: how many make a unit.
function(snug_folder name)
  cmake_parse_arguments(ARG "KERNELS;BUSY;ALONE" "JOIN" "SOURCES;PRECOMPILED;DEPS;API;FRONTS;LIBS" ${ARGN})
  if(ARG_PRECOMPILED AND NOT ARG_KERNELS)
    message(FATAL_ERROR "${name}: PRECOMPILED is for KERNELS, all other folders share the standard library's headers")
  endif()
  add_library(snug_${name} STATIC ${ARG_SOURCES})
  target_include_directories(snug_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_compile_features(snug_${name} PUBLIC cxx_std_20)
  set_target_properties(snug_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(snug_${name} PRIVATE snug_warnings)
  foreach(dep IN LISTS ARG_DEPS ARG_API)
    target_link_libraries(snug_${name} PUBLIC snug_${dep})
  endforeach()
  target_link_libraries(snug_${name} PRIVATE ${ARG_LIBS})
  if(ARG_KERNELS)
    if(SNUG_FAST_BUILD)
      target_precompile_headers(snug_${name} PRIVATE ${SNUG_STANDARD_HEADERS} ${ARG_PRECOMPILED})
    endif()
  else()
    set(how)
    if(ARG_BUSY)
      list(APPEND how BUSY)
    endif()
    if(NOT ARG_ALONE)
      if(NOT ARG_JOIN)
        set(ARG_JOIN 20)
      endif()
      list(APPEND how JOIN ${ARG_JOIN})
    endif()
    snug_host_code(snug_${name} ${how})
  endif()
  set_property(GLOBAL APPEND PROPERTY SNUG_FOLDERS snug_${name})
  set_property(GLOBAL APPEND PROPERTY SNUG_EXTERNAL_LIBS ${ARG_LIBS})
endfunction()

# What a test says itself takes no time; a third of the whole build was optimising it.
# GCC 12 has false alarms in std::string there, where its headers are precompiled.
set(SNUG_TEST_OPTIONS $<$<CONFIG:Release>:-O1> "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")
if(SNUG_BUILD_TESTS AND SNUG_FAST_BUILD)
  find_package(GTest REQUIRED)
  snug_precompiled(snug_test_headers HEADERS ${SNUG_STANDARD_HEADERS} <gtest/gtest.h> OPTIONS ${SNUG_TEST_OPTIONS} LIBS GTest::gtest)
endif()

# snug_test(<name> SOURCES a_test.cc ... DEPS base graph ... [LIBS ...] [LABEL unit])
# One test program a folder; every GoogleTest case is one CTest case.
function(snug_test name)
  if(NOT SNUG_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  add_executable(${name}_test ${ARG_SOURCES})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name}_test PRIVATE snug_${dep})
  endforeach()
  target_link_libraries(${name}_test PRIVATE snug_warnings GTest::gtest GTest::gtest_main ${ARG_LIBS})
  target_compile_definitions(${name}_test PRIVATE SNUG_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${name}_test PRIVATE ${SNUG_TEST_OPTIONS})
  if(SNUG_FAST_BUILD)
    target_precompile_headers(${name}_test REUSE_FROM snug_test_headers)
  endif()
  add_test(NAME ${name} COMMAND ${name}_test)
  set(timeout 900)
  if(SNUG_SANITIZE)
    set(timeout 3600)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${timeout})
  if(name STREQUAL session OR session IN_LIST ARG_DEPS)
    # What opens this machine has speeds that were measured while no other test ran.
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED speeds ENVIRONMENT "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache")
  endif()
endfunction()
