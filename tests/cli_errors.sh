#!/bin/sh
# cli_errors.sh BARACUDA: each wrong call gives one line on stderr that names the fault, and a non-zero exit.
baracuda=$1
failed=0
passed=0
refused() {  # refused "fragment" args...
  fragment=$1; shift
  output=$("$baracuda" "$@" 2>&1 >/dev/null)
  code=$?
  lines=$(printf '%s\n' "$output" | wc -l)
  case $output in *"$fragment"*) found=1 ;; *) found=0 ;; esac
  if [ $code -eq 0 ] || [ $code -gt 2 ] || [ $found -eq 0 ] || [ "$lines" -ne 1 ]; then
    echo "FAILED: baracuda $*: exit $code, $lines lines, want '$fragment' in: $output"; failed=$((failed + 1))
  else passed=$((passed + 1)); fi
}
works() {
  if ! "$baracuda" "$@" >/dev/null 2>&1; then echo "FAILED: baracuda $*: exit $?"; failed=$((failed + 1)); else passed=$((passed + 1)); fi
}
says() {  # says "fragment" args...: on stdout, or in the file that the call writes to $written
  fragment=$1; shift
  rm -f "$written"
  output=$("$baracuda" "$@" 2>&1; cat "$written" 2>/dev/null)
  case $output in *"$fragment"*) passed=$((passed + 1)) ;; *) echo "FAILED: baracuda $*: want '$fragment' in: $output"; failed=$((failed + 1)) ;; esac
}
written=$(mktemp -u)
refused "subcommand"
refused "no command 'fly'" fly
refused "did you mean explain?" explian
refused "did you mean softmax?" explain softmx
refused "no op 'nothing'" explain nothing
refused "no op 'nothing'" ops nothing
refused "not field=value" explain gated shape
refused "no field 'sahpe'" explain gated sahpe=1
refused "one of swiglu" explain gated kind=swish
refused "'mkl' is not one of baracuda" explain gated --require-backend mkl
refused "every kernel refused" explain gated shape=4 --require-backend onednn
refused "no device 'tpu'" explain gated --device tpu
refused "no op 'nothing'" run nothing
refused "no op 'nothing'" verify nothing
refused "no op 'cumsum'; it is a kind of scan: scan --kind cumsum" run cumsum
refused "--x has no value" run unary --x
refused "neither field=value nor --name value" run unary exp
refused "neither FILE.npy nor" run unary --x x.txt
refused "nothing.npy" run unary --x nothing.npy
refused "no field 'knd'" run unary --knd exp
refused "has no such output" run unary shape=2 -o z=z.npy
refused "x is missing" run unary shape=2
refused "no reference" verify alibi_slopes heads=2
refused "no field 'sahpe'" verify gated sahpe=2
refused "i32 is exact" verify unary kind=neg dtype=i32
refused "i64 is exact" verify one_hot shape=4 classes=3
refused "every output of embedding is empty" verify embedding
# An op whose outputs are all optional is given all of them: five tensors of 16 bytes.
says "dgate" verify gated_backward shape=4
says "dup" verify gated_backward shape=4
says '"bytes": 80' bench gated_backward --shape 4 --json "$written"
refused "no op 'nothing'" bench nothing
refused "no field 'sahpe'" bench gated sahpe=2
refused "one of swiglu" bench gated shape=4 kind=reglu,swish
refused "the preference requires kernel gated.cpu.fast" bench gated shape=4 --require-kernel gated.cpu.fast
refused "no/such/folder" bench gated shape=4 --json no/such/folder/x.json
refused "'0' is not a positive number" bench gated shape=4 --repeats 0
refused "'many' is not a positive number" bench gated shape=4 --repeats many
refused "'-1' is not a number of seconds" bench gated shape=4 --seconds=-1
works bench gated shape=4 dtype=f32,bf16 --seconds 0
works bench concat shape=3,4 --seconds 0
works bench adamw --seconds 0 --repeats 1 --elements 1000
works verify gated shape=33,5 dtype=bf16
works verify embedding vocabulary=5 width=4 indices=3
works verify unary --kind exp --shape 100
works verify unary kind=exp dtype=c64 shape=100
works verify gemm m=3 n=4 k=5 dtype=f16
works run random_uniform shape=3 --seed 5
works run --help
works bench --help
works ops
works ops --json
works ops gated
works explain gated shape=4,8
works doctor
works --help
rm -f "$written"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
