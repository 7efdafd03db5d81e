#!/bin/sh
# bench.sh [NAME...]: runs the benchmarks of build/bench (all of them, or norm_bench gemm_bench ...) and writes what they
# measured to bench/results/NAME_cpu.json, with the processor's name. Quiet machine, please: figures are quoted in the pages.
set -eu
cd "$(dirname "$0")/.."
mkdir -p bench/results
[ $# -gt 0 ] || set -- $(find build/bench/baracuda -name '*_bench' -type f -perm -u+x -printf '%f\n' | sort)
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
for name in "$@"; do
  file=$(find build/bench/baracuda -name "$name" -type f -perm -u+x | head -n 1)
  [ -n "$file" ] || { echo "bench: no benchmark '$name' in build/bench" >&2; exit 1; }
  "$file" --benchmark_out="bench/results/${name%_bench}_cpu.json" --benchmark_out_format=json --benchmark_context=processor="$processor" \
    --benchmark_min_time=0.3
done
