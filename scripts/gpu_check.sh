#!/usr/bin/env bash
# Checks that need a machine with a GPU. Each part takes under eight minutes.
#
#   scripts/gpu_check.sh --build   builds for the card of this machine, in build/gpu (for another: --pack)
#   scripts/gpu_check.sh --tests   the GPU test suite (test_gpu), each suite in a process of its own: every
#                 kernel against its reference on the host, a whole model, whole runs of training under many
#                 placements; then a short run of the program, gradients against PyTorch, and
#                 compute-sanitizer on small kernels, each where it is installed
#   scripts/gpu_check.sh --bench NAME   one of the benchmarks; --bench --list names them. Also --bench all,
#                 and --bench prepare, which makes what several benchmarks need
#   scripts/gpu_check.sh --pack DIR [--architectures "90 ..."]   builds here, GPU or not, for a machine that
#                 has a CUDA toolkit but not our packages: DIR holds the programs, the libraries they need,
#                 and this script, which uses them; DIR.tar.gz is the same, for slow uploads: at most 50 MB
#   scripts/gpu_check.sh --call [N]   for a card that is available for half an hour: the N-th of a few calls,
#                 each under ten minutes; without N: lists them. --to DIR takes the results, at most
#                 eight files
#
# --tests, --bench and --call: --prebuilt DIR (or DIR.tar.gz) runs the programs of --pack, --cuda DIR names
# the toolkit whose libraries they use, --python FILE a Python with PyTorch, and --tiny tests the script
# itself on the CPU; --bench also has --dry-run. --tests writes build/gpu/check.md and check.json, --bench
# writes build/gpu/bench/bench.md and bench.json: the card, its driver, the toolkit, the commit, and the
# results.
#
# Paths are relative to the folder where the script is called. A signal also ends the running part, and
# finished results are kept. Exit codes: 0, 1 (something failed or is missing), 2 (wrong options, or the
# folder of results is another run's), 130 and 143 (SIGINT, SIGTERM).
set -uo pipefail
caller=$PWD
cd "$(dirname "$0")/.." || exit 1
root=$PWD

help() { sed -n '2,/^set /s/^# \{0,1\}//p' "$root/scripts/gpu_check.sh"; }

usage() {
  [[ $# -eq 0 ]] || printf 'gpu_check: %s\n' "$*" >&2
  help >&2
  exit 2
}

fail() {
  printf 'gpu_check: %s\n' "$*" >&2
  exit 1
}

build_for_this_card() {
  [[ $# -eq 0 ]] || usage "--build takes no further words: $*"
  nvidia-smi >/dev/null 2>&1 || fail "no GPU here (nvidia-smi finds none): --pack builds for another machine"
  cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DTIDEPOOL_CUDA=ON \
    -DTIDEPOOL_CUDA_ARCHITECTURES=native &&
    cmake --build build/gpu --parallel "$(nproc)" --target tidepool test_gpu
}

# Writes no __pycache__, because the clone may be read-only.
run() {
  local script=$root/$1
  shift
  cd "$caller" || exit 1
  exec python3 -B "$script" "$@"
}

# ---- packing

archive_bytes_max=50000000

# Lists the libraries of programs that a Linux with a CUDA toolkit may lack. The C and C++ libraries are the
# machine's own: newer versions run programs linked with older versions, never the other way round. CUDA's
# libraries come with the toolkit, or with PyTorch.
carried_libraries() {
  ldd "$@" | sed -n 's/^\t\(.*\) => \(\/.*\) (0x.*/\1 \2/p' | sort -u |
    grep -vE '^(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcu[a-zA-Z]*|libnv[a-zA-Z-]*)\.so'
}

# RPATH and not RUNPATH, because RPATH also applies to the libraries' own dependencies. CMake appends the
# toolkit's folder.
build_to_pack() {
  cmake -S . -B build/pack -G Ninja -DCMAKE_BUILD_TYPE=Release -DTIDEPOOL_CUDA=ON \
    -DTIDEPOOL_CUDA_ARCHITECTURES="${1// /;}" -DCMAKE_BUILD_RPATH="\$ORIGIN/lib;/usr/local/cuda/lib64" \
    -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags &&
    cmake --build build/pack --parallel "${PACK_JOBS:-$(nproc)}" --target tidepool test_gpu
}

describe_pack() {
  local nvcc needs
  nvcc=$(sed -n 's/^TIDEPOOL_NVCC:[A-Z]*=//p' build/pack/CMakeCache.txt)
  needs=$(readelf -d "$1/tidepool" "$1/test_gpu" | sed -n 's/.*(NEEDED).*\[\(libcu.*\)\]/"\1"/p' |
    sort -u | paste -sd, -)
  printf '{"commit": "%s", "architectures": "%s", "toolkit": "%s", "needs": [%s], "date": "%s"}\n' \
    "$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)" "$2" \
    "$("$nvcc" --version | sed -n 's/.*release .*, V//p')" "$needs" "$(date -u +%F)" >"$1/packed.json"
}

# Every library must come from the folder, or be present on the other machine.
check_pack() {
  local outside
  outside=$(carried_libraries "$1/tidepool" "$1/test_gpu" | grep -v " $1/lib/")
  [[ -z $outside ]] || fail "these would not be found elsewhere: $outside"
  "$1/tidepool" --version || fail "$1/tidepool does not start"
  local tests
  tests=$("$1/test_gpu" --gtest_list_tests | grep -c '^  ') || fail "$1/test_gpu does not start"
  printf '%s tests in test_gpu\n' "$tests"
}

# Uploads may be slow. An archive that is too large is kept, for a faster upload.
check_size() {
  local bytes
  bytes=$(stat -c %s "$1.tar.gz") || exit 1
  du -sh --apparent-size "$1" "$1.tar.gz"
  ((bytes > archive_bytes_max)) || return 0
  printf 'gpu_check: the largest files of %s, each as it is and compressed:\n' "$1" >&2
  find "$1" -type f -printf '%s %p\n' | sort -rn | head -5 | while read -r size file; do
    printf '  %4d MB %4d MB  %s\n' $((size / 1000000)) $(($(gzip -c "$file" | wc -c) / 1000000)) "${file#"$1"/}" >&2
  done
  fail "$1.tar.gz has $((bytes / 1000000)) MB, and $((archive_bytes_max / 1000000)) MB are the most: name fewer architectures"
}

pack() {
  local dir=${1:-} architectures=90 name file
  case $dir in
    --help | -h) help && exit ;;
    '' | -*) usage "--pack wants a folder" ;;
    /*) ;;
    *) dir=$caller/$dir ;;
  esac
  shift
  if [[ ${1:-} == --architectures && -n ${2:-} ]]; then
    architectures=$2
    shift 2
  fi
  [[ $# -eq 0 ]] || usage "--pack DIR takes --architectures \"90 ...\", and no more: $*"
  [[ ! -e $dir || -e $dir/packed.json || -z $(ls -A "$dir") ]] || fail "$dir holds other files: name another"
  build_to_pack "$architectures" || fail "the build failed"
  rm -rf "$dir" && mkdir -p "$dir/lib" "$dir/scripts" "$dir/tests/bench" "$dir/configs/gpu" || exit 1
  dir=$(realpath "$dir")
  strip -o "$dir/tidepool" build/pack/tidepool && strip -o "$dir/test_gpu" build/pack/tests/test_gpu || exit 1
  while read -r name file; do
    strip --strip-unneeded -o "$dir/lib/$name" "$file" || exit 1
  done < <(carried_libraries build/pack/tidepool build/pack/tests/test_gpu)
  cp scripts/gpu_check.sh "$dir/scripts" && cp tests/bench/*.py "$dir/tests/bench" &&
    cp configs/quickstart.yaml "$dir/configs" && cp configs/gpu/*.yaml "$dir/configs/gpu" || exit 1
  describe_pack "$dir" "$architectures"
  check_pack "$dir"
  tar -C "$(dirname "$dir")" -czf "$dir.tar.gz" "$(basename "$dir")" || exit 1
  check_size "$dir"
  printf 'There: scripts/gpu_check.sh --tests --prebuilt %s\n' "$(basename "$dir")[.tar.gz]"
}

case "${1:-}" in
  --help | -h) help ;;
  --build) shift && build_for_this_card "$@" ;;
  --tests) shift && run tests/bench/gpu_tests.py "$@" ;;
  --bench) shift && run tests/bench/gpu_rows.py "$@" ;;
  --call) shift && run tests/bench/gpu_calls.py "$@" ;;
  --pack) shift && pack "$@" ;;
  '') usage ;;
  *) usage "there is no $1" ;;
esac
