#!/usr/bin/env bash
# scripts/planned_figures.sh [PAGE]: plans again what the documents show, and writes the figures into the pages. PAGE is
# a file of tests/golden/planned without .txt; without it all pages are written, about ten minutes on one core.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh release test_golden
page=${1:-*}
TIDEPOOL_REWRITE_GOLDEN=1 build/release/tests/test_golden --gtest_filter="Pages/PlannedFigures.*/${page//-/_}"
git --no-pager diff --stat -- docs
