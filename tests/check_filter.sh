#!/bin/sh
# check_filter.sh - CMOCKA_TEST_FILTER runs the cases that it names, and no other.
# SPDX-License-Identifier: Apache-2.0
#
# usage: check_filter.sh TEST_PROGRAM CASES PATTERN
set -eu
program=$1 cases=$2 pattern=$3

said=$(CMOCKA_TEST_FILTER=$pattern TCDIST_TEST_EFFORT=quick "$program" 2>&1) || {
    echo "$said"
    exit 1
}
echo "$said" | grep -q "^\[=*\] $cases test(s) run" || {
    echo "$program ran other cases than the $cases that '$pattern' names:"
    echo "$said"
    exit 1
}
