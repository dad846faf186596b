#!/bin/bash
# check_package.sh - makes the Debian packages, and uses them in a root of their own.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_package.sh BUILD_DIR C_COMPILER
#
# The root is this system seen through an overlay whose changes stay in memory: a clean one as far
# as tcdist goes, with the compiler that is here.  Nothing of it is left.  It needs root and
# overlayfs.

set -u
build_dir=$(cd "$1" && pwd)
compiler=$2
here=$(cd "$(dirname "$0")" && pwd)

if [[ ${3:-} == inside ]]; then
    # In a mount namespace of its own.
    work=$4
    over=$work/over root=$work/over/root
    mount -t tmpfs tmpfs "$over" && mkdir "$over/up" "$over/work" "$root" &&
        mount -t overlay overlay "$root" \
            -o "lowerdir=/,upperdir=$over/up,workdir=$over/work" || exit 77
    mount --bind /proc "$root/proc" && mount --bind /dev "$root/dev" &&
        mount -t tmpfs tmpfs "$root/tmp" && mkdir "$root/tmp/use" || exit 77
    cp "$work"/debs/*.deb "$here/consumer.c" "$here/CMakeLists.txt" "$root/tmp/use/" || exit 1
    # Folders that a system may leave out of packages are looked at here.
    rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
    exec chroot "$root" /bin/bash -eu -c "$(cat "$here/use_package.sh")" use_package "$compiler"
fi

skip() {
    echo "skipped: $1"
    exit 77
}
[[ $(id -u) -eq 0 ]] || skip "it needs root, for a root of its own"
command -v dpkg-shlibdeps file >/dev/null || skip "no dpkg-dev or no file here"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/over"

(cd "$build_dir" && cpack -B "$work/debs") >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
unshare -m "$0" "$build_dir" "$compiler" inside "$work" </dev/null >"$work/log" 2>&1
status=$?
[[ $status -ne 77 ]] || skip "this system mounts no overlay"
cat "$work/log"
exit "$status"
