#!/bin/sh
# Builds what only tests and benchmarks of a GPU need into OUT: kernels, a fatbin for each source, and, into OUT/native,
# the programs qmoe_cuda_test and qmoe_cuda_bench, which need no Java. Does nothing where nvcc is not.
# usage: bench-cuda.sh OUT        (environment: CC, NVCC)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/native.sh"
nvcc=${NVCC:-nvcc}
command -v "$nvcc" >/dev/null 2>&1 || exit 0
mkdir -p "$1/native"
codes=$(cuda_codes)
for source in "$here"/src/bench/*.cu; do
  target=$1/$(basename "$source" .cu).fatbin
  if [ ! -f "$target" ] || [ -n "$(find "$source" "$here"/*.sh -newer "$target")" ]; then
    "$nvcc" -std=c++17 -O3 -fatbin $codes -o "$target" "$source"
  fi
done

native="$warnings -O2 -D_POSIX_C_SOURCE=200809L -I$(cuda_headers "$nvcc")"
out=$(cd "$1/native" && pwd)
cd "$here/src"
$cc $native -o "$out/qmoe_cuda_test" test/qmoe_cuda_test.c test/cuda_harness.c test/model.c test/reference.c cuda/plan.c -lm -ldl
$cc $native -o "$out/qmoe_cuda_bench" bench/qmoe_cuda_bench.c test/cuda_harness.c cuda/plan.c -lm -ldl
