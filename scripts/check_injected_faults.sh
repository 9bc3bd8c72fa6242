#!/usr/bin/env bash
# Fails each write, fsync, rename, open, preallocation and truncation of a run of 20 steps, one call of one run at a
# time, with ENOSPC and with EIO: the run must continue or report the failure, and resume to the same bits.
# Usage: scripts/check_injected_faults.sh [PRESET]. Takes some minutes; `scripts/test.sh` runs a sample.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ ${1:-} == -* ]] && { sed -n '2,4s/^# //p' scripts/check_injected_faults.sh; exit 2; }

preset=${1:-release}
scripts/build.sh "$preset" tidepool test_fault
TIDEPOOL_FAULTS=all exec "build/$preset/tests/test_fault" --gtest_filter='*InjectedFaults*'
