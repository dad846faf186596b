#!/bin/sh
# guest_root.sh - the guest's first process, in its root: devices, the command, its end.
# SPDX-License-Identifier: Apache-2.0

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
# shellcheck disable=SC1091
. /run/conf
hosts=${hosts:-2} mtu=${mtu:-4200} share=${share:-} timeout=${timeout:-120} cwd=${cwd:-/}

# Ends the machine (a triple fault; QEMU is told not to start it again).  What was written to a port
# has reached the other side by then.
stop()
{
    sync
    exec busybox reboot -f
}

# Says on the control port that the guest failed, and why.
fail()
{
    echo "rdma_vm guest: $*"
    echo "fail $*" >&4
    stop
}

# The names of the ports are there a moment after the module.
for port in out err ctl; do
    tries=100
    until at=$(grep -lx "rdma_vm.$port" /sys/class/virtio-ports/*/name 2>/dev/null); do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "rdma_vm guest: no port $port" && stop; }
        sleep 0.02
    done
    at=${at%/name}
    ln -s "${at##*/}" "/dev/rdma_vm.$port"
done
exec 4>/dev/rdma_vm.ctl

mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmp /dev/shm
mount -t devpts pts /dev/pts
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
hostname rdma-vm

# ---- Hosts: a device each, on cables into one switch --------------------------------------------
#
# Addresses of one machine reach each other inside it.  Here the table that says so comes after a
# rule for what is sent from one of the hosts' addresses to another ("iif lo" is what is sent), and
# that one names the cable.  What arrives comes from an address of this machine: accept_local.

echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
{
    echo link set lo up
    echo link add switch type bridge mcast_snooping 0
    echo link set switch up arp off addrgenmode none # else it answers for all addresses
    echo rule add pref 30 lookup local
    h=0
    while [ "$h" -lt "$hosts" ]; do
        own=10.77.0.$((h + 1))
        echo link add "eth$h" mtu "$mtu" type veth peer name "port$h" mtu "$mtu"
        echo link set "port$h" master switch up addrgenmode none
        echo address add "$own/24" dev "eth$h"
        echo link set "eth$h" up
        echo rule add pref 10 iif lo from "$own" to "$own" lookup local
        echo rule add pref 20 iif lo from "$own" to 10.77.0.0/24 lookup "$((100 + h))"
        echo route add 10.77.0.0/24 dev "eth$h" src "$own" table "$((100 + h))"
        h=$((h + 1))
    done
    echo rule del pref 0
} >/run/network
ip -batch /run/network || fail 'the network cannot be set up'
for conf in /proc/sys/net/ipv4/conf/eth*; do
    echo 1 >"$conf/accept_local"
    echo 0 >"$conf/rp_filter"
    echo 1 >"$conf/arp_ignore"
    echo 2 >"$conf/arp_announce"
done
h=0
while [ "$h" -lt "$hosts" ]; do
    rdma link add "rxe$h" type rxe netdev "eth$h" || fail "rxe$h cannot be made"
    h=$((h + 1))
done

if [ -n "$share" ]; then
    mkdir -p "$share"
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 share "$share" ||
        fail "$share cannot be mounted"
fi
cd "$cwd" || fail "no folder $cwd"

# ---- The command --------------------------------------------------------------------------------

mkfifo /run/out /run/err
cat /run/out >/dev/rdma_vm.out &
out=$!
cat /run/err >/dev/rdma_vm.err &
err=$!

echo start >&4
echo "rdma_vm guest: the command starts at $(cut -d ' ' -f 1 /proc/uptime) s"
setsid sh /run/command </dev/null >/run/out 2>/run/err 4>&- &
command=$!

# When its time is up: say on the console where each process stands, then end it.
(
    sleep "$timeout"
    : >/run/late
    echo 'rdma_vm guest: time is up; processes:'
    for process in /proc/[0-9]*; do
        words=$(tr '\0' ' ' <"$process/cmdline")
        [ -n "$words" ] || continue # the kernel's
        for task in "$process"/task/*; do
            echo "${task##*/} $words: $(head -n 3 "$task/stack" | tr '\n' ' ')"
        done
    done 2>/dev/null
    kill -TERM "-$command"
    sleep 1
    kill -KILL "-$command"
) 4>&- &
watch=$!

wait "$command"
status=$?
echo "rdma_vm guest: the command ended with $status at $(cut -d ' ' -f 1 /proc/uptime) s"
kill "$watch" 2>/dev/null

# The rest of its output; a process that it left may hold a pipe open.
tries=50
while kill -0 "$out" 2>/dev/null || kill -0 "$err" 2>/dev/null; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || break
    sleep 0.02
done
[ -z "$share" ] || umount "$share"
if [ -e /run/late ]; then echo timeout >&4; else echo "exit $status" >&4; fi
stop
