#!/bin/sh
# Builds the native libraries of this module into OUT/dev/expertbank/native/<os>-<arch>/.
# usage: build-native.sh OUT        (environment: CC, NVCC)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1

case "$(uname -s)" in
  Linux) os=linux ext=so ;;
  Darwin) os=osx ext=dylib ;;
  *) echo "kernels: $(uname -s) is not supported: build on Linux or macOS." >&2; exit 1 ;;
esac
case "$(uname -m)" in
  x86_64 | amd64) arch=x64 ;;
  aarch64 | arm64) arch=aarch64 ;;
  *) echo "kernels: $(uname -m) is not supported: build on x86-64 or AArch64." >&2; exit 1 ;;
esac

cc=${CC:-}
if [ -z "$cc" ]; then
  for candidate in cc gcc clang; do
    if command -v "$candidate" >/dev/null 2>&1; then cc=$candidate; break; fi
  done
fi
if [ -z "$cc" ] || ! command -v "$cc" >/dev/null 2>&1; then
  echo "kernels: no C compiler found${cc:+ ($cc)}: install gcc or clang (Debian: apt-get install gcc libc6-dev) or set CC." >&2
  exit 1
fi

target=$out/dev/expertbank/native/$os-$arch
objects=$out/../native
mkdir -p "$target" "$objects"
flags="-std=c11 -O3 -fPIC -fvisibility=hidden -Wall -Wextra -Werror -ffp-contract=off"

# Reproducible: no build paths in the objects, no timestamps from the linker.
flags="$flags -ffile-prefix-map=$here=."

$cc $flags -shared -o "$target/libexpertbank_ort_bridge.$ext" "$here/src/bridge/ort_bridge.c"

# CUDA: built where nvcc is; elsewhere the reason is recorded for probe() to report.
nvcc=${NVCC:-nvcc}
if ! ls "$here"/src/cuda/*.cu >/dev/null 2>&1; then
  reason="this build has no CUDA kernels"
elif ! command -v "$nvcc" >/dev/null 2>&1; then
  reason="built without CUDA kernels: nvcc was not on PATH"
else
  reason=""
fi
printf 'cuda.kernels=%s\ncuda.reason=%s\n' "$([ -z "$reason" ] && echo present || echo absent)" "$reason" \
  > "$target/build.properties"
echo "kernels: built $os-$arch with $cc; CUDA: ${reason:-built}"
