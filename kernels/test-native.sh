#!/bin/sh
# Builds the host kernels' tests with the address and undefined-behaviour sanitizers and runs them on every tier that
# this CPU has.
# usage: test-native.sh TARGET [SEED]      (environment: CC; RUNNER and ARCH for a cross compiler, e.g. qemu-aarch64)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=$1
seed=${2:-20260101}
. "$here/native.sh"

objects=$target/native-test/$os-$arch
test=$objects/qmoe_host_test
mkdir -p "$objects"
if ! up_to_date "$test" "$objects"; then
  sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"
  if ! echo 'int main(void) { return 0; }' | $cc $sanitize -x c -o "$objects/probe" - 2>/dev/null \
      || ! ${RUNNER:-} "$objects/probe" 2>/dev/null; then
    echo "kernels: $cc has no sanitizer runtime here: testing without"
    sanitize=""
  fi
  compile_host "$objects" -O1 -g $sanitize
  $cc $warnings -O1 -g $sanitize -pthread -o "$test" "$here"/src/test/qmoe_host_test.c "$here"/src/test/model.c \
    "$here"/src/test/reference.c "$objects"/*.o -lm
  echo "$cc" > "$objects/compiler"
fi

# The same sources, compiler and seed give the same results: a pass stands until one of them changes.
passed=$objects/passed
if [ -f "$passed" ] && [ "$(cat "$passed")" = "$seed" ] && [ ! "$test" -nt "$passed" ]; then
  echo "kernels: native tests passed before on these sources, seed $seed"
  exit 0
fi

running=""
for tier in $tiers; do
  if [ "$(EXPERTBANK_HOST_TIER=$tier ${RUNNER:-} "$test" --tier)" = "$tier" ]; then
    EXPERTBANK_HOST_TIER=$tier ${RUNNER:-} "$test" "$seed" &
    running="$running $!"
  else
    echo "kernels: tier $tier is not on this CPU: not tested"
  fi
done
for process in $running; do
  wait "$process"
done

best=$(${RUNNER:-} "$test" --tier)
if [ "$(EXPERTBANK_HOST_TIER=unknown ${RUNNER:-} "$test" --tier)" != "$best" ]; then
  echo "kernels: an unknown EXPERTBANK_HOST_TIER must fall back to $best" >&2
  exit 1
fi
echo "$seed" > "$passed"
