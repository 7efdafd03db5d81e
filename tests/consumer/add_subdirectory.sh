#!/bin/sh
# add_subdirectory.sh SOURCE COMPILER: a project that has this tree inside it, one family only, builds and runs.
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S "$here" -B "$work" -G Ninja -DCMAKE_CXX_COMPILER="$2" -DCMAKE_BUILD_TYPE=Release -DBARACUDA_SOURCE="$1" -DBARACUDA_FAMILIES=gated \
  -DBARACUDA_ONEDNN=OFF -DBARACUDA_TARGET=baracuda::static >/dev/null
cmake --build "$work" --target consumer >/dev/null
"$work/consumer"
