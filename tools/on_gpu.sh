#!/usr/bin/env bash
# on_gpu.sh [OUT]: everything that is checked on a machine with a GPU. Builds both halves for the card at hand, runs the families'
# tests on it (each run captured in a graph besides), a part of them under compute-sanitizer, tensors beyond 2^31
# elements, and the timing table beside torch. JOBS tests run beside one another (half of the processors' number).
# Needs the CUDA toolkit (nvcc, compute-sanitizer), CMake, GoogleTest and nlohmann_json; for what is timed, python3 with torch. Two devices
# are used where there are two. OUT: folder for logs and JSON (build/gpu). FAMILIES, TESTS, SANITIZED and STEPS name less.
set -uo pipefail -f  # names of tests are patterns
cd "$(dirname "$0")/.."
out=${1:-build/gpu}
mkdir -p "$out"
out=$(realpath "$out")
build=build/gpu-build
FAMILIES=${FAMILIES:-}
STEPS=${STEPS:-tests large times launches cli train sanitizer}
JOBS=${JOBS:-$((($(nproc) + 1) / 2))}
LIMIT=${LIMIT:-900}  # seconds, for one test
TESTS=${TESTS:-cuda_half_test cuda_static_test cuda_streams_test gated_test norm_test layer_norm_test group_norm_test batch_norm_test softmax_test random_test cross_entropy_test \
  fused_linear_cross_entropy_test gemm_test attention_test position_test embedding_test optim_test index_test elementwise_test complex_test \
  copy_test creation_test reduce_test scan_test scan_backward_test linear_recurrence_test quantize_test shape_test select_n_test guarantee_audit_test golden_test}
# TEST:FILTER, tests of every family that are small enough for the sanitizer.
SANITIZED=${SANITIZED:-gated_test:*Values*:*Strides* norm_test:*Values*:*Strides* layer_norm_test:*Values*:*Strides* group_norm_test:*Values*:*Strides* \
  batch_norm_test:*Values*:*Strides* softmax_test:*Values* random_test:*AnySplit*:*ComeFrom*:*Keeps*:*Draws*:*SortTheirKeys*:*Formula* \
  cross_entropy_test:*Values*:*Pitches*:*BackwardScales* fused_linear_cross_entropy_test:*Values*:*Pitches* gemm_test:*NarrowOutputs*:*BroadcastBatch*:*EmptyExtents* \
  attention_test:*Values* position_test:*Values*:*Strides* embedding_test:*Values*:*SortInParts*:*Strided* optim_test:*Values* index_test:*Index*-*Contract*:*case* \
  elementwise_test:*ShapesAndStrides*:OnDevice* complex_test:*ShapesAndStrides* copy_test:*AxisOrders*:*ScaledCasts*:*Fills* creation_test:*Arange*:*Linspace*:*Triangle*:*Eye* \
  reduce_test:*Strides:*Broadcast*:*case_prod*:*FirstIndex* scan_test:*SpecialValues*:*Layouts*:*Broadcast* scan_backward_test:*Layouts*:*Kind* linear_recurrence_test:*Layouts*:*Empty* \
  quantize_test:*Values*:*EveryWay* shape_test:*Pad*:*Permute*:*Pieces* select_n_test:*AnySize*:*Broadcast*}
# What the tools report that is no fault of ours, and where it is written.
KNOWN='initcheck:gemm_test initcheck:fused_linear_cross_entropy_test racecheck:attention_test'  # docs/cuda.md, attention.md
command -v nvidia-smi >/dev/null || { echo "on_gpu.sh: there is no nvidia-smi, so no NVIDIA driver, on this machine"; exit 2; }
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
[ "$arch" = 90 ] && arch=90a
[ -n "$arch" ] || { echo "on_gpu.sh: nvidia-smi names no device"; exit 2; }
start=$SECONDS
step() { printf '\n== %s (at %d s)\n' "$1" $((SECONDS - start)); }
wants() { [[ " $STEPS " = *" $1 "* ]]; }
bad=0
left_out=
# beside FUNCTION LINE...: the function for each line, JOBS of them at a time.
beside() {
  local function=$1 line running=0
  shift
  for line; do
    [ $running -lt "$JOBS" ] || { wait -n || bad=1; running=$((running - 1)); }
    "$function" $line &
    running=$((running + 1))
  done
  while [ $running -gt 0 ]; do wait -n || bad=1; running=$((running - 1)); done
}

step "build for sm_$arch"
cmake -S . -B "$build" -G "$(command -v ninja >/dev/null && echo Ninja || echo 'Unix Makefiles')" -DCMAKE_BUILD_TYPE=Release -DBARACUDA_CUDA=ON \
  "-DBARACUDA_CUDA_ARCHITECTURES=$arch-real" "-DBARACUDA_FAMILIES=$FAMILIES" -DBARACUDA_TESTS=ON -DBARACUDA_PYTHON=OFF -DBARACUDA_ONEDNN=OFF \
  -DBARACUDA_THIS_PROCESSOR=ON >"$out/configure.log" 2>&1 || { tail -20 "$out/configure.log"; exit 1; }
cmake --build "$build" -j"$(nproc)" --target baracuda_shared baracuda_cuda baracuda_cli launch_bench $(printf '%s\n' $TESTS $SANITIZED | sed 's/:.*//' | sort -u) >"$out/build.log" 2>&1 || { grep -E 'error|Error' "$out/build.log" | head -20; exit 1; }
export BARACUDA_CUDA_LIBRARY=$PWD/$build/baracuda/libbaracuda_cuda.so
# torch brings cuDNN; the toolkit's own libraries come first.
libraries=$(python3 -c 'import glob, os, torch; print(":".join(glob.glob(os.path.join(os.path.dirname(torch.__file__), "..", "nvidia", "*", "lib"))))' 2>/dev/null) &&
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${CUDA_PATH:-/usr/local/cuda}/lib64:$libraries
"$build/cli/baracuda" doctor

# one_test NAME: prints a line, and where it failed what it said.
one_test() {
  local log=$out/$1.log code
  BARACUDA_TEST_DEVICE=cuda BARACUDA_TEST_CAPTURE=1 timeout "$LIMIT" "$(find "$build" -name "$1" -type f -perm -u+x | head -1)" --gtest_brief=1 >"$log" 2>&1
  code=$?
  if [ $code = 0 ]; then printf '%-34s %s\n' "$1" "$(grep -E '^\[  (PASSED|SKIPPED) .* tests?[.,]' "$log" | tr '\n' ' ')"; return 0; fi
  printf '%-34s FAILED (%d): %s\n%s\n' "$1" $code "$(grep -cE '^\[  FAILED' "$log") lines" "$(grep -E 'Failure|error|: other|rror:' -A4 "$log" | head -40)"
  return 1
}
if wants tests; then
  step "tests on the card, each run captured in a graph besides"
  beside one_test $TESTS
fi

if python3 -c 'import torch; torch.zeros(1, device="cuda")' 2>"$out/torch.log"; then
  if wants large; then step "tensors of more than 2^31 elements"; python3 tools/gpu_large.py "$build/baracuda/libbaracuda.so" || bad=1; fi
  if wants times; then step "times"; python3 tools/gpu_bench.py "$build/baracuda/libbaracuda.so" --out "$out" || bad=1; fi
  if wants launches && [ -z "$FAMILIES" ]; then
    step "what a run costs the host"
    python3 tools/gpu_launch_bench.py "$build/bench/launch_bench" --out "$out" || bad=1
  fi
else
  left_out=", without large tensors, times and training: $(tail -1 "$out/torch.log")"
fi

if [ -z "$FAMILIES" ]; then
  if wants cli; then step "the command line on the card"; python3 cli/device_test.py "$build/cli/baracuda" data/emma.txt || bad=1; fi
  if wants train && [ -z "$left_out" ]; then
    step "a training step beside torch"
    python3 tools/gpu_train_bench.py "$build/cli/baracuda" data/emma.txt --out "$out" || bad=1
  fi
fi

# sanitize TOOL TEST FILTER: prints a line; 1 where something is wrong that is not known.
sanitize() {
  local log=$out/$1-$2.log code said wrong=0
  BARACUDA_TEST_DEVICE=cuda timeout "$LIMIT" compute-sanitizer --tool "$1" --error-exitcode 9 "$(find "$build" -name "$2" -type f -perm -u+x | head -1)" --gtest_brief=1 \
    --gtest_filter="${SANITIZER_FILTER:-$3}" >"$log" 2>&1
  code=$?
  grep -q '\[==========\] 0 tests' "$log" && code='no test of that name'
  said=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -1)
  if [ "$code" = 9 ] && [[ " $KNOWN " = *" $1:$2 "* ]]; then said="known reports: $said"
  elif [ "$code" != 0 ]; then wrong=1 said="FAILED ($code): $said"; fi
  printf '%-12s %-34s %s\n' "$1" "$2" "$said"
  return $wrong
}
if wants sanitizer; then
  step "compute-sanitizer"
  lines=()
  for line in $SANITIZED; do
    for tool in racecheck memcheck initcheck synccheck; do lines+=("$tool ${line%%:*} ${line#*:}"); done
  done
  beside sanitize "${lines[@]}"
fi

printf '\n%s in %d s%s\n' "$([ $bad = 0 ] && echo 'all steps passed' || echo 'SOMETHING FAILED')" $((SECONDS - start)) "$left_out"
exit $bad
