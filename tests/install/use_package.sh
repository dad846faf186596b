# use_package.sh - installs the packages that lie in /tmp/use, and uses them as their users do.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Run by check_package.sh in a root of its own, with the compiler as its argument.
compiler=$1
cd /tmp/use || exit 1
export DEBIAN_FRONTEND=noninteractive

if ls /usr/bin/tcrun /usr/include/tcdist 2>/dev/null; then
    echo "the root is not clean"
    exit 1
fi
dpkg -i ./libtcdist0_*.deb ./libtcdist-dev_*.deb ./tcdist-tools_*.deb >dpkg.log 2>&1 || {
    cat dpkg.log
    exit 1
}
dpkg -V libtcdist0 libtcdist-dev tcdist-tools
dpkg -l libtcdist0 libtcdist-dev tcdist-tools | grep '^ii'

# By pkg-config and by find_package, with nothing in the environment.
# shellcheck disable=SC2046
"$compiler" -o by_pkg_config consumer.c $(pkg-config --cflags --libs tcdist)
./by_pkg_config
if ! { cmake -S . -B out -G Ninja -DCMAKE_C_COMPILER="$compiler" &&
    cmake --build out; } >cmake.log 2>&1; then
    cat cmake.log
    exit 1
fi
out/consumer

# The examples, as a project of the reader's own; they find their data from where they came.
if ! { cmake -S /usr/share/doc/tcdist/examples -B examples -G Ninja \
    -DCMAKE_C_COMPILER="$compiler" && cmake --build examples; } >cmake.log 2>&1; then
    cat cmake.log
    exit 1
fi
(cd /usr/share/doc/tcdist && tcrun -n 2 -- /tmp/use/examples/digits --epochs 1) | tail -n 1
examples/tensor_parallel --version | head -n 1
for package in libtcdist0 libtcdist-dev tcdist-tools; do
    grep -q 'Apache License' "/usr/share/doc/$package/copyright"
done

tcrun -n 2 -- tcperf --op allreduce -b 4 -e 1K -n 2 -w 1 | tail -n 1
for tool in /usr/bin/tc*; do
    dpkg -S "$tool" 2>/dev/null | grep -q '^tcdist-tools:' || continue
    name=${tool##*/}
    "$name" --version | head -n 1
    ls /usr/share/man/man1/"$name".1* >/dev/null
done
for completion in $(dpkg -L tcdist-tools | grep '/completions/.'); do
    bash -c ". '$completion' && complete -p '${completion##*/}'" >/dev/null
done
for unit in $(dpkg -L tcdist-tools | grep '\.service$'); do
    command -v systemd-analyze >/dev/null || continue
    systemd-analyze verify "$unit"
done

dpkg -P tcdist-tools libtcdist-dev libtcdist0 >dpkg.log 2>&1
if ls /usr/bin/tcrun /usr/include/tcdist /usr/lib/*/libtcdist* /usr/lib/libtcdist* 2>/dev/null; then
    echo "something is left"
    exit 1
fi
echo "the packages install, are used and go"
