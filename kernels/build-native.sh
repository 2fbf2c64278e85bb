#!/bin/sh
# Builds the native libraries of this module into OUT/dev/expertbank/native/<os>-<arch>/.
# usage: build-native.sh OUT        (environment: CC, NVCC, and ARCH for a cross compiler)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
. "$here/native.sh"

target=$out/dev/expertbank/native/$os-$arch
objects=$out/../native/$os-$arch
mkdir -p "$target" "$objects"

# The host kernels are linked last: their time stamp stands for both libraries.
host=$target/libexpertbank_qmoe_host.$ext
if up_to_date "$host" "$objects"; then
  built="is up to date"
else
  built="built with $cc"
  (cd "$here" && $cc $flags -O3 -shared -o "$target/libexpertbank_ort_bridge.$ext" src/bridge/ort_bridge.c)
  compile_host "$objects" -O3
  $cc -shared -o "$host" "$objects"/*.o -lm
  echo "$cc" > "$objects/compiler"
fi

# What says what to launch is plain C; the kernels themselves are built where nvcc is, and elsewhere the reason is recorded
# for probe() to report.
plan=$target/libexpertbank_qmoe_cuda.$ext
if ! up_to_date "$plan" "$objects"; then
  (cd "$here" && $cc $flags -O2 -shared -o "$plan" src/cuda/plan.c)
fi
nvcc=${NVCC:-nvcc}
cuda=$target/cuda
if ! command -v "$nvcc" >/dev/null 2>&1; then
  reason="built without CUDA kernels: nvcc was not on PATH"
else
  reason=""
  mkdir -p "$cuda"
  compile_cuda "$cuda"
fi
if [ -z "$reason" ]; then
  toolkit=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  printf 'cuda.kernels=present\ncuda.reason=\ncuda.toolkit=%s\n' "$toolkit"
else
  printf 'cuda.kernels=absent\ncuda.reason=%s\n' "$reason"
fi > "$target/build.properties"
echo "kernels: $os-$arch $built; CUDA: ${reason:-$cuda_built}"
