#!/bin/sh
# fuzz.sh [SECONDS] [NAME...]
# Runs the fuzzers (c descriptor npy safetensors text; all by default), SECONDS each (60), from the seeds in tests/fuzz/corpus.
# What they find on the way stays in build/fuzz/corpus; an input that crashes is printed, kept there and makes this fail.
# The sequence of inputs is that of seed 1, so that a second run of the same build meets the same ones; BARACUDA_FUZZ_SEED starts another.
# BARACUDA_FUZZ_BUILD names another build directory, which is then taken as it is.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- c descriptor npy safetensors text
build=${BARACUDA_FUZZ_BUILD:-}
if [ -z "$build" ]; then
  build=build/fuzz
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz --target $(printf 'fuzz_%s ' "$@")
fi
# One of them; what it says comes in one piece.
fuzz() {
  name=$1 found=$build/corpus/$1 log=$build/corpus/$1.log dictionary=tests/fuzz/$1.dict
  mkdir -p "$found"
  [ -f "$dictionary" ] && dictionary=-dict=$dictionary || dictionary=
  # Nothing that a descriptor or a header says may be allocated: the limits are far below what they can say.
  "$build/tests/fuzz/fuzz_$name" -seed="${BARACUDA_FUZZ_SEED:-1}" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1500 -malloc_limit_mb=256 -max_len=4096 \
    -print_final_stats=1 -print_funcs=0 -verbosity=0 -artifact_prefix="$found/../" $dictionary "$found" "tests/fuzz/corpus/$name" >"$log" 2>&1 && status=0 || status=$?
  if [ $status != 0 ] || grep -qE 'SUMMARY|ERROR: libFuzzer|runtime error' "$log" || ! grep -q number_of_executed_units "$log"; then
    cat "$log" >&2
    return 1
  fi
  printf 'fuzz_%s: %s s\n%s\n' "$name" "$seconds" "$(grep -E 'stat::|plans selected' "$log" | grep -vE '^stat::(new_units|slowest)')"
}
# As many beside one another as there are processors.
bad=0 running=
settle() { for pid in $running; do wait "$pid" || bad=1; done; running=; }
for name in "$@"; do
  [ "$(echo $running | wc -w)" -lt "$(nproc)" ] || settle
  fuzz "$name" &
  running="$running $!"
done
settle
exit $bad
