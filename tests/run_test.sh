#!/bin/sh
# run_test.sh - runs one test program in an environment that the caller's settings do not reach.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run_test.sh PROGRAM [ARGUMENT...]
#
# Removes what the library, a launcher or an MPI would read; TCDIST_TEST_* is meant for the tests
# and stays.

for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case $name in
    TCDIST_TEST_*) ;;
    TCDIST_* | OMPI_* | PMIX_* | PMI_* | MPI* | I_MPI_* | HYDRA_* | SLURM_* | MLX_* | JACCL_* | \
        TORCHELASTIC_* | NCCL_* | TC_GLOO_* | TC_MESH_* | NUVEC_*)
        unset "$name"
        ;;
    RANK | WORLD_SIZE | LOCAL_RANK | LOCAL_WORLD_SIZE | MASTER_ADDR | MASTER_PORT)
        unset "$name"
        ;;
    esac
done

export LC_ALL=C
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"

leaks=suppressions=$(dirname "$0")/lsan.supp:print_suppressions=0
export LSAN_OPTIONS="$leaks${LSAN_OPTIONS:+:$LSAN_OPTIONS}"

exec "$@"
