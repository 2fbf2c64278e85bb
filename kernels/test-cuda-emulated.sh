#!/bin/sh
# Runs the CUDA kernels on the CPU, in emulation, against the reference: what a machine without a GPU can tell of them.
# usage: test-cuda-emulated.sh OUT [SEED [CASES]]        (environment: CC, CXX, NVCC)
# Skipped where CUDA's headers or a C++20 compiler are not. CASES random models on a GPU as the kernels are made for, and
# one model on a GPU with so little shared memory that its rows take more stages than there are.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/native.sh"
cxx=${CXX:-g++}
nvcc=${NVCC:-nvcc}
mkdir -p "$1"
out=$(cd "$1" && pwd)
seed=${2:-20260101}
cases=${3:-6}

headers=$(cuda_headers "$nvcc")
if [ ! -f "$headers/cuda.h" ] || ! command -v "$cxx" >/dev/null 2>&1; then
  echo "kernels: CUDA kernels not emulated: $headers/cuda.h and a C++20 compiler ($cxx) are needed"
  exit 0
fi

# The same sources and seed give the same results: a pass stands until one of them changes.
passed=$out/passed
if [ -f "$passed" ] && [ "$(cat "$passed")" = "$seed $cases" ] \
    && [ -z "$(find "$here/src" "$here"/*.sh -type f -newer "$passed")" ]; then
  echo "kernels: emulated CUDA kernels passed before on these sources, seed $seed"
  exit 0
fi

cd "$here/src"
emulate="-std=gnu++20 -O2 -fno-strict-aliasing -DEXPERTBANK_EMULATED -Itest/emulation/include -include test/emulation/emulation.h"
for arch in 750 900; do
  mkdir -p "$out/$arch"
  for source in cuda/route.cu cuda/experts_f16.cu cuda/experts_bf16.cu cuda/experts_f32.cu \
    test/emulation/emulation.cpp test/emulation/emulated_driver.cpp; do
    echo "$cxx $emulate -D__CUDA_ARCH__=$arch -I'$headers' -x c++ -c $source -o '$out/$arch/$(basename "$source").o'"
  done
  for source in test/qmoe_cuda_test.c test/model.c test/reference.c cuda/plan.c; do
    echo "$cc $warnings -O2 -D_POSIX_C_SOURCE=200809L -I'$headers' -c $source -o '$out/$arch/$(basename "$source").o'"
  done
done | tr '\n' '\0' | xargs -0 -n 1 -P 2 sh -c

# run ARCH NAME ARGUMENTS...
run() {
  program=$out/qmoe_cuda_emulated_$1
  log=$out/$1-$2.log
  status=0
  (shift 2 && "$program" "$@") > "$log" 2>&1 || status=$?
  sed "s/^/kernels: emulated, __CUDA_ARCH__ $1, $2: /" "$log"
  return "$status"
}

running=""
for arch in 750 900; do
  "$cxx" -o "$out/qmoe_cuda_emulated_$arch" "$out/$arch"/*.o -lm
  run "$arch" "$cases models" 2:233472 "$seed" "$cases" &
  running="$running $!"
  run "$arch" "long rows" 2:34816 "$seed" 0 &
  running="$running $!"
done
for process in $running; do
  wait "$process"
done
echo "$seed $cases" > "$passed"
