#!/bin/bash
# check_units.sh - the units of systemd start a job, end it, and show that it has failed.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_units.sh BUILD_DIR
#
# A systemd of its own is process 1 of namespaces.  Its root is this system seen through an overlay
# whose changes stay in memory; devices, /run and /tmp are its own, /sys and /proc/sys cannot be
# written to, and the units in its folder are all that it knows.  Needs root, overlayfs, cgroup2.
# shellcheck disable=SC2317
set -u
here=$(cd "$(dirname "$0")" && pwd)
build_dir=$(cd "$1" && pwd)
units=$here/../../examples/systemd
data=$here/../../examples/digits/digits.csv.gz

# Without another root than the machine's own, systemd would set up the machine.
must() { "$@" || { echo "skipped: not possible here: $*"; exit 77; }; }

# As process 1 of the new namespaces.
enter_root()
{
    local over=$1 root=$1/root device
    must mount --make-rprivate /
    must mount -t tmpfs tmpfs "$over"
    must mkdir "$over/up" "$over/work" "$root"
    must mount -t overlay overlay "$root" \
        -o "lowerdir=/,upperdir=$over/up,workdir=$over/work"
    for device in dev run tmp; do
        must mount -t tmpfs -o mode=755 tmpfs "$root/$device"
    done
    must chmod 1777 "$root/tmp"
    must mkdir "$root/dev/shm" "$root/tmp/old"
    must chmod 1777 "$root/dev/shm"
    for device in null zero full random urandom; do
        must touch "$root/dev/$device"
        must mount --bind "/dev/$device" "$root/dev/$device"
    done
    must mount -t proc proc "$root/proc"
    must mount --bind "$root/proc/sys" "$root/proc/sys"
    must mount -o remount,bind,ro "$root/proc/sys"
    must mount -t sysfs -o ro sysfs "$root/sys"
    must mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"

    must mkdir -p "$root/opt/job" "$root/etc/tcdist" "$root/tmp/units/tcdist-rank@.service.d"
    must cp "$build_dir/examples/digits" "$data" "$root/opt/job/"
    must cp "$here"/{basic,sysinit,shutdown,network-online,multi-user}.target \
        "$units"/tcdist-* "$root/tmp/units/"
    must cp "$here/test.conf" "$root/tmp/units/tcdist-rank@.service.d/"
    must cp "$here/use_units.sh" "$root/tmp/"
    must cd "$root"
    must pivot_root . tmp/old
    must umount -l /tmp/old
    must cd /
    must test "$(stat -f -c %T / /dev /run /tmp | tr '\n' ' ')" = "overlayfs tmpfs tmpfs tmpfs "
    must test ! -w /proc/sys/kernel/domainname
}

spaces() { readlink /proc/self/ns/{mnt,net,uts,ipc,cgroup}; }

# Whoever calls this by hand, as root, would set up the machine.
must_be_apart()
{
    local space
    must test "$$" -eq 1
    must test "$(wc -w <<<"$1")" -eq 5
    for space in $(spaces); do
        [[ $1 != *"$space"* ]] || must false "$space is the machine's own"
    done
}

if [[ ${2:-} == inside ]]; then
    must_be_apart "${4:-}"
    enter_root "$3"
    echo "inside"
    bash /tmp/use_units.sh &
    export container=tcdist-test SYSTEMD_UNIT_PATH=/tmp/units SYSTEMD_GENERATOR_PATH=/tmp/none
    exec setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio,-sys_boot,-mknod \
        /lib/systemd/systemd --unit=basic.target --log-target=null --show-status=0
fi

[[ $(id -u) -eq 0 ]] || must false "without root"
for tool in unshare pivot_root setpriv systemctl findmnt /lib/systemd/systemd; do
    must command -v "$tool" >/dev/null
done
groups=$(findmnt -n -o TARGET -t cgroup2 | head -n 1)
[[ -n $groups ]] || must test -n "$groups"
must unshare --mount --pid --fork --net --uts --ipc --cgroup -- true
work=$(mktemp -d) || exit 1
group=$groups$(sed -n 's/^0:://p' /proc/self/cgroup)/tcdist-test-$$
leave()
{
    [[ -z ${systemd:-} ]] || kill -KILL "$systemd" 2>/dev/null
    wait "${systemd:-}" 2>/dev/null
    sleep 0.2
    find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
    rm -rf --one-file-system "$work"
}
trap leave EXIT

must mkdir "$group"
mkfifo "$work/said"
mkdir "$work/over"
(
    echo "$BASHPID" >"$group/cgroup.procs" || must false "to enter $group"
    exec setpriv --pdeathsig KILL \
        unshare --mount --pid --fork --kill-child --net --uts --ipc --cgroup -- \
        "$0" "$build_dir" inside "$work/over" "$(spaces)"
) >"$work/said" 2>&1 </dev/null &
systemd=$!
status=1
while IFS= read -r line; do
    case $line in
    inside) ;;
    "end "*) status=${line#end } && break ;;
    *) echo "$line" ;;
    esac
    [[ $line != skipped:* ]] || { status=77 && break; }
done <"$work/said"
exit "$status"
