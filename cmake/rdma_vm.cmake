# rdma_vm.cmake - tests on an emulated machine that has RDMA devices.
# SPDX-License-Identifier: Apache-2.0
#
# One boot for all of them, and of one preset alone: it takes a minute or two.  tests/rdma_vm has
# the machine, and tests/rdma_vm/suite.sh what is tried in it.

pkg_check_modules(RDMA_VM_VERBS QUIET IMPORTED_TARGET libibverbs)

if(NOT RDMA_VM_VERBS_FOUND)
    add_test(NAME rdma_vm COMMAND sh -c "echo 'skipped: no libibverbs here'; exit 77")
    set_tests_properties(rdma_vm PROPERTIES LABELS house SKIP_RETURN_CODE 77)
elseif(NOT TCDIST_SANITIZE)
    add_executable(rdma_smoke tests/rdma_vm/smoke.c)
    target_link_libraries(rdma_smoke PRIVATE PkgConfig::RDMA_VM_VERBS)
    set_target_properties(rdma_smoke PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_executable(rdma_latency tests/rdma_vm/latency.c)
    target_include_directories(rdma_latency PRIVATE include)
    target_link_libraries(rdma_latency PRIVATE tcdist) # as programs have it, linked as one unit
    set_target_properties(rdma_latency PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set(machine ${PROJECT_SOURCE_DIR}/tests/rdma_vm)
    tcdist_add_house_test(rdma_vm ${machine}/rdma_vm.sh --hosts 4 --timeout 400 --verbose
        -- ${machine}/suite.sh ${PROJECT_BINARY_DIR})
    # It keeps both processors busy for longer than any other test: first, beside what sleeps.
    set_tests_properties(rdma_vm PROPERTIES TIMEOUT 800 PROCESSORS 12 COST 1000)
endif()
