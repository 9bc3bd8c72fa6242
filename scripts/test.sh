#!/usr/bin/env bash
# Runs the tests. Without options: a release build and every suite; from scratch about half an hour on
# 2 cores. --all, before a change lands: all suites, then those for which sanitizers matter most, then all
# CUDA code if a toolkit is installed, and for CUDA 12's oldest GPU if its tools are installed.
# TIDEPOOL_TEST_ALL_CASES=1 in the environment: release runs all random cases, and all pairs of placement
# settings, instead of a sample; half an hour more.
# Usage: scripts/test.sh [--all] [--require-cuda] [release|asan|tsan|cuda ...]
#   --all            all stages
#   --require-cuda   a machine without a CUDA toolkit fails, instead of skipping that stage
#   stages           only these stages
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

usage="usage: scripts/test.sh [--all] [--require-cuda] [release|asan|tsan|cuda ...]"
cuda_required=0
stages=()
for argument in "$@"; do
  case "$argument" in
    --all) stages=(release asan tsan cuda) ;;
    --require-cuda)
      cuda_required=1
      stages+=(cuda)
      ;;
    release | asan | tsan | cuda) stages+=("$argument") ;;
    *)
      echo "$usage" >&2
      exit 2
      ;;
  esac
done
if ((${#stages[@]} == 0)); then stages=(release); fi
results=() losers=() reasons=()
failed=0

wanted() { [[ " ${stages[*]} " == *" $1 "* ]]; }

# stage NAME COMMAND ...: runs the command and records its verdict and its time.
stage() {
  local name=$1 begin=$SECONDS verdict=ok
  shift
  printf '\n== %s\n' "$name"
  "$@" || verdict=FAILED
  [[ $verdict == ok ]] || failed=1
  results+=("$(printf '  %-34s %-7s %4d s' "$name" "$verdict" $((SECONDS - begin)))")
  [[ $verdict == ok ]]
}

# skip NAME WHY: prints the reason now, and again in the summary.
skip() {
  printf '\n== %s\n   SKIPPED: %s\n' "$1" "$2"
  results+=("$(printf '  %-34s %-7s %s' "$1" SKIPPED "$2")")
}

has_cuda_toolkit() {
  command -v nvcc >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]
}

# shellcheck disable=SC2317  # called through stage
no_cuda_toolkit() {
  echo "no CUDA toolkit: put nvcc on the PATH or into /usr/local/cuda, or name its folder with CUDA_HOME"
  return 1
}

# Runs suites of a preset, two tests per core: some wait for timeouts, launchers or the disk. TSan of GCC 12
# does not know the address layout of newer kernels, so address randomisation is switched off if permitted.
# shellcheck disable=SC2317  # called through stage
suites() {
  local preset=$1 labels=$2 fixed=()
  shift 2
  if [[ $preset == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then fixed=(setarch "$(uname -m)" -R); fi
  local list=build/$preset/Testing/Temporary/LastTestsFailed.log name
  rm -f "$list"
  "${fixed[@]}" ctest --test-dir "build/$preset" -L "^($labels)\$" --output-on-failure --no-tests=error \
    --parallel "$((2 * $(nproc)))" "$@" && return
  if [[ -f $list ]]; then
    while IFS=: read -r _ name; do
      losers+=("$preset: $name")
      reasons+=("$(reason "${list%sFailed.log}.log" "${name%%  #*}")")
    done <"$list"
  fi
  return 1
}

# reason LOG NAME: from ctest's log of all tests, a test's lines from its first failure on; or its last ones.
# shellcheck disable=SC2317  # called through stage
reason() {
  printf '\n    %s\n' "$2"
  awk -v name="$2" '
    /^[0-9]+\/[0-9]+ Test: / {
      sub(/^[0-9]+\/[0-9]+ Test: /, "")
      inside = $0 == name || index($0, name "  #") == 1
    }
    inside && /^<end of output>/ { ended = 1; inside = 0 }
    !inside || ended { next }
    !first && /Failure$|ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error|CHECK\(/ { first = NR }
    { lines[NR] = substr($0, 1, 300); last = NR }
    END {
      for (n = first ? first : last - 39; n <= last && (!first || n < first + 12); n++)
        if (n in lines) print "      " lines[n]
    }' "$1"
}

# Compiles and links all CUDA code, and the code that it calls, in the build folder of release, whose objects
# are the same. Afterwards the build is configured as before.
# shellcheck disable=SC2317  # called through stage
build_cuda() {
  cmake --preset release -DTIDEPOOL_CUDA=ON -DTIDEPOOL_CUDA_ARCHITECTURES=newest &&
    scripts/build.sh release tidepool test_gpu
  local code=$?
  cmake --preset release -DTIDEPOOL_CUDA=AUTO -DTIDEPOOL_CUDA_ARCHITECTURES=native >/dev/null &&
    scripts/build.sh release tidepool >/dev/null || return 1
  return "$code"
}

# These tests take minutes each under ASan, over code most of which shorter tests cover too. Release runs them.
searches='^SimSwarm\.FindsNoHazard|^DataChat\.AChatWhoseAnswers|LiveRun\.TenResizes|^FaultInProbe\.Without'
searches+='|^CommittedState\.IsResumedFromUnderAnother|CpuTraining\.|/UnreadStream\.|^RunLogFile\.OnAFullDisk'
searches+='|^TrainEpochs\.|^ResumeAdvice\.|/Signals\..*SIG(HUP|INT)'
searches+='|/NodesTraining\.|^TokenizerRefusals\.LinesAreWords|^Blocks\.Gradients.*AreDeriv'

# Threads do the same in every precision and under every rule of updates, so TSan sees two of each training.
repeats='Trainings/.*Training\..*/(fp32|bf16|fp16_several)'
repeats+='|PreferenceRun\..*/(orpo|cpo|simpo|reward)|^Evaluate\.Messages|^EarlyStop\..*(End|Other)'

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

begin=$SECONDS
if ! stage "packages" scripts/setup.sh; then exit 1; fi

if wanted release; then
  stage "build release" scripts/build.sh release &&
    stage "all suites, release" suites release '.*'
fi
unset TIDEPOOL_TEST_ALL_CASES
if wanted asan; then
  stage "build asan + ubsan" scripts/build.sh asan test_memory test_contract test_fault &&
    stage "memory, contract, fault: asan + ubsan" suites asan 'unit_memory|contract|fault' -E "$searches"
fi
if wanted tsan; then
  stage "build tsan" scripts/build.sh tsan test_contract &&
    stage "contract: tsan" suites tsan contract -E "$repeats"
fi

if wanted cuda; then
  if has_cuda_toolkit; then
    # The CUDA tests run emulated in release, and on a GPU in test_gpu.
    stage "build cuda" build_cuda
  elif ((cuda_required)); then
    stage "build cuda" no_cuda_toolkit
  else
    skip "build cuda" "no CUDA toolkit (nvcc on the PATH, CUDA_HOME or /usr/local/cuda)"
  fi
  if why=$(scripts/check_cuda12.sh --has); then
    stage "compile for CUDA 12, sm_70" scripts/check_cuda12.sh
  else
    skip "compile for CUDA 12, sm_70" "$why"
  fi
fi

printf '\n== summary\n'
printf '%s\n' "${results[@]}"
if ((${#losers[@]})); then
  printf '    did not pass: %s\n' "${losers[@]}"
  printf '%s\n' "${reasons[@]}"
fi
printf '  %-34s %-7s %4d s\n' "all" "$([[ $failed -eq 0 ]] && echo ok || echo FAILED)" $((SECONDS - begin))
exit "$failed"
