# kernel.sh - the part of rdma_vm.sh that fetches the guest's kernel and packs its first files.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154  # here, cache: set by rdma_vm.sh

# What must be installed here: the emulator; what the guest's first steps are made of; the commands
# that set up its network and devices; the tools of RDMA that figures are compared with.  busybox,
# not busybox-static, which starts its own applets instead of programs in PATH.
RDMA_VM_PACKAGES=(qemu-system-x86 busybox binutils xz-utils iproute2 ibverbs-providers ibverbs-utils
    perftest)

# Its dependency is the kernel.  The smaller kernel for clouds has neither rxe nor 9p.
KERNEL_META=linux-image-amd64

# Modules that are loaded, what they stand on is found out.  crc32_generic: rxe asks the crypto
# interface for "crc32" by name; modprobe is not there to load it.
KERNEL_MODULES=(virtio_pci virtio_console 9pnet_virtio 9p overlay crc32_generic
    rdma_rxe veth bridge sch_netem)

# Folders of the package that hold these and all that they stand on.
KERNEL_FOLDERS=(arch/x86/crypto crypto drivers/char drivers/infiniband/core drivers/infiniband/sw
    drivers/net drivers/virtio fs/9p fs/fscache fs/netfs fs/overlayfs lib net/802 net/9p net/bridge
    net/ipv4 net/ipv6 net/llc net/sched)

# pack TREE ARCHIVE.  Not compressed: emulated, that takes longer than it saves.
pack()
{
    (cd "$1" && find . | LC_ALL=C sort | busybox cpio -o -H newc 2>/dev/null) >"$2"
}

check_packages()
{
    local package missing=()
    command -v dpkg-query >/dev/null || skip 'the machine is made of Debian packages: no dpkg'
    for package in "${RDMA_VM_PACKAGES[@]}"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            missing+=("$package")
    done
    [[ ${#missing[@]} -eq 0 ]] || skip "not installed: ${missing[*]}"
    [[ $(uname -m) == x86_64 ]] || skip 'it runs the programs of x86_64 alone'
}

# Prints the ELF kernel inside a bzImage: QEMU starts it directly (PVH), which spares the guest the
# decompression, seconds when emulated.
extract_vmlinux() # BZIMAGE
{
    local at
    at=$(LC_ALL=C grep -aboP '\xfd7zXZ\x00' "$1" | head -n 1 | cut -d : -f 1) || true
    [[ -n $at ]] || die "$EX_VM" "$1 holds no kernel that xz has compressed"
    # What follows the compressed kernel is complained of after the work; readelf looks at it.
    tail -c "+$((at + 1))" "$1" | xz -dc --single-stream 2>/dev/null || true
}

fetch_package() # FOLDER
{
    local package
    package=$(apt-cache depends --important "$KERNEL_META" 2>/dev/null |
        sed -n 's/^ *Depends: *\(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    [[ -n $package ]] || skip "apt knows no $KERNEL_META (apt-get update may help)"
    (cd "$1" && apt-get -o APT::Sandbox::User=root -qq download "$package") >&2 ||
        skip "$package cannot be downloaded"
    mv "$1/$package"_*.deb "$1/kernel.deb"
}

# The modules in the order in which they are loaded, into TREE/modules, names in TREE/modules/order.
put_modules() # MODULES_FOLDER TREE
{
    local name
    declare -A seen=()
    for name in "${KERNEL_MODULES[@]}"; do
        put_module "$1" "$2" "$name"
    done
}

# A module behind those that it stands on.
put_module() # MODULES_FOLDER TREE NAME
{
    local line file files=() f
    line=$(grep -E "/$3\\.ko:" "$1/modules.dep") || {
        grep -q "/$3\\.ko\$" "$1/modules.builtin" && return 0
        die "$EX_VM" "the kernel has no module $3"
    }
    read -ra files <<<"${line#*:}"
    for f in "${files[@]}"; do
        file=${f##*/}
        [[ -n ${seen[$file]-} ]] || put_module "$1" "$2" "${file%.ko}"
    done
    file=${line%%:*}
    [[ -z ${seen[${file##*/}]-} ]] || return 0
    seen[${file##*/}]=1
    # Without its signature a module loads faster.
    strip --strip-debug -o "$2/modules/${file##*/}" "$1/$file"
    printf '%s\n' "${file##*/}" >>"$2/modules/order"
}

# busybox and what it is linked with: all that runs before this machine's files are there.
put_busybox() # TREE
{
    local file
    for file in "$(command -v busybox)" $(ldd "$(command -v busybox)" | grep -oE '/[^ ]+'); do
        mkdir -p "$1/${file%/*}"
        cp -L "$file" "$1$file"
    done
    mkdir -p "$1/bin"
    [[ -e $1/bin/busybox ]] || cp -L "$(command -v busybox)" "$1/bin/busybox"
    ln -sf busybox "$1/bin/sh"
}

# Makes $cache/vmlinux and base.cpio where they are missing or older than this file.
build_kernel()
{
    local work key folder version modules
    check_packages
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    key=$({ cat "$here/kernel.sh" && dpkg-query -W busybox libc6; } | sha256sum)
    if [[ -e $cache/base.cpio && $(cat "$cache/key" 2>/dev/null) == "$key" ]]; then
        exec 9>&-
        return 0
    fi
    rm -rf "$cache"/tmp.* # of one that was stopped
    work=$(mktemp -d "$cache/tmp.XXXXXX")
    fetch_package "$work"
    folder=("${KERNEL_FOLDERS[@]/#/./lib/modules/*/kernel/}")
    dpkg-deb --fsys-tarfile "$work/kernel.deb" | tar -x -C "$work" --wildcards \
        './boot/vmlinuz-*' './lib/modules/*/modules.*' "${folder[@]}"
    version=$(basename "$work"/boot/vmlinuz-*)
    version=${version#vmlinuz-}
    modules=$work/lib/modules/$version
    busybox depmod -b "$work" "$version"

    extract_vmlinux "$work/boot/vmlinuz-$version" >"$cache/vmlinux"
    readelf -n "$cache/vmlinux" 2>/dev/null | grep -q Xen ||
        die "$EX_VM" "$version cannot be started directly (it has no PVH entry)"
    mkdir -p "$work/tree/"{dev,proc,sys,run,host,memory,new,modules}
    put_modules "$modules" "$work/tree"
    put_busybox "$work/tree"
    pack "$work/tree" "$cache/base.cpio"
    printf '%s\n' "$key" >"$cache/key"
    rm -rf "$work"
    exec 9>&-
}
