# tests.cmake - every tests/test_*.c is a test; the checks of the house itself stand beside them.
# SPDX-License-Identifier: Apache-2.0
#
# A test says what it needs in one comment among its first lines:
#
#   /* test: timeout 300, needs libuv glib-2.0, serial */
#
#   timeout N     seconds until it counts as hung (default 300)
#   needs P ...   optional packages; where one is missing the test is reported as skipped
#   serial        never runs beside another test: it shares ports, or asks how long something takes
#   waits         sleeps nearly all of its time, and so runs beside those that compute (see the end)
#   long          is among those that are started first, lest they run alone at the end
#   single        has one thread alone: the thread sanitizer has nothing to look for
#   also tcp      runs a second time, as <name>_tcp, without shared memory between ranks
#   also rdma     runs another time, as <name>_rdma, over fake RDMA devices
#   also shared   runs another time, as <name>_shared, with the shared library: public calls alone
#
# The tests of the tree itself carry the label "house", those of one thread the label "single".

set(run_test ${PROJECT_SOURCE_DIR}/tests/run_test.sh)

# ---- What the tests share ---------------------------------------------------------------------

file(GLOB support_sources CONFIGURE_DEPENDS tests/*.c tests/support/*.c tests/sim/*.c)
list(FILTER support_sources EXCLUDE REGEX "/tests/(test_[^/]*|tidy|support/filter)\\.c$")
if(TCDIST_RDMA)
    file(GLOB fake_sources CONFIGURE_DEPENDS tests/fake_verbs/*.c)
    list(FILTER fake_sources EXCLUDE REGEX "/preload\\.c$")
    list(APPEND support_sources ${fake_sources})
endif()
add_library(test_support INTERFACE)
if(support_sources)
    add_library(test_support_objects STATIC ${support_sources})
    target_include_directories(test_support_objects PRIVATE include src tests)
    target_link_libraries(test_support_objects PUBLIC tcdist_static PkgConfig::CMOCKA)
    target_link_libraries(test_support INTERFACE test_support_objects)
endif()
target_link_libraries(test_support INTERFACE tcdist_static PkgConfig::CMOCKA m)
target_include_directories(test_support INTERFACE include src tests)
target_compile_definitions(test_support INTERFACE
    TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TEST_BINARY_DIR="${PROJECT_BINARY_DIR}")

add_library(test_filter OBJECT tests/support/filter.c)
target_link_libraries(test_filter PRIVATE PkgConfig::CMOCKA)
if(TCDIST_RDMA)
    add_library(fake_preload OBJECT tests/fake_verbs/preload.c)
    target_include_directories(fake_preload PRIVATE src tests ${IBVERBS_INCLUDE_DIRS})
endif()

# ---- One optional package ---------------------------------------------------------------------

# Sets FOUND_<package>, and LINK_<package> to what a test links.  libev comes without a .pc file.
function(tcdist_find_optional package)
    string(MAKE_C_IDENTIFIER ${package} id)
    if(package STREQUAL "libev")
        find_library(LIBEV_LIBRARY ev)
        find_path(LIBEV_INCLUDE_DIR ev.h)
        if(LIBEV_LIBRARY AND LIBEV_INCLUDE_DIR)
            set(link ${LIBEV_LIBRARY})
        endif()
    elseif(package STREQUAL "libibverbs")
        if(TCDIST_RDMA)
            set(link ${IBVERBS_LIBRARIES})
        endif()
    else()
        pkg_check_modules(OPTIONAL_${id} QUIET IMPORTED_TARGET GLOBAL ${package})
        if(OPTIONAL_${id}_FOUND)
            set(link PkgConfig::OPTIONAL_${id})
        endif()
    endif()
    set(LINK_${package} "${link}" PARENT_SCOPE)
endfunction()

# ---- One test ---------------------------------------------------------------------------------

# What the comment says of when it runs: TIMEOUT, and how it shares the machine.
function(tcdist_set_schedule name timeout words)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} SKIP_RETURN_CODE 77)
    if(words MATCHES "[ ,]serial")
        set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
    endif()
    if(words MATCHES "[ ,]waits")
        get_property(waiting GLOBAL PROPERTY tcdist_waiting)
        math(EXPR waiting "(0${waiting} + 1) % 3")
        set_property(GLOBAL PROPERTY tcdist_waiting ${waiting})
        set_tests_properties(${name} PROPERTIES PROCESSORS 1 RESOURCE_LOCK waits_${waiting})
    endif()
    if(words MATCHES "[ ,]long")
        set_tests_properties(${name} PROPERTIES COST 100)
    endif()
endfunction()

# What was optimized when it was linked: the other programs have the static library, which was not.
# Small cases: what differs is the machine code alone.
function(tcdist_add_shared_test name source timeout words)
    add_executable(${name}_shared ${source} $<TARGET_OBJECTS:test_filter>)
    target_include_directories(${name}_shared PRIVATE include src tests)
    target_link_libraries(${name}_shared PRIVATE
        $<TARGET_FILE:test_support_objects> tcdist PkgConfig::CMOCKA m)
    add_dependencies(${name}_shared test_support_objects)
    set_target_properties(${name}_shared PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name}_shared COMMAND
        ${run_test} env TCDIST_TEST_EFFORT=quick $<TARGET_FILE:${name}_shared>)
    tcdist_set_schedule(${name}_shared ${timeout} "${words}")
endfunction()

function(tcdist_add_test source)
    cmake_path(GET source STEM name)
    set(timeout 300)
    set(needs "")

    file(STRINGS ${source} lines LIMIT_COUNT 12)
    list(FILTER lines INCLUDE REGEX "^/\\* test: .* \\*/$")
    if(lines MATCHES "timeout ([0-9]+)")
        set(timeout ${CMAKE_MATCH_1})
    endif()
    if(lines MATCHES "needs ([^,*]+[^,* ])")
        string(REPLACE " " ";" needs "${CMAKE_MATCH_1}")
    endif()

    set(missing "")
    set(libraries "")
    foreach(package IN LISTS needs)
        tcdist_find_optional(${package})
        if(LINK_${package})
            list(APPEND libraries ${LINK_${package}})
        else()
            list(APPEND missing ${package})
        endif()
    endforeach()

    if(missing)
        add_test(NAME ${name} COMMAND sh -c "echo 'skipped: no ${missing} here'; exit 77")
    else()
        add_executable(${name} ${source} $<TARGET_OBJECTS:test_filter>)
        target_link_libraries(${name} PRIVATE test_support ${libraries})
        set_target_properties(${name} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        add_test(NAME ${name} COMMAND ${run_test} $<TARGET_FILE:${name}>)
    endif()
    tcdist_set_schedule(${name} ${timeout} "${lines}")
    if(lines MATCHES "single")
        set_tests_properties(${name} PROPERTIES LABELS single)
    endif()
    if(lines MATCHES "single" AND TARGET ${name} AND TCDIST_SANITIZE STREQUAL "thread")
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE) # by name, if one wants it
    endif()
    if(lines MATCHES "also tcp" AND TARGET ${name})
        add_test(NAME ${name}_tcp
            COMMAND ${run_test} env TCDIST_SHM=0 $<TARGET_FILE:${name}>)
        tcdist_set_schedule(${name}_tcp ${timeout} "${lines}")
    endif()
    if(lines MATCHES "also shared" AND TARGET ${name} AND TCDIST_LTO)
        tcdist_add_shared_test(${name} ${source} ${timeout} "${lines}")
    endif()
    # The thread sanitizer, which is slow, looks at groups and at collectives alone.
    if(lines MATCHES "also rdma" AND TCDIST_RDMA AND TARGET ${name} AND
       (NOT TCDIST_SANITIZE STREQUAL "thread" OR name STREQUAL "test_dist"))
        target_sources(${name} PRIVATE $<TARGET_OBJECTS:fake_preload>)
        add_test(NAME ${name}_rdma COMMAND ${run_test} env TCDIST_SHM=0 TCDIST_RDMA=1
            TCDIST_TEST_VERBS=fake $<TARGET_FILE:${name}>)
        tcdist_set_schedule(${name}_rdma ${timeout} "${lines}")
    endif()
endfunction()

file(GLOB test_sources CONFIGURE_DEPENDS tests/test_*.c)
foreach(source IN LISTS test_sources)
    tcdist_add_test(${source})
endforeach()

# Code of the tools that is tried without one.
foreach(name test_facts test_hosts test_processors)
    target_link_libraries(${name} PRIVATE tools_shared)
endforeach()

file(GLOB tcdump_sources CONFIGURE_DEPENDS tools/tcdump/find*.c)
foreach(name test_tcdump_find test_tcdump_slow)
    target_sources(${name} PRIVATE ${tcdump_sources} tools/tcdump/clocks.c tools/tcdump/job.c
        tools/tcdump/report.c tools/tcdump/report_flight.c tools/tcdump/text.c)
    target_include_directories(${name} PRIVATE tools/tcdump)
    target_link_libraries(${name} PRIVATE tools_shared)
endforeach()

# The rendezvous over the simulator's sockets, watches and clock (tests/support/tcp_sim.h).
foreach(call recv send shutdown close tci_sock_listen tci_sock_connect tci_sock_connect_result
        tci_sock_accept tci_sock_tune tci_sock_local tci_watch_add tci_watch_change tci_watch_del
        tci_loop_exec)
    target_link_options(test_sim_start PRIVATE -Wl,--wrap=${call})
endforeach()

# Hosts in networks of their own, as chaos has them.
foreach(name test_tcrun_ssh test_tcdoctor test_tcconfig)
    target_sources(${name} PRIVATE tests/chaos/lab.c tests/chaos/wan.c)
endforeach()

# The same over sealed links: small cases, since what differs lies below the frames.
function(tcdist_add_sealed name filter)
    add_test(NAME ${name}_sealed COMMAND ${run_test} env TCDIST_KEY=0123456789abcdef
        TCDIST_ENCRYPTION=on TCDIST_TEST_EFFORT=quick CMOCKA_TEST_FILTER=${filter}
        $<TARGET_FILE:${name}>)
    set_tests_properties(${name}_sealed PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endfunction()
tcdist_add_sealed(test_dist *)
tcdist_add_sealed(test_split *)
tcdist_add_sealed(test_collectives *3_ranks*)
tcdist_add_sealed(test_heal *collective*)

# The collectives over fake RDMA devices, in one size of group; sealed, too.
if(TCDIST_RDMA)
    target_sources(test_collectives PRIVATE $<TARGET_OBJECTS:fake_preload>)
    add_test(NAME test_collectives_rdma COMMAND ${run_test} env TCDIST_SHM=0 TCDIST_RDMA=1
        TCDIST_TEST_VERBS=fake TCDIST_TEST_EFFORT=quick CMOCKA_TEST_FILTER=*3_ranks*
        $<TARGET_FILE:test_collectives>)
    add_test(NAME test_collectives_rdma_sealed COMMAND ${run_test} env TCDIST_SHM=0 TCDIST_RDMA=1
        TCDIST_TEST_VERBS=fake TCDIST_KEY=0123456789abcdef TCDIST_ENCRYPTION=on
        TCDIST_TEST_EFFORT=quick CMOCKA_TEST_FILTER=*3_ranks* $<TARGET_FILE:test_collectives>)
    set_tests_properties(test_collectives_rdma test_collectives_rdma_sealed PROPERTIES
        TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# ---- Programs in the manner of tensorcore -----------------------------------------------------
#
# Every tests/compat/*.c is a program of its own.  It sees the public headers alone, through the
# include path that a program written for tensorcore is given, and the shared library.

file(GLOB compat_sources CONFIGURE_DEPENDS tests/compat/*.c)
foreach(source IN LISTS compat_sources)
    cmake_path(GET source STEM stem)
    set(name compat_${stem})
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE include/tcdist/compat)
    target_link_libraries(${name} PRIVATE tcdist ${CMAKE_THREAD_LIBS_INIT} m)
    set_target_properties(${name} PROPERTIES
        OUTPUT_NAME ${stem} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/compat)
    add_test(NAME ${name} COMMAND ${run_test} $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
endforeach()

# ---- Fuzz targets: by libFuzzer where the compiler has it, else damaged seeds --------------------

include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
check_c_source_compiles("
    #include <stddef.h>
    #include <stdint.h>
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return data == NULL && size; }"
    TCDIST_HAS_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)

# What is tried is compiled with the target, so that the fuzzer sees which way the bytes go; under
# TCDIST_FUZZ the whole library is.  `runs` is a few seconds with a sanitizer.
function(tcdist_add_fuzz name runs)
    set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set(new ${CMAKE_BINARY_DIR}/corpus/${name}) # libFuzzer writes to the first one
    file(MAKE_DIRECTORY ${new})
    set(sources tests/fuzz/${name}.c tests/fuzz/seeds.c)
    if(TCDIST_HAS_LIBFUZZER)
        add_executable(${name} ${sources} ${ARGN})
        target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    else()
        add_executable(${name} ${sources} tests/fuzz/plain.c)
    endif()
    target_include_directories(${name} PRIVATE include src tests ${CJSON_INCLUDE_DIRS})
    target_link_libraries(${name} PRIVATE tcdist_static)
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND
        ${run_test} $<TARGET_FILE:${name}>
        -runs=${runs} -seed=1 -max_len=8192 -error_exitcode=1 ${new} ${corpus})
    set_tests_properties(${name} PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
endfunction()

tcdist_add_fuzz(fuzz_frame 200000 src/net/frame.c)
tcdist_add_fuzz(fuzz_boot 200000 src/net/boot_wire.c)
tcdist_add_fuzz(fuzz_trace 50000 src/core/trace_read.c)
tcdist_add_fuzz(fuzz_auth 10000 src/net/auth.c) # each a key exchange or two
tcdist_add_fuzz(fuzz_url 50000 src/net/addr.c src/net/row.c src/context/layout.c)
tcdist_add_fuzz(fuzz_config 20000
                src/context/config.c src/context/environment.c src/context/layout.c)
if(CJSON_FOUND)
    tcdist_add_fuzz(fuzz_table 1500 src/context/table.c)
    tcdist_add_fuzz(fuzz_jaccl 20000 src/launch/jaccl.c)
endif()
if(TARGET tools_shared)
    file(GLOB hosts_sources CONFIGURE_DEPENDS tools/shared/hosts*.c)
    tcdist_add_fuzz(fuzz_hosts 10000 ${hosts_sources})
    target_link_libraries(fuzz_hosts PRIVATE tools_shared)
endif()
tcdist_add_fuzz(fuzz_launch 20000
    src/launch/nodelist.c src/launch/hostfile.c src/launch/slurm_conf.c
    src/meet/card.c src/meet/etcd_text.c src/meet/pmi_line.c src/meet/store.c)
tcdist_add_fuzz(fuzz_payload 5000 src/algo/narrow.c src/algo/sparse.c src/algo/topk.c)
file(GLOB link_sources CONFIGURE_DEPENDS src/net/tcp*.c src/net/frame.c src/core/comm.c
     src/core/diagnose.c src/core/mismatch.c src/core/match.c)
tcdist_add_fuzz(fuzz_link 1000 ${link_sources})
target_sources(fuzz_link PRIVATE tests/fuzz/link_scene.c tests/fuzz/still_time.c)

# ---- Chaos: real processes in networks of their own ---------------------------------------------

file(GLOB chaos_sources CONFIGURE_DEPENDS tests/chaos/*.c)
add_executable(chaos ${chaos_sources})
target_include_directories(chaos PRIVATE include src tests)
target_link_libraries(chaos PRIVATE tcdist_static)
set_target_properties(chaos PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME chaos COMMAND ${run_test} $<TARGET_FILE:chaos> --sample)
set_tests_properties(chaos PROPERTIES TIMEOUT 300 RUN_SERIAL ON SKIP_RETURN_CODE 77)

# ---- Launchers: groups that real ones start, and places where they meet -------------------------

add_executable(crowd tests/launchers/crowd.c)
target_include_directories(crowd PRIVATE include)
target_link_libraries(crowd PRIVATE tcdist_static)
set_target_properties(crowd PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
if(TCDIST_TOOLS AND TCDIST_EXAMPLES AND NOT TCDIST_SANITIZE)
    add_test(NAME launchers COMMAND
        ${run_test} ${PROJECT_SOURCE_DIR}/tests/launchers/check_launchers.sh ${PROJECT_BINARY_DIR})
    add_test(NAME clusters COMMAND
        ${run_test} ${PROJECT_SOURCE_DIR}/tests/launchers/check_clusters.sh ${PROJECT_BINARY_DIR})
    set_tests_properties(launchers clusters PROPERTIES
        TIMEOUT 600 LABELS house SKIP_RETURN_CODE 77)
endif()

# ---- The house: the tree, the headers, the symbols, the installation ---------------------------

function(tcdist_add_house_test name)
    add_test(NAME ${name} COMMAND ${run_test} ${ARGN})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS house SKIP_RETURN_CODE 77)
endfunction()

file(GLOB tidy_sources CONFIGURE_DEPENDS tests/tidy/*.c)
add_executable(tidy tests/tidy.c ${tidy_sources})
target_include_directories(tidy PRIVATE tests)
target_link_libraries(tidy PRIVATE PkgConfig::CMOCKA)
set_target_properties(tidy PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
tcdist_add_house_test(tidy $<TARGET_FILE:tidy> ${PROJECT_SOURCE_DIR})

set(house ${PROJECT_SOURCE_DIR}/tests)
tcdist_add_house_test(headers ${house}/check_headers.sh ${PROJECT_SOURCE_DIR})
tcdist_add_house_test(filter_of_plans
    ${house}/check_filter.sh $<TARGET_FILE:test_plans> 1 *by_name_and_by_id)
tcdist_add_house_test(filter_of_mutants
    ${house}/check_filter.sh $<TARGET_FILE:test_plan_mutants> 2 a_plan_that_*)
if(NOT TCDIST_SANITIZE)
    tcdist_add_house_test(two_hosts
        ${PROJECT_SOURCE_DIR}/bench/two_hosts.sh ${PROJECT_BINARY_DIR} 200mbit fast 1K)
    set_tests_properties(two_hosts PROPERTIES RUN_SERIAL ON)
endif()
tcdist_add_house_test(docs_facts ${house}/check_docs_facts.sh ${PROJECT_SOURCE_DIR})
tcdist_add_house_test(docs_site ${house}/check_site.sh ${PROJECT_SOURCE_DIR})
if(NOT TCDIST_SANITIZE)
    tcdist_add_house_test(docs_code
        ${house}/check_docs.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
endif()
tcdist_add_house_test(completion
    ${house}/check_completion.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
tcdist_add_house_test(dev ${house}/check_dev.sh ${PROJECT_SOURCE_DIR})
tcdist_add_house_test(needs ${house}/check_needs.sh ${PROJECT_SOURCE_DIR})
tcdist_add_house_test(scripts ${house}/check_scripts.sh ${PROJECT_SOURCE_DIR})
if(NOT TCDIST_SANITIZE)
    tcdist_add_house_test(exports
        ${house}/check_exports.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:tcdist>)
    if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CMAKE_C_FLAGS MATCHES "-m")
        tcdist_add_house_test(machine_code
            ${house}/check_machine_code.sh $<TARGET_FILE:tcdist> $<TARGET_FILE:tcdist_static>)
    endif()
    tcdist_add_house_test(ffi
        /usr/bin/python3 ${house}/check_ffi.py $<TARGET_FILE:tcdist>)
    tcdist_add_house_test(package
        ${house}/install/check_package.sh ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
    tcdist_add_house_test(systemd ${house}/systemd/check_units.sh ${PROJECT_BINARY_DIR})
    set(manifest ${PROJECT_SOURCE_DIR}/examples/kubernetes/job.yaml)
    tcdist_add_house_test(kubernetes_manifest
        /usr/bin/python3 ${house}/kubernetes/check_manifest.py ${manifest})
    tcdist_add_house_test(kubernetes_schema
        /usr/bin/python3 ${house}/kubernetes/check_schema.py ${manifest}
        ${PROJECT_SOURCE_DIR}/build/node)
    tcdist_add_house_test(kubernetes_pods /usr/bin/python3 ${house}/kubernetes/check_pods.py
        ${manifest} ${PROJECT_BINARY_DIR}/examples)
    tcdist_add_house_test(install
        ${house}/install/check_install.sh ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
endif()

if(NOT TCDIST_SANITIZE AND NOT TCDIST_POSIX_ONLY AND TCDIST_EXAMPLES AND
   CMAKE_C_COMPILER_ID STREQUAL "GNU")
    tcdist_add_house_test(posix ${house}/check_posix.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
        ${CMAKE_C_COMPILER} ${CMAKE_C_COMPILER_LAUNCHER})
    set_tests_properties(posix PROPERTIES TIMEOUT 600 PROCESSORS 8 COST 200)
endif()

include(cmake/rdma_vm.cmake)

# ---- How many run at a time ---------------------------------------------------------------------
#
# For two processors: `ctest -j 15`, of which a test takes 4 and one that waits takes 1: three that
# compute, and beside them three that wait, which share three locks so that they never take the
# places of the others.

get_property(names DIRECTORY PROPERTY TESTS)
foreach(name IN LISTS names)
    get_test_property(${name} PROCESSORS weight)
    if(NOT weight)
        set_tests_properties(${name} PROPERTIES PROCESSORS 4)
    endif()
endforeach()
