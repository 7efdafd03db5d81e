#!/bin/sh
# Installs what a task needs: tools/setup.sh demo|test|bench. Debian 12 and Ubuntu 24.04 packages through apt, Python
# packages (tests only) into .venv. Does nothing where everything is there; without root or network it names what is missing.
set -u
cd "$(dirname "$0")/.."
task=${1:-demo}
packages="g++ cmake ninja-build libcli11-dev libfmt-dev nlohmann-json3-dev libdlpack-dev libdnnl-dev"
case $task in
  demo) ;;
  test) packages="$packages libgtest-dev zlib1g-dev clang libclang-rt-dev python3-venv librsvg2-bin" ;;
  bench) packages="$packages libgtest-dev libbenchmark-dev python3-venv" ;;
  *) echo "setup: unknown task '$task' (demo, test, bench)" >&2; exit 2 ;;
esac
missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ]; then sudo=""; elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo="sudo"; else
    echo "setup: these packages are missing and there is no root to install them:$missing" >&2; exit 1
  fi
  echo "setup: installing$missing"
  if ! { $sudo apt-get -qq update && DEBIAN_FRONTEND=noninteractive $sudo apt-get -qq install -y --no-install-recommends $missing; } >/tmp/baracuda-setup.log 2>&1; then
    tail -n 3 /tmp/baracuda-setup.log >&2
    echo "setup: apt could not install (is there a network?):$missing" >&2; exit 1
  fi
fi
if [ "$task" != demo ]; then
  requirements=tests/reference/requirements.txt
  if ! cmp -s $requirements .venv/requirements.txt; then
    echo "setup: Python packages into .venv: $(grep -v '^#' $requirements | tr '\n' ' ')"
    if ! { python3 -m venv .venv && .venv/bin/pip install -q -r $requirements && cp $requirements .venv/requirements.txt; } >/tmp/baracuda-setup.log 2>&1; then
      tail -n 3 /tmp/baracuda-setup.log >&2
      echo "setup: pip could not install (is there a network?): $(grep -v '^#' $requirements | tr '\n' ' ')" >&2; exit 1
    fi
  fi
fi
