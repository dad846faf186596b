#!/bin/sh
# guest_init.sh - the guest's first process: modules, and the root that is this machine's.
# SPDX-License-Identifier: Apache-2.0
#
# Runs with busybox alone, in the guest's first files; guest_root.sh goes on in the new root.

PATH=/bin
for applet in mount mkdir cat sed insmod reboot switch_root ln grep usleep cp; do
    busybox ln -s busybox /bin/$applet
done
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys

while read -r module; do
    insmod "/modules/$module" || echo "rdma_vm guest: $module cannot be loaded"
done </modules/order

# What is there stays as it is; what is written lies above it, in memory.
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro root /host ||
    echo "rdma_vm guest: no files from outside"
mount -t tmpfs -o size=75% memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /new ||
    echo "rdma_vm guest: no overlay"
mount -o move /dev /new/dev
mount -o move /proc /new/proc
mount -o move /sys /new/sys
mount -t tmpfs run /new/run
cp /run/conf /run/command /run/guest_root.sh /new/run/
[ -x /new/bin/sh ] || {
    echo "rdma_vm guest: this machine's files cannot be used"
    reboot -f
}
exec switch_root /new /bin/sh /run/guest_root.sh
