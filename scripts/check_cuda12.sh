#!/usr/bin/env bash
# Compiles all CUDA code for the oldest toolkit and the oldest GPU that are supported: CUDA 12.0, sm_70
# (V100), and two files for sm_75. CUDA 13 supports neither 12.0 nor sm_70, so a build with CUDA 13 does not
# show what broke. Nothing is linked or run.
#
#   scripts/check_cuda12.sh [DIR]           compiles with DIR, CUDA12_HOME or build/cuda12
#   scripts/check_cuda12.sh --has [DIR]     checks whether that is possible here; says what is missing
#   scripts/check_cuda12.sh --fetch         downloads the tools into build/cuda12: 400 MB, once
#
# DIR is a toolkit. PyPI has CUDA 12's headers and ptxas, but no nvcc: without nvcc, clang translates kernels
# to PTX.
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' scripts/check_cuda12.sh; }

wrong() {
  printf 'check_cuda12: %s\n' "$*" >&2
  usage >&2
  exit 2
}

architecture=sm_70
fetched=build/cuda12
# The last builds of 12.0. Only the header of cuBLAS is needed.
packages=(nvidia-cuda-nvcc-cu12==12.0.140 nvidia-cuda-runtime-cu12==12.0.146 nvidia-cuda-cccl-cu12==12.0.140
  nvidia-nvtx-cu12==12.0.140 nvidia-cublas-cu12==12.0.2.224)

# clang 17 is the first version that reads CUDA 12's headers.
find_clang() {
  local version
  for version in 21 20 19 18 17; do
    if command -v "clang++-$version"; then return; fi
  done
  return 1
}

# Prints CUDART_VERSION of the headers: 12000 is 12.0.
version_of() {
  sed -n 's/^#define CUDART_VERSION *\([0-9]*\).*/\1/p' "$1/include/cuda_runtime_api.h" 2>/dev/null
}

missing() {
  local version
  version=$(version_of "$1") || true
  if [[ ! -f $1/include/cuda_runtime.h || ! -f $1/include/cublasLt.h ]]; then
    echo "no CUDA 12 in $1 (CUDA12_HOME names one; scripts/check_cuda12.sh --fetch gets one)"
  elif [[ $version != 12??? ]]; then
    echo "the headers in $1 are of CUDART_VERSION ${version:-unknown}, and CUDA 12 (12000 to 12999) is wanted"
  elif [[ ! -x $1/bin/nvcc ]] && ! find_clang >/dev/null; then
    echo "$1 has no nvcc, and there is no clang++ of 17 or newer (Debian 12: clang-19)"
  fi
}

fetch() {
  if [[ -f $fetched/include/cublasLt.h ]] && find_clang >/dev/null; then return; fi
  if ! find_clang >/dev/null; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends clang-19
  fi
  local part=$fetched.part wheel
  rm -rf "$part" && mkdir -p "$part"/{bin,include,nvvm/libdevice}
  python3 -m pip download -q --no-deps -d "$part/wheels" "${packages[@]}"
  for wheel in "$part"/wheels/*.whl; do
    python3 - "$wheel" "$part/files" <<'P'
import sys, zipfile
folders = ("/include/", "/bin/", "/libdevice/")
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if any(f in name for f in folders)])
P
  done
  cp -r "$part"/files/nvidia/{cuda_runtime,cuda_cccl,nvtx,cublas}/include/. "$part/include"
  cp "$part"/files/nvidia/cuda_nvcc/bin/ptxas "$part/bin" && chmod +x "$part/bin/ptxas"
  cp "$part"/files/nvidia/cuda_nvcc/nvvm/libdevice/* "$part/nvvm/libdevice"
  rm -rf "$part/wheels" "$part/files" "$fetched"
  mv "$part" "$fetched"
}

# Prints the compile commands, one per line.
commands() {
  local home=$1 file cxx=${CXX:-g++} common="-std=c++20 -Iinclude -I. -Isrc" kernels
  local warnings="-Wall -Wextra -Wno-missing-field-initializers"
  if [[ -x $home/bin/nvcc ]]; then
    kernels="$home/bin/nvcc -ccbin $cxx -arch=$architecture -cubin -fmad=false --expt-relaxed-constexpr"
  else
    # -Wno-pass-failed: the optimizer warns about loops that it does not unroll despite nvcc's pragmas.
    kernels="$(find_clang) -x cuda --cuda-path=$home --cuda-gpu-arch=$architecture --cuda-device-only -O3 \
      -ffp-contract=off -Wno-unknown-cuda-version -Wno-pass-failed -c"
  fi
  for file in {kernels,src/optimizers}/*/*_cuda.cu; do
    echo "$kernels $common $file -o /dev/null"
  done
  # sm_75 has tensor cores of its own, which attention and experts use.
  for file in kernels/{attention/attention,experts/grouped_gradient}_cuda.cu; do
    echo "${kernels/$architecture/sm_75} $common $file -o /dev/null"
  done
  for file in kernels/{*/*_cuda,kernels_cuda,cuda/*}.cpp src/executor/cuda/*.cpp; do
    echo "$cxx -fsyntax-only $warnings $common -isystem $home/include $file"
  done
}

from_caller() { [[ $1 == /* ]] && echo "$1" || echo "$caller/$1"; }

home=$fetched
[[ -z ${CUDA12_HOME:-} ]] || home=$(from_caller "$CUDA12_HOME")
has=
case "${1:-}" in
  --help | -h) usage && exit ;;
  --fetch)
    [[ $# -eq 1 ]] || wrong "--fetch takes no further words"
    fetch
    exit
    ;;
  --has) has=yes && shift ;;
esac
[[ $# -le 1 && ${1:-} != -* ]] || wrong "one folder, or none: $*"
[[ -z ${1:-} ]] || home=$(from_caller "$1")
why=$(missing "$home")
if [[ -n $why ]]; then
  echo "$why"
  exit 1
fi
[[ -z $has ]] || exit 0
# For each failed command, a FAILED line stands above its errors.
commands "$home" | xargs -P "$(nproc)" -I{} bash -c '{} 2>&1 || { echo "FAILED: {}"; exit 1; }'
