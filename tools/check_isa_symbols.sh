#!/bin/sh
# check_isa_symbols.sh OBJECT...
# Objects that are compiled once per instruction set may define symbols only inside their own namespace
# (baracuda::portable, avx2, avx512, avx512bf16, amx). Anything else, an inline function or template of the standard library
# for example, exists once per set under one name: the linker keeps any one of them, and code for a processor that is not
# there may run. Local symbols, type names and references to other units are harmless.
set -eu
[ $# -gt 0 ] || { echo "usage: $0 OBJECT..." >&2; exit 2; }
bad=0
for object in "$@"; do
  symbols=$(nm -C --defined-only "$object" | grep -E '^[0-9a-f]* [TDBRGSWVCu] ' |
            grep -vE 'baracuda::(portable|avx2|avx512|avx512bf16|amx)::' | grep -vE ' typeinfo (name )?for | (__odr_asan|__asan_|__tsan_|__ubsan_)' || true)
  if [ -n "$symbols" ]; then
    echo "$object defines outside its namespace:"
    echo "$symbols" | cut -c 18-
    bad=1
  fi
done
[ $bad -eq 0 ] && echo "$# objects: every symbol in its own namespace"
exit $bad
