# system.cmake - which of two files does what not every Unix has: the system's own way, or POSIX.
# SPDX-License-Identifier: Apache-2.0
#
# What a system has beyond POSIX is used in files that have a neighbour with the same functions,
# which needs POSIX alone.  One of the two is compiled: no other file asks where it runs.

include(CheckSymbolExists)

set(tcdist_not_compiled "")

# Takes `native` where each of the symbols is in one of the headers, else `posix`, which may be
# several files.
function(tcdist_choose native posix headers symbols)
    set(has_all ON)
    if(TCDIST_POSIX_ONLY)
        set(has_all OFF)
    endif()
    set(CMAKE_REQUIRED_DEFINITIONS -D_GNU_SOURCE)
    foreach(symbol IN LISTS symbols)
        if(has_all)
            check_symbol_exists(${symbol} "${headers}" TCDIST_SYSTEM_${symbol})
            if(NOT TCDIST_SYSTEM_${symbol})
                set(has_all OFF)
            endif()
        endif()
    endforeach()
    if(has_all)
        list(APPEND tcdist_not_compiled ${posix})
    else()
        list(APPEND tcdist_not_compiled ${native})
    endif()
    set(tcdist_not_compiled "${tcdist_not_compiled}" PARENT_SCOPE)
    set(tcdist_is_native ${has_all} PARENT_SCOPE)
endfunction()

tcdist_choose(src/core/bell.c src/core/bell_posix.c sys/eventfd.h eventfd)
tcdist_choose(src/core/cond.c src/core/cond_posix.c # an option of POSIX
    pthread.h pthread_condattr_setclock)
tcdist_choose(src/core/futex.c src/core/futex_posix.c
    "linux/futex.h;sys/syscall.h" "SYS_futex;FUTEX_WAIT_BITSET")
tcdist_choose(src/core/pages.c src/core/pages_posix.c
    "fcntl.h;sys/mman.h"
    "memfd_create;fallocate;posix_fallocate;F_ADD_SEALS;MAP_ANONYMOUS;MADV_HUGEPAGE")
tcdist_choose(src/core/probe.c src/core/probe_posix.c
    "sys/syscall.h;sys/uio.h" "SYS_rt_sigprocmask;process_vm_readv")
tcdist_choose(src/core/process.c src/core/process_posix.c
    sys/mman.h "MAP_ANONYMOUS;MADV_WIPEONFORK")
tcdist_choose(src/core/random.c src/core/random_posix.c sys/random.h getrandom)

tcdist_choose(src/loop/poll.c src/loop/poll_posix.c poll.h ppoll)
tcdist_choose(src/loop/reactor_epoll.c src/loop/reactor_poll.c
    "sys/epoll.h;sys/timerfd.h" "epoll_create1;timerfd_create")
tcdist_choose(src/loop/sched.c src/loop/sched_posix.c
    "pthread.h;sched.h" "sched_getaffinity;CPU_COUNT;pthread_setname_np")

tcdist_choose(src/net/acks.c src/net/acks_posix.c
    "netinet/tcp.h;linux/sockios.h" "TCP_INFO;SIOCOUTQ")
tcdist_choose(src/net/host.c src/net/host_posix.c sched.h setns) # namespaces of networks
tcdist_choose(src/net/iface_list.c src/net/iface_list_posix.c
    "ifaddrs.h;net/if.h" "getifaddrs;IFF_UP")
tcdist_choose(src/net/socket.c src/net/socket_posix.c
    "netinet/tcp.h;sys/socket.h" "accept4;SOCK_NONBLOCK;SOCK_CLOEXEC;TCP_KEEPIDLE;TCP_CONGESTION")
tcdist_choose(src/net/shm_region.c src/net/shm_region_posix.c
    "fcntl.h;sys/mman.h;sys/syscall.h;sys/uio.h;unistd.h"
    "memfd_create;F_ADD_SEALS;pipe2;process_vm_readv;SYS_pidfd_open")

# Where a send cannot be told to raise no signal, sockets are (src/net/socket_posix.c).
check_symbol_exists(MSG_NOSIGNAL sys/socket.h TCDIST_SYSTEM_MSG_NOSIGNAL)
if(NOT TCDIST_SYSTEM_MSG_NOSIGNAL)
    add_compile_definitions(MSG_NOSIGNAL=0)
endif()
