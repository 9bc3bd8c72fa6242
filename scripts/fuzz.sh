#!/usr/bin/env bash
# Builds the fuzzers in tests/fuzz with clang and runs them one after the other, from the seeds in tests/fuzz/seeds
# and what earlier runs found (build/fuzz/corpus). A finding leaves its input in build/fuzz/found, and is repeated by
# giving that file to the program. Usage: scripts/fuzz.sh [SECONDS_EACH [NAME ...]]; the default is 600 s of each.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
shift || true
command -v clang++ >/dev/null || {
  echo "[fuzz] clang++ is missing; install it (Debian: clang)" >&2
  exit 1
}
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
  for source in tests/fuzz/*_fuzz.cpp; do names+=("$(basename "$source" _fuzz.cpp)"); done
fi
scripts/build.sh fuzz "${names[@]/%/_fuzz}"
mkdir -p build/fuzz/found
failed=()
for name in "${names[@]}"; do
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  echo "[fuzz] $name, $seconds s"
  "build/fuzz/tests/${name}_fuzz" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=16384 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="build/fuzz/found/$name-" "$corpus" "tests/fuzz/seeds/$name" || failed+=("$name")
done
if ((${#failed[@]})); then
  echo "[fuzz] findings: ${failed[*]}; inputs are in build/fuzz/found" >&2
  exit 1
fi
echo "[fuzz] nothing found"
