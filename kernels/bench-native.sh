#!/bin/sh
# Builds the host kernels and their benchmark into target/ and runs it.
# usage: bench-native.sh [threads [bits [block_size [zero_points [seconds per line]]]]]
#        (environment: CC, EXPERTBANK_HOST_TIER)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/native.sh"
sh "$here/build-native.sh" "$here/target/classes"
bench=$here/target/native/qmoe_host_bench
$cc $warnings -D_POSIX_C_SOURCE=200809L -O2 -pthread -o "$bench" "$here/src/bench/qmoe_host_bench.c" \
  "$here/target/native/$os-$arch"/*.o -lm
exec "$bench" "$@"
