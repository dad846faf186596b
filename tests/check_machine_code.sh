#!/bin/sh
# check_machine_code.sh - what optimizing at link time must not do to the libraries.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_machine_code.sh SHARED_LIBRARY STATIC_LIBRARY
#
#   static library   machine code alone: any compiler of the system can link it, and soon
#   shared library   wide registers, which not every processor has, in kernels alone, that are
#                    called where they are there; and no fused multiply-add anywhere

export LC_ALL=C
failed=0

if objdump -h "$2" | grep -E '\.gnu\.(debug)?lto_' | head -n 3 | grep .; then
    echo "$2 has what a compiler keeps for optimizing at link time"
    failed=1
fi

case $(objdump -f "$1") in
*x86-64*) ;;
*) exit "$failed" ;;
esac

objdump -d --no-show-raw-insn "$1" | awk '
    /^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3); next }
    /%[yz]mm/ {
        # Copies of a function are named after it, with a dot.
        split(name, part, ".")
        if (part[1] ~ /_(loop|way|wide|codes)$|^largest$/)
            kernels[part[1]] = 1
        else
            others[name] = 1
    }
    /[ \t]vfn?m(add|sub)/ { fused[name] = 1 }
    END {
        for (name in kernels)
            count++
        if (count < 50) {
            print "only " count + 0 " kernels with wide registers are found"
            failed = 1
        }
        for (name in others) {
            print "wide registers outside of a kernel: " name
            failed = 1
        }
        for (name in fused) {
            print "a fused multiply-add, which rounds once: " name
            failed = 1
        }
        exit failed
    }' || failed=1
exit "$failed"
