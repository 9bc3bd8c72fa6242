#!/usr/bin/env bash
# Installs missing Debian or Ubuntu packages. If nothing is missing, needs neither root nor network.
# Usage: scripts/setup.sh [--text], where --text adds the quickstart's text.
set -euo pipefail

usage() { sed -n '2,3s/^# //p' "$0"; }
say() { printf '[setup] %s\n' "$*"; }
fail() {
  printf '[setup] %s\n' "$*" >&2
  exit 1
}

# Debian 12's default Boost (1.74) has no Boost.JSON yet, so the newer version is named there.
boost_packages() {
  if installed libboost-json1.81-dev || has_candidate libboost-json1.81-dev; then
    echo libboost1.81-dev libboost-{json,program-options,context}1.81-dev
  else
    echo libboost-dev libboost-{json,program-options,context}-dev
  fi
}

# Not `apt-cache show`: it succeeds for a package that other packages only mention. Not piped into `grep -q`:
# grep leaves at the first match, apt-cache dies of the closed pipe, and pipefail turns that into a "no".
has_candidate() { [[ "$(LC_ALL=C apt-cache policy "$1" 2>/dev/null)" == *"Candidate: "[0-9]* ]]; }

installed() { [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]; }

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "root is needed once, and there is no sudo; as root, run: $*"
  fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@"; }

# Lists missing packages, one per line. A tool is found by its command, because it may come from another
# source.
missing_packages() {
  command -v g++ >/dev/null || echo g++
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v pkg-config >/dev/null || echo pkg-config
  command -v ccache >/dev/null || echo ccache
  command -v ld.lld >/dev/null || echo lld
  # CMake's search for oneDNN requires OpenCL.
  local package packages=(libfmt-dev libspdlog-dev libyaml-cpp-dev libdnnl-dev ocl-icd-opencl-dev libhwy-dev
    libxxhash-dev libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev liburing-dev libhwloc-dev
    libjemalloc-dev libgtest-dev libgmock-dev "$@")
  # Several nodes need one of the two; the tests run both.
  packages+=(libopenmpi-dev openmpi-bin libmpich-dev mpich)
  # The test of report.html opens it in a browser and is skipped without one. Ubuntu's chromium is a snap,
  # which is not used.
  if ! command -v chromium >/dev/null && has_candidate chromium; then packages+=(chromium); fi
  read -ra boost <<<"$(boost_packages)"
  for package in "${packages[@]}" "${boost[@]}"; do
    installed "$package" || echo "$package"
  done
}

main() {
  local text=() missing
  case "$*" in
    '') ;;
    --text) text=(fortunes fortunes-min) ;;
    --help | -h) usage && return ;;
    *) usage >&2 && return 2 ;;
  esac
  if ! command -v dpkg-query >/dev/null; then
    say "no dpkg here: this script knows Debian 12 and Ubuntu 24.04; elsewhere install by hand what it lists"
    return
  fi
  mapfile -t missing < <(missing_packages "${text[@]}")
  if [[ ${#missing[@]} -eq 0 ]]; then
    say "nothing is missing"
    return
  fi
  # A fresh machine has no package lists; an old machine's lists may name versions that no longer exist.
  say "missing: ${missing[*]}"
  say "updating the package lists"
  apt update -q
  mapfile -t missing < <(missing_packages "${text[@]}")  # the available Boost version is known only now
  say "installing: ${missing[*]}"
  apt install -q -y --no-install-recommends "${missing[@]}"
  say "done"
}

main "$@"
