#!/bin/sh
# Runs every test: C under sanitizers, specifications, Python with real services, the dashboard in a browser.
# The last line is `N passed, N failed`; the exit status is 0 when nothing failed.
set -u
cd "$(dirname "$0")/.."
passed=0
failed=0
mkdir -p build
export PATH="$PWD/.venv/bin:$PATH" PLAYWRIGHT_BROWSERS_PATH="$PWD/.local/browsers"

# Two lanes. Tests with services mostly wait, so they begin first and run beside all the others, which are more: these yield to
# them (nice), so that no test that waits for a service also waits for a core.
real_kernels=""
if [ "$(id -u)" != 0 ]; then
	echo "left out: tests/lab and tests/kernel, runs on real kernels, as root only"
	real_kernels="--ignore=tests/lab --ignore=tests/kernel"
fi
# shellcheck disable=SC2086 # two words or none
python -m pytest --durations=20 --ignore=tests/unit $real_kernels "$@" >build/pytest-services.log 2>&1 &
services=$!
trap 'kill $services; exit 130' INT # in the background it is not heard
renice -n 10 -p $$ >/dev/null

step() { # step NAME COMMAND...: one test
	name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok      $name"
	else
		failed=$((failed + 1))
		echo "FAILED  $name"
	fi
}

build() { # build KIND FOLDER TARGET OPTION...
	kind=$1 folder=$2 target=$3
	shift 3
	step "core builds ($folder), warnings are errors" sh -c "
		cmake -S core-c -B build/$folder -G Ninja -DCMAKE_BUILD_TYPE=$kind -DCMAKE_C_FLAGS=-Werror $* >build/$folder.log 2>&1 &&
		cmake --build build/$folder --target $target >>build/$folder.log 2>&1 || { tail -40 build/$folder.log; exit 1; }"
}
# Optimised without and debug with sanitizers: compilers see different mistakes. Across files only what is released is
# optimised: each program that is would be a compilation of the whole core. The tests are run with sanitizers only.
build Release Release all -DREWINDOW_BENCH=ON -DREWINDOW_LTO=OFF
build Release LTO rewindow
build Debug Debug all -DREWINDOW_TESTS=ON -DREWINDOW_BENCH=ON -DREWINDOW_LAB=ON -DREWINDOW_SANITIZE=ON
build Debug Threads replay_fuzz -DREWINDOW_TESTS=ON -DREWINDOW_SANITIZE_THREADS=ON
# The longest C test runs beside the others.
build/Debug/tests/replay_test >build/replay_test.log 2>&1 &
replay_test=$!
for test in build/Debug/tests/*_test; do
	[ "${test##*/}" = replay_test ] ||
		step "${test##*/}, under sanitizers" sh -c "'$test' >build/test.log 2>&1 || { cat build/test.log; exit 1; }"
done

# The fuzz targets without a fuzzer: what it once found, and what it begins with.
step "fuzz seeds are made" python core-c/fuzz/seed.py build/seeds
for target in capture packet redaction flow events bottleneck shadow replay network simulator; do
	inputs=build/seeds/$target
	[ ! -d core-c/fuzz/regressions/$target ] || inputs="$inputs core-c/fuzz/regressions/$target"
	[ $target != replay ] || inputs="$inputs core-c/tests/regressions build/seeds/captures"
	step "fuzz regressions of $target, under sanitizers" sh -c "
		build/Debug/fuzz/${target}_fuzz $inputs >build/test.log 2>&1 || { tail -n 40 build/test.log; exit 1; }"
done

step "several threads replay the committed captures, under the thread sanitizer" sh -c "
	build/Threads/fuzz/replay_fuzz build/seeds/captures build/seeds/replay >build/test.log 2>&1 || { tail -n 40 build/test.log; exit 1; }"

wait $replay_test
step "replay_test, under sanitizers" sh -c "[ $? = 0 ] || { cat build/replay_test.log; exit 1; }"

# A file's tests stay in one process, so that what they share is made once; the longest files begin first.
python -m pytest -o cache_dir=build/pytest-unit -n 2 --dist loadfile --durations=20 tests/unit "$@" 2>&1 | tee build/pytest-unit.log

# Every configuration of every specification, and every mutant, is a test.
python rewindow/specs.py check --junit build/specs.xml >build/specs.log 2>&1
grep -A20 '^FAILED' build/specs.log
counted=$(tail -n 1 build/specs.log | sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p')
[ -n "$counted" ] || {
	cat build/specs.log
	counted="0 1"
}
echo "specifications: ${counted% *} passed, ${counted#* } failed"
passed=$((passed + ${counted% *}))
failed=$((failed + ${counted#* }))

wait $services
cat build/pytest-services.log

for log in build/pytest-unit.log build/pytest-services.log; do
	counts=$(tail -n 1 $log)
	count() { echo "$counts" | sed -nE "s/.*[^0-9]([0-9]+) $1.*|^([0-9]+) $1.*/\1\2/p" | head -n 1; }
	ok=$(count passed) bad=$(count failed) errors=$(count 'errors?')
	passed=$((passed + ${ok:-0}))
	failed=$((failed + ${bad:-0} + ${errors:-0}))
	# A run that collected nothing, or that broke off, is a failure whatever it counted.
	[ "${ok:-0}" -gt 0 ] || failed=$((failed + 1))
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
