#!/usr/bin/env bash
# rdma_vm.sh - runs a command on an emulated machine that has RDMA devices.
# SPDX-License-Identifier: Apache-2.0
#
# Boots Debian's kernel in QEMU (emulation alone: neither KVM nor RDMA hardware is needed), makes
# software RDMA devices (Soft-RoCE, rdma_rxe) in it, runs one command there as root, prints what it
# prints and exits with its exit status.  usage() has the options.
#
#   kernel   Unpacked once into a cache folder, from Debian's package: downloaded, not installed.
#   files    The guest sees all files of this machine at the same paths, by 9p, and libraries and
#            tools with them.  What it writes stays in its memory (an overlay), and is gone with it;
#            but for a folder given by --share.
#   output   Standard output, standard error and the exit status come back on three virtio-serial
#            ports; the kernel's console goes to a file, which is shown when the guest fails.
#   network  N devices that act as N hosts, each at its own end of a cable into one switch:
#
#            rxe0 on eth0, 10.77.0.1 ---+
#            rxe1 on eth1, 10.77.0.2 ---+--- switch     IPv4 rules make what one of these addresses
#            rxe2 on eth2, 10.77.0.3 ---+               sends to another cross the cables, also TCP
#
#            They are in one network namespace: rxe of Linux 6.1 works in the initial one only.
#            `tc qdisc add dev eth0 root netem loss 5%` or `ip link set eth1 down` there are a bad
#            cable and a pulled one.
set -euo pipefail

here=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
# shellcheck source-path=SCRIPTDIR
. "$here/kernel.sh"

EX_USAGE=2 EX_SKIP=77 EX_TIMEOUT=124 EX_VM=125

# Seconds that the guest may take until it runs the command (about 7 on an idle machine), and tries:
# where a machine is several times overloaded, an emulated boot now and then stops for good.
BOOT_LIMIT=60 BOOT_TRIES=3
# Seconds that it may take to stop after --timeout.
STOP_LIMIT=20

say() { printf 'rdma_vm: %s\n' "$*" >&2; }
die() { say "$2"; exit "$1"; }
skip() { printf 'skipped: %s\n' "$*"; exit "$EX_SKIP"; }

usage()
{
    cat <<END
usage: tests/rdma_vm/rdma_vm.sh [OPTION...] [--] COMMAND [ARGUMENT...]
       tests/rdma_vm/rdma_vm.sh --build | --clean | --packages

Runs COMMAND as root on an emulated machine with software RDMA devices, in the same folder and with
the same files as here; prints its output and exits with its exit status.

  --hosts N       devices, each a host of its own: rxe0 on eth0 with 10.77.0.1, rxe1 on eth1 with
                  10.77.0.2, ...; 1 to 8 (2)
  --mtu N         of these networks (4200: RDMA messages go in packets of 4096 bytes)
  --env NAME=VAL  set a variable for COMMAND, which gets no others but PATH and HOME (repeatable)
  --share DIR     a folder that COMMAND may write to; whatever else it writes is lost
  --timeout S     end COMMAND after S seconds, the boot not counted (120)
  --mem M         memory of the machine in MiB (1024)
  --cpus N        processors of the machine (2)
  --accel KIND    tcg: emulate (the default); kvm: faster, where this machine has it and it works
  --verbose       show the kernel's console too, and what took how long
  --cache DIR     where the kernel is kept (\$RDMA_VM_CACHE, else rdma_vm in \$XDG_CACHE_HOME or
                  ~/.cache)

  --build         fetch and unpack the kernel, if it is not there, and stop
  --clean         remove the cache
  --packages      print the Debian packages that are needed here

Exit status: COMMAND's; $EX_USAGE for wrong usage; $EX_SKIP where this cannot run, and why;
$EX_TIMEOUT when COMMAND took longer than its time; $EX_VM when the guest did not start or stopped.
END
}

# ---- One run ------------------------------------------------------------------------------------

quote() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

# Last lines of the guest's console.
show_console()
{
    [[ -s $work/console ]] || return 0
    say "the last lines of the guest's console:"
    tr -d '\r' <"$work/console" | tail -n 40 | sed 's/^/  | /' >&2
}

cleanup()
{
    local pid
    for pid in ${qemu_pid-} ${readers-}; do # QEMU first, then who reads from it
        kill "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}

# The command and the settings of the guest, appended to its first files.
pack_run()
{
    local tree=$work/tree word
    mkdir -p "$tree/run"
    printf 'hosts=%q mtu=%q share=%q timeout=%q cwd=%s\n' \
        "$hosts" "$mtu" "$share" "$timeout" "$(quote "$PWD")" >"$tree/run/conf"
    {
        for word in "${vars[@]}"; do
            printf 'export %s=%s\n' "${word%%=*}" "$(quote "${word#*=}")"
        done
        printf exec
        for word in "$@"; do
            printf ' %s' "$(quote "$word")"
        done
        printf '\n'
    } >"$tree/run/command"
    cp "$here/guest_root.sh" "$tree/run/"
    cp "$here/guest_init.sh" "$tree/init"
    chmod +x "$tree/init"
    pack "$tree" "$work/run.cpio"
    cat "$cache/base.cpio" "$work/run.cpio" >"$work/initrd"
}

# Starts the guest and waits for its end.  Leaves what it said in $work/ctl and console, and a file
# $work/stuck when it did not come up.
#
# q35, not microvm, which boots a second faster when it boots: without HPET or PM timer the kernel
# can only calibrate the TSC against the PIT, which fails on a busy machine and leaves it hanging.
# tsc=reliable: the processors of an emulated machine read one clock, but are found apart, and the
# kernel would turn to the HPET, slow to read.  lpj, no_timer_check: nothing to measure or to test
# that may hang on a busy machine.
boot()
{
    local watch cpu=max,la57=off
    [[ $accel != kvm ]] || cpu=host
    rm -f "$work/out" "$work/err" "$work/stuck"
    mkfifo "$work/out" "$work/err"
    : >"$work/ctl"
    : >"$work/console"
    cat <"$work/out" &
    readers=$!
    cat <"$work/err" >&2 &
    readers="$readers $!"

    timeout --kill-after=5 "$((BOOT_LIMIT + timeout + STOP_LIMIT))" \
        qemu-system-x86_64 \
        -machine q35 -accel "${accel/#tcg/tcg,thread=multi}" -cpu "$cpu" -smp "$cpus" -m "$mem" \
        -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$cache/vmlinux" -initrd "$work/initrd" -append "console=ttyS0 quiet reboot=t \
panic=-1 mitigations=off nokaslr tsc=reliable lpj=10000000 no_timer_check nowatchdog \
random.trust_cpu=on" \
        -chardev "file,id=console,path=$work/console" -device isa-serial,chardev=console \
        -device virtio-serial-pci \
        -chardev "file,id=out,path=$work/out" -device virtserialport,chardev=out,name=rdma_vm.out \
        -chardev "file,id=err,path=$work/err" -device virtserialport,chardev=err,name=rdma_vm.err \
        -chardev "file,id=ctl,path=$work/ctl" -device virtserialport,chardev=ctl,name=rdma_vm.ctl \
        -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=root,mount_tag=root \
        "${devices[@]}" </dev/null >"$work/qemu" 2>&1 &
    qemu_pid=$!
    (
        for ((left = BOOT_LIMIT; left > 0; left--)); do
            sleep 1
            [[ ! -s $work/ctl ]] && kill -0 "$qemu_pid" 2>/dev/null || exit 0
        done
        : >"$work/stuck"
        kill "$qemu_pid"
    ) >/dev/null 2>&1 &
    watch=$!
    qemu_status=0
    wait "$qemu_pid" || qemu_status=$?
    qemu_pid=
    kill "$watch" 2>/dev/null || true
    wait "$watch" 2>/dev/null || true
    # A QEMU that stopped early has not opened the pipes: open them for their readers.
    (: <>"$work/out" <>"$work/err") 2>/dev/null || true
    # shellcheck disable=SC2086  # a list
    wait $readers || true
    readers=
}

run()
{
    local begin try said
    work=$(mktemp -d "${TMPDIR:-/tmp}/rdma_vm.XXXXXX")
    trap cleanup EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    begin=$(date +%s%N)
    pack_run "$@"
    devices=()
    # shellcheck disable=SC2054  # the commas are QEMU's
    [[ -z $share ]] || devices=(
        -fsdev "local,id=share,path=${share//,/,,},security_model=none,multidevs=remap"
        -device virtio-9p-pci,fsdev=share,mount_tag=share)

    # As long as the control port is silent the command has not begun.
    for ((try = 1; ; try++)); do
        boot
        [[ ! -s $work/ctl && $try -lt $BOOT_TRIES ]] || break
        if [[ -e $work/stuck ]]; then
            say "the guest did not boot within $BOOT_LIMIT s; it is started again"
        else
            say "the guest stopped before the command; it is started again"
        fi
    done

    [[ ! -s $work/qemu ]] || sed 's/^/  qemu: /' "$work/qemu" >&2
    if [[ $verbose == 1 ]]; then
        tr -d '\r' <"$work/console" | sed 's/^/  | /' >&2
        say "took $((($(date +%s%N) - begin) / 1000000)) ms in all"
    fi
    said=$(tail -n 1 "$work/ctl")
    case $said in
    'exit '*) exit "${said#exit }" ;;
    esac
    [[ $verbose == 1 ]] || show_console
    case $said in
    timeout) die "$EX_TIMEOUT" "the command took longer than $timeout s" ;;
    'fail '*) die "$EX_VM" "the guest failed: ${said#fail }" ;;
    start) die "$EX_VM" "the guest stopped while the command ran (QEMU: $qemu_status)" ;;
    *) die "$EX_VM" "the guest did not boot (QEMU: $qemu_status)" ;;
    esac
}

# ---- Options ------------------------------------------------------------------------------------

number() # OPTION VALUE MAX
{
    [[ $2 =~ ^[1-9][0-9]{0,5}$ && $2 -le $3 ]] ||
        die "$EX_USAGE" "$1 takes a number from 1 to $3, not '$2'"
}

cache=${RDMA_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rdma_vm}
hosts=2 mtu=4200 timeout=120 mem=1024 cpus=2 accel=tcg share='' verbose=0 vars=() action=run

while [[ $# -gt 0 ]]; do
    case $1 in
    --hosts | --mtu | --env | --share | --timeout | --mem | --cpus | --accel | --cache)
        [[ $# -ge 2 ]] || die "$EX_USAGE" "$1 needs a value"
        value=$2 ;;
    esac
    case $1 in
    --hosts) number "$1" "$value" 8 && hosts=$value && shift 2 ;;
    --mtu) number "$1" "$value" 9000 && mtu=$value && shift 2 ;;
    --timeout) number "$1" "$value" 86400 && timeout=$value && shift 2 ;;
    --mem) number "$1" "$value" 65536 && mem=$value && shift 2 ;;
    --cpus) number "$1" "$value" 64 && cpus=$value && shift 2 ;;
    --env)
        [[ $value =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || die "$EX_USAGE" "--env takes NAME=VALUE"
        vars+=("$value") && shift 2 ;;
    --share)
        [[ -d $value ]] || die "$EX_USAGE" "--share: no folder $value"
        share=$(realpath -- "$value") && shift 2 ;;
    --accel)
        [[ $value == tcg || $value == kvm ]] || die "$EX_USAGE" "--accel takes tcg or kvm"
        accel=$value && shift 2 ;;
    --cache) cache=$value && shift 2 ;;
    --verbose) verbose=1 && shift ;;
    --build | --clean | --packages) action=${1#--} && shift ;;
    --help | -h) usage && exit 0 ;;
    --) shift && break ;;
    -*) die "$EX_USAGE" "no option $1; --help lists them" ;;
    *) break ;;
    esac
done

case $action in
packages) printf '%s\n' "${RDMA_VM_PACKAGES[@]}" ;;
clean) rm -rf "$cache/vmlinux" "$cache/base.cpio" "$cache/key" "$cache/lock" "$cache"/tmp.* ;;
build) build_kernel ;;
run)
    [[ $# -gt 0 ]] || { usage >&2 && exit "$EX_USAGE"; }
    build_kernel
    run "$@"
    ;;
esac
