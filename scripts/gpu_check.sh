#!/usr/bin/env bash
# What only a machine with a GPU can check. Each part takes a few minutes.
#
#   scripts/gpu_check.sh --build   builds for the card of this machine, in build/gpu
#   scripts/gpu_check.sh --tests   the GPU test suite (test_gpu): every kernel against its reference on the host,
#                                  a whole model, whole runs of training under many placements; then a short run
#                                  of the program, and compute-sanitizer on small kernels where it is installed
#
#   scripts/gpu_check.sh --bench NAME   one of the benchmarks, under 8 minutes; --bench --list names them. Also
#                                  --bench all, --bench NAME --dry-run, and --bench NAME --tiny, which tries the
#                                  script itself on the cores. Rows go into build/gpu/bench/bench.md and bench.json
#
# --tests writes build/gpu/check.md: the card, its driver, the toolkit, the commit, and what passed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

build=build/gpu
report=$build/check.md

usage() {
  sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

build_for_this_card() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTIDEPOOL_CUDA=ON -DTIDEPOOL_CUDA_ARCHITECTURES=native &&
    cmake --build "$build" --parallel "$(nproc)" --target tidepool test_gpu
}

heading() {
  {
    printf '# GPU check\n\n'
    printf -- '- card: %s\n' "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -1)"
    printf -- '- toolkit: %s\n' "$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt" | head -1)"
    printf -- '- commit: %s\n- date: %s\n\n' "$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" "$(date -u +%F)"
    printf '| part | verdict | seconds |\n|---|---|---:|\n'
  } >"$report"
}

failed=0
part() {
  local name=$1 begin=$SECONDS verdict=passed
  shift
  printf '\n== %s\n' "$name"
  "$@" || verdict=FAILED
  [[ $verdict == passed ]] || failed=1
  printf '| %s | %s | %d |\n' "$name" "$verdict" $((SECONDS - begin)) >>"$report"
}

short_run() {
  local dir
  dir=$(mktemp -d -p "$build")
  "$build/tidepool" train configs/quickstart.yaml machine.executor=cuda memory.device=256MiB train.max_steps=20 \
    output.dir="$dir"
  local code=$?
  rm -rf "$dir"
  return $code
}

require_gpu() {
  if ! nvidia-smi >/dev/null 2>&1; then
    echo "gpu_check: no GPU here (nvidia-smi finds none)" >&2
    exit 1
  fi
}

# Options that need no GPU try or list what would be run.
bench() {
  local word need=require_gpu
  for word in "$@"; do
    case $word in --list | --tiny | --dry-run | --help | -h) need=: ;; esac
  done
  $need
  exec python3 tests/bench/gpu_rows.py "$@"
}

tests() {
  require_gpu
  if [[ ! -x $build/tests/test_gpu ]]; then
    echo "gpu_check: nothing is built: scripts/gpu_check.sh --build" >&2
    exit 1
  fi
  heading
  part "GPU test suite" "$build/tests/test_gpu" --gtest_brief=1
  part "20 steps of the quickstart" short_run
  if command -v compute-sanitizer >/dev/null; then
    part "compute-sanitizer, small kernels" compute-sanitizer --error-exitcode 1 "$build/tests/test_gpu" \
      --gtest_brief=1 --gtest_filter='*LayerNorm*:*Gelu*:*Embedding*'
  fi
  cat "$report"
  exit "$failed"
}

case "${1:-}" in
  --build) build_for_this_card ;;
  --tests) tests ;;
  --bench) shift && bench "$@" ;;
  *) usage ;;
esac
