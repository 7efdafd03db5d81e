#!/bin/sh
# find_package.sh BUILD_DIR COMPILER: installs, moves the prefix, builds and runs the consumer against it, shared and static.
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
if grep -rn "$work/first" "$work/moved/lib" --include='*.cmake'; then echo "absolute paths in the package" >&2; exit 1; fi
for target in baracuda::baracuda baracuda::static; do
  cmake -S "$here" -B "$work/build" -DCMAKE_CXX_COMPILER="$2" -DCMAKE_PREFIX_PATH="$work/moved" -DBARACUDA_TARGET=$target >/dev/null
  cmake --build "$work/build" >/dev/null
  cuda=
  if [ $target = baracuda::baracuda ] && [ -e "$work/moved/lib/libbaracuda_cuda.so" ]; then cuda=cuda; fi  # it lies beside the shared library
  "$work/build/consumer" $cuda
done
