#!/usr/bin/env bash
# Builds the fuzzers in tests/fuzz with clang, and only what they need, and runs each from its seeds
# (tests/fuzz/seeds) and from inputs that earlier runs found (build/fuzz/corpus). Prints how far each came; the
# exit code is 1 if a fuzzer found a failure. Failing inputs are in build/fuzz/found, printed output is in
# build/fuzz/log.
# Usage: scripts/fuzz.sh [-j AT_A_TIME] [SECONDS_EACH [NAME ...]]; the default is 600 s each, one at a time
# per core.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  echo "usage: scripts/fuzz.sh [-j AT_A_TIME] [SECONDS_EACH [NAME ...]]" >&2
  exit 2
}

at_a_time=$(nproc)
while getopts j: option; do
  case "$option" in
    j) at_a_time=$OPTARG ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
seconds=${1:-600}
shift || true
[[ $at_a_time =~ ^[1-9][0-9]*$ && $seconds =~ ^[1-9][0-9]*$ ]] || usage
command -v clang++ >/dev/null || {
  echo "[fuzz] clang++ is missing; install it (Debian: clang)" >&2
  exit 1
}
known=()
for source in tests/fuzz/*_fuzz.cpp; do known+=("$(basename "$source" _fuzz.cpp)"); done
names=("${@:-${known[@]}}")
for name in "${names[@]}"; do
  [[ " ${known[*]} " == *" $name "* ]] || {
    echo "[fuzz] $name: there is no such fuzzer; there are ${known[*]}" >&2
    exit 2
  }
done

scripts/build.sh fuzz "${names[@]/%/_fuzz}"
mkdir -p build/fuzz/found build/fuzz/log

# run NAME: replaces this shell with the fuzzer, so that the trap below ends the fuzzer.
run() {
  local name=$1 corpus=build/fuzz/corpus/$1
  mkdir -p "$corpus"
  exec "build/fuzz/tests/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/found/$name-" "$corpus" "tests/fuzz/seeds/$name" \
    >"build/fuzz/log/$name" 2>&1
}

# summary NAME STATUS
summary() {
  local log=build/fuzz/log/$1 input=
  local runs coverage
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  local verdict="nothing found"
  [[ $2 -eq 0 ]] || verdict="FOUND ${input:-something}, see $log"
  printf '[fuzz] %-18s %10s runs, %6s edges: %s\n' "$1" "${runs:-?}" "${coverage:-?}" "$verdict"
}

echo "[fuzz] ${#names[@]} of them, $seconds s each, $at_a_time at a time"
trap 'kill $(jobs -p) 2>/dev/null' EXIT
declare -A running=()  # name by process
found=0
wait_for_one() {
  local process status=0
  wait -n -p process "${!running[@]}" || status=$?
  summary "${running[$process]}" "$status"
  [[ $status -eq 0 ]] || found=1
  unset "running[$process]"
}
for name in "${names[@]}"; do
  ((${#running[@]} < at_a_time)) || wait_for_one
  run "$name" &
  running[$!]=$name
done
while ((${#running[@]})); do wait_for_one; done
trap - EXIT
exit "$found"
