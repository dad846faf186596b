#!/usr/bin/env python3
# check_ffi.py - another language calls the shared library by its plain C interface alone.
# SPDX-License-Identifier: Apache-2.0
"""Usage: check_ffi.py LIBRARY

A group of one, as bindings use it on one machine: no header, no compiler, no C++."""

import ctypes
import os
import subprocess
import sys

OK, SUM, F32, SINGLE = 0, 0, 2, 0


def call(status, what):
    if status != OK:
        sys.exit(f"{what} gives {status}")


def buffer_of(library, context, values):
    """A buffer of f32, and where it lies."""
    buffer, data = ctypes.c_void_p(), ctypes.c_void_p()
    call(library.tc_buffer_alloc(context, ctypes.c_size_t(4 * len(values)), ctypes.byref(buffer)),
         "tc_buffer_alloc")
    call(library.tc_buffer_map(buffer, ctypes.byref(data)), "tc_buffer_map")
    array = ctypes.cast(data, ctypes.POINTER(ctypes.c_float * len(values))).contents
    array[:] = values
    return buffer, array


def main():
    library = ctypes.CDLL(sys.argv[1])
    context, group = ctypes.c_void_p(), ctypes.c_void_p()
    call(library.tc_init(ctypes.byref(context)), "tc_init")
    call(library.tc_dist_init(context, SINGLE, 1, 0, b"single://of/no/concern",
                              ctypes.byref(group)), "tc_dist_init")
    if (library.tc_dist_world_size(group), library.tc_dist_rank(group)) != (1, 0):
        sys.exit("not rank 0 of 1")

    source, values = buffer_of(library, context, [1.5, -2.0, 0.25])
    target, copies = buffer_of(library, context, [0.0, 0.0, 0.0, 7.0])
    three = ctypes.c_size_t(3)
    call(library.tc_allreduce(group, source, three, F32, SUM), "tc_allreduce")
    call(library.tc_broadcast(group, source, three, F32, 0), "tc_broadcast")
    call(library.tc_allgather(group, source, target, three, F32), "tc_allgather")
    call(library.tc_barrier(group), "tc_barrier")
    if list(values) != [1.5, -2.0, 0.25] or list(copies) != [1.5, -2.0, 0.25, 7.0]:
        sys.exit(f"{list(values)} and {list(copies)} are not what went in")

    call(library.tc_buffer_free(context, source), "tc_buffer_free")
    call(library.tc_buffer_free(context, target), "tc_buffer_free")
    call(library.tc_dist_finalize(group), "tc_dist_finalize")
    call(library.tc_shutdown(context), "tc_shutdown")

    needed = subprocess.run(["readelf", "-d", sys.argv[1]], stdout=subprocess.PIPE, check=True,
                            env={**os.environ, "LC_ALL": "C"}).stdout.decode()
    if "libstdc++" in needed or "libc++" in needed:
        sys.exit("the library needs that of C++")
    print("a group of one lives without a header, and without C++")


if __name__ == "__main__":
    main()
