#!/bin/sh
# Fuzzes the core, each target for SECONDS_EACH. A run begins with the inputs of earlier runs (build/Fuzz/corpus).
#   SECONDS_EACH=60 TARGET= JOBS=1 SEED= fuzz.sh
# Without a SEED each run tries other inputs.
# A target is one test. The last line is `N passed, N failed`; the exit status is 0 when nothing failed.
set -u
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
seconds=${SECONDS_EACH:-60}
jobs=${JOBS:-1}
targets=${TARGET:-capture packet redaction flow events bottleneck shadow replay network simulator}
build=build/Fuzz
mkdir -p $build

cmake -S core-c -B $build -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_FLAGS=-Werror \
	-DREWINDOW_FUZZ=ON -DREWINDOW_SANITIZE=ON >$build/build.log 2>&1 &&
	cmake --build $build >>$build/build.log 2>&1 &&
	python core-c/fuzz/seed.py $build/seeds >>$build/build.log 2>&1 || {
	tail -40 $build/build.log
	echo "0 passed, 1 failed"
	exit 1
}
cat core-c/fuzz/capture.dict core-c/fuzz/packet.dict >$build/replay.dict

longest() { # longest TARGET: inputs above add time and no new paths
	case $1 in
	packet | simulator) echo 512 ;;
	flow | events | bottleneck | shadow | network) echo 2048 ;;
	*) echo 4096 ;;
	esac
}

fuzz() { # fuzz TARGET
	dictionary=core-c/fuzz/$1.dict
	[ "$1" != replay ] && [ "$1" != redaction ] || dictionary=$build/replay.dict
	mkdir -p "$build/corpus/$1" "$build/artifacts"
	rm -f "$build/artifacts/$1-"*
	set -- "$1" "$build/corpus/$1" "$build/seeds/$1"
	[ ! -d "core-c/fuzz/regressions/$1" ] || set -- "$@" "core-c/fuzz/regressions/$1"
	[ ! -e "$dictionary" ] || set -- "$@" "-dict=$dictionary"
	target=$1
	shift
	"$build/fuzz/${target}_fuzz" -max_total_time="$seconds" -seed="${SEED:-0}" -max_len="$(longest "$target")" -timeout=20 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$build/artifacts/$target-" "$@" >"$build/$target.log" 2>&1
	echo $? >"$build/$target.status"
}

# Prints the result of a finished run: its coverage, or the error and its place.
report() { # report TARGET
	log=$build/$1.log
	if [ "$(cat "$build/$1.status")" = 0 ]; then
		passed=$((passed + 1))
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		echo "ok      fuzz $1: $runs executions, $(sed -n 's/.*\(cov: [0-9]* ft: [0-9]*\).*/\1/p' "$log" | tail -n 1)"
		return
	fi
	failed=$((failed + 1))
	echo "FAILED  fuzz $1"
	grep -E 'invariant broken|runtime error|ERROR:|SUMMARY:' "$log" | head -n 4
	grep -E '^ +#[0-9]+ .*/core-c/' "$log" | head -n 8
	ls "$build/artifacts/$1-"* 2>/dev/null || tail -n 20 "$log"
}

passed=0
failed=0
set -- $targets
while [ $# -gt 0 ]; do
	running=""
	while [ $# -gt 0 ] && [ "$(echo "$running" | wc -w)" -lt "$jobs" ]; do
		rm -f "$build/$1.status"
		fuzz "$1" &
		running="$running $1"
		shift
	done
	wait
	for target in $running; do report "$target"; done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
