# Two commands do everything on a fresh Debian 12: `make demo` and `make test`. Each installs what it needs first.
.PHONY: demo test bench sanitize tables clean
PYTHON := .venv/bin/python

demo:
	tools/setup.sh demo
	cmake --preset demo >/dev/null && cmake --build --preset demo
	build/demo/cli/baracuda train --preset tiny --checkpoint build/demo/tiny.safetensors --svg build/demo/loss.svg

test:
	tools/setup.sh test
	cmake --preset dev >/dev/null && cmake --build --preset dev
	ctest --preset dev

sanitize:
	tools/setup.sh test
	cmake --preset asan >/dev/null && cmake --build --preset asan
	ctest --preset asan
	cmake --preset tsan >/dev/null && cmake --build --preset tsan --target thread_team_test gated_test core_test
	ctest --preset tsan -R '^(thread_team|gated|core)_test$$'

bench:
	tools/setup.sh bench
	cmake --preset bench >/dev/null && cmake --build --preset bench
	$(PYTHON) tools/bench.py

tables:
	python3 tools/make_tables.py --baracuda build/dev/cli/baracuda
	python3 tools/make_stubs.py --baracuda build/dev/cli/baracuda
	python3 tools/make_coverage.py --baracuda build/dev/cli/baracuda

clean:
	rm -rf build .venv
