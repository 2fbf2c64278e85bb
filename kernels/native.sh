# Shared by the scripts of this module, which source it with $here set to its directory: the compiler, and how the
# host kernels are compiled. Sets os, arch, ext, cc.

case "$(uname -s)" in
  Linux) os=linux ext=so ;;
  Darwin) os=osx ext=dylib ;;
  *) echo "kernels: $(uname -s) is not supported: build on Linux or macOS." >&2; exit 1 ;;
esac
case "${ARCH:-$(uname -m)}" in
  x86_64 | amd64) arch=x64 tiers="avx512 avx2 baseline" ;;
  aarch64 | arm64) arch=aarch64 tiers="neon" ;;
  *) echo "kernels: ${ARCH:-$(uname -m)} is not supported: build on x86-64 or AArch64." >&2; exit 1 ;;
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

# Reproducible: sources are compiled by their path from $here, so no build path gets into the objects; and no
# timestamps from the linker. (A prefix map would need that path in $flags, where a space would end it.)
warnings="-std=c11 -Wall -Wextra -Werror"
flags="$warnings -fPIC -fvisibility=hidden -ffp-contract=off"

tier_flags() {
  case "$1" in
    avx512) echo "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c" ;;
    avx2) echo "-mavx2 -mfma -mf16c" ;;
  esac
}

# compile_host DIR FLAGS...: the host kernels' objects, all tiers, into DIR, two compilers at a time.
compile_host() {
  mkdir -p "$1"
  dir=$(cd "$1" && pwd)
  shift
  {
    for source in qmoe_host run_state routing slots; do
      echo "cd '$here' && $cc $flags $* -c 'src/host/$source.c' -o '$dir/$source.o'"
    done
    for tier in $tiers; do
      echo "cd '$here' && $cc $flags $* $(tier_flags "$tier") -DTIER=$tier -c 'src/host/tasks.c' -o '$dir/tasks_$tier.o'"
    done
  } | tr '\n' '\0' | xargs -0 -n 1 -P 2 sh -c
}

# up_to_date OUTPUT DIR: true when this compiler made OUTPUT, with its objects in DIR, from files no newer than it.
up_to_date() {
  [ -f "$1" ] && [ "$(cat "$2/compiler" 2>/dev/null)" = "$cc" ] \
    && [ -z "$(find "$here/src" "$here"/*.sh -type f -newer "$1")" ]
}

# Every architecture from sm_75 on: machine code for each generation, which later ones of it run too, and for what comes
# after them the last one's PTX.
cuda_architectures="75 80 90 100 120"

# cuda_codes: the options of nvcc for them.
cuda_codes() {
  for code in $cuda_architectures; do
    printf ' -gencode arch=compute_%s,code=sm_%s' "$code" "$code"
  done
  printf ' -gencode arch=compute_%s,code=compute_%s' "$code" "$code"
}

# compile_cuda DIR: one fatbin for each source, as many compilers at a time as there are processors. Sets cuda_built.
compile_cuda() {
  newer=$(find "$here/src/cuda" "$here/src/qmoe.h" "$here/native.sh" -type f -newer "$1/compiler" 2>/dev/null || echo all)
  if [ -f "$1/compiler" ] && [ "$(cat "$1/compiler")" = "$nvcc $cuda_architectures" ] && [ -z "$newer" ]; then
    cuda_built="is up to date"
    return
  fi
  codes=$(cuda_codes)
  for source in "$here"/src/cuda/*.cu; do
    echo "cd '$here' && $nvcc -std=c++17 -O3 -fatbin $codes -o '$1/$(basename "$source" .cu).fatbin' 'src/cuda/$(basename "$source")'"
  done | tr '\n' '\0' | xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN)" sh -c
  echo "$nvcc $cuda_architectures" > "$1/compiler"
  cuda_built="built"
}

# cuda_headers NVCC: where the headers of its CUDA are, by its own word, because nvcc may be a link or a script.
cuda_headers() {
  toolkit=$("$1" --dryrun -x cu -c /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')
  for headers in "${toolkit:-/usr/local/cuda}/include" "${toolkit:-/usr/local/cuda}/targets/x86_64-linux/include"; do
    if [ -f "$headers/cuda.h" ]; then
      echo "$headers"
      return
    fi
  done
  echo "${toolkit:-/usr/local/cuda}/include"
}
