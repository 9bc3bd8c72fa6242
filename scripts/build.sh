#!/usr/bin/env bash
# Builds changed files. Usage: scripts/build.sh [PRESET [TARGET ...]]; the default is all of release.
# Presets: release, debug, cuda, asan, tsan, fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,3s/^# //p' scripts/build.sh; }
case ${1:-} in
  --help | -h) usage && exit ;;
  -*) usage >&2 && exit 2 ;;
esac

preset=${1:-release}
[[ $# -gt 0 ]] && shift

# One job per core, limited to one per GiB of free memory: sanitizer builds of the heaviest files take that
# much.
cores=$(nproc)
memory_gib=$(($(awk '/^MemAvailable/ {print $2}' /proc/meminfo) / 1048576))
jobs=$((memory_gib < cores ? (memory_gib > 0 ? memory_gib : 1) : cores))

if [[ ! -f build/$preset/build.ninja ]]; then
  printf '[build] configuring %s\n' "$preset"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
  fi
  grep '^-- CUDA:' "$log" || true  # prints whether CUDA is built, or why not
fi
targets=()
for target in "$@"; do targets+=(--target "$target"); done
printf '[build] %s: %s, %d at a time\n' "$preset" "${*:-everything}" "$jobs"
cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}"
