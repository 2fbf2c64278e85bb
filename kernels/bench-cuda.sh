#!/bin/sh
# Builds the kernels that only benchmarks launch into OUT, a fatbin for each source; does nothing where nvcc is not.
# usage: bench-cuda.sh OUT        (environment: NVCC)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/native.sh"
nvcc=${NVCC:-nvcc}
command -v "$nvcc" >/dev/null 2>&1 || exit 0
codes=""
for code in $cuda_architectures; do
  codes="$codes -gencode arch=compute_$code,code=sm_$code"
done
codes="$codes -gencode arch=compute_$code,code=compute_$code"
for source in "$here"/src/bench/*.cu; do
  target=$1/$(basename "$source" .cu).fatbin
  if [ ! -f "$target" ] || [ -n "$(find "$source" "$here"/*.sh -newer "$target")" ]; then
    "$nvcc" -std=c++17 -O3 -fatbin $codes -o "$target" "$source"
  fi
done
