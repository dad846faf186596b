#!/usr/bin/env bash
# check_dev.sh - ./dev explains each verb, and shows where it is while it installs and builds.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_dev.sh SOURCE_DIR
#
# Builds and installs nothing: cmake, apt-get and dpkg-query are scripts of this test.
set -u

source_dir=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

fail() { echo "$*"; failed=1; }

# must_have TEXT FILE
must_have()
{
    grep -qF -- "$1" "$2" && return
    fail "'$1' is not in:"
    cat "$2"
}

mkdir -p "$work/tree" "$work/bin"
cp "$source_dir/dev" "$source_dir/CMakePresets.json" "$work/tree"
cd "$work/tree" || exit 1

# ---- Help ----------------------------------------------------------------------------------------

./dev help >"$work/all"
for verb in demo test bench fuzz valgrind chaos package fmt docs; do
    ./dev $verb --help >"$work/help" 2>&1 || fail "./dev $verb --help fails"
    must_have "usage: ./dev $verb" "$work/help"
    [[ $(wc -l <"$work/help") -ge 3 ]] || fail "./dev $verb --help explains nothing"
    ./dev help $verb | cmp - "$work/help" || fail "./dev help $verb says something else"
    must_have "  $verb " "$work/all"
done
for words in 'help nosuch' nosuch 'fmt --nosuch' 'test --nosuch'; do
    # shellcheck disable=SC2086
    ./dev $words >"$work/help" 2>&1
    [[ $? -eq 2 ]] || fail "./dev $words does not end with 2"
    must_have 'dev: ' "$work/help"
done
[[ ! -e build ]] || fail 'help has built something'

# ---- Progress ------------------------------------------------------------------------------------

cat >"$work/bin/cmake" <<'END'
#!/bin/sh
[ "$1" = --build ] || exit 0
for i in 1 2 3; do echo "[$i/3] Building C object $i.o"; done
[ -z "$FAKE_ERROR" ] || { echo "$FAKE_ERROR"; exit 1; }
mkdir -p build/release/tools
printf '#!/bin/sh\necho trained\n' >build/release/tools/tcrun
chmod +x build/release/tools/tcrun
END
cat >"$work/bin/dpkg-query" <<'END'
#!/bin/sh
[ -n "$FAKE_MISSING" ] || echo installed
END
cat >"$work/bin/apt-get" <<'END'
#!/bin/sh
echo "Setting up what $1 finds"
[ "$1" != "$FAKE_MISSING" ]
END
printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
chmod +x "$work"/bin/*
PATH=$work/bin:$PATH

FAKE_ERROR='' FAKE_MISSING=none ./dev demo --ranks 2 >"$work/out" 2>&1 || fail 'the demo fails'
must_have '==> install gcc ' "$work/out"
must_have '==> build release' "$work/out"
must_have 'trained' "$work/out"
grep -q 'Building' "$work/out" && fail 'where there is no terminal, lines are shown at once'
must_have '[3/3] Building C object 3.o' build/release/dev.log
must_have 'Setting up what install finds' build/apt.log

FAKE_ERROR='x.c:1: error: no' FAKE_MISSING='' ./dev demo >"$work/out" 2>&1 &&
    fail 'a build that fails is no failure'
must_have 'x.c:1: error: no' "$work/out"

FAKE_ERROR='' FAKE_MISSING=install ./dev demo >"$work/out" 2>&1
[[ $? -eq 2 ]] || fail 'what cannot be installed is no failure'
must_have 'build/apt.log says why' "$work/out"

if command -v script >/dev/null; then
    FAKE_ERROR='' FAKE_MISSING='' script -qec './dev demo' /dev/null </dev/null >"$work/out" 2>&1
    must_have $'\r\033[K    [3/3] Building C object 3.o' "$work/out"
    must_have 'trained' "$work/out"
fi

[[ $failed -eq 0 ]] && echo 'each verb is explained, and installing and building is shown'
exit "$failed"
