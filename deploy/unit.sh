#!/bin/sh
# Runs some tests: unit.sh FILE..., each a Python test file (options of pytest may follow) or a C test such as
# core-c/tests/packet_test.c. Without a file it runs every unit test of the library.
set -eu
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH" PLAYWRIGHT_BROWSERS_PATH="$PWD/.local/browsers"
python_arguments=""
built=""
for file in "$@"; do
	case $file in
	*_test.c)
		[ -n "$built" ] || cmake -S core-c -B build/Debug -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-Werror \
			-DREWINDOW_TESTS=ON -DREWINDOW_SANITIZE=ON >build/Debug.log
		built=yes
		name=$(basename "$file" .c)
		cmake --build build/Debug --target "$name" >>build/Debug.log || { tail -n 40 build/Debug.log && exit 1; }
		"build/Debug/tests/$name"
		;;
	*) python_arguments="$python_arguments $file" ;;
	esac
done
[ -n "$built" ] && [ -z "$python_arguments" ] && exit 0
# Some tests read captures that the benchmarks' generator writes.
cmake -S core-c -B build/Release -G Ninja -DCMAKE_BUILD_TYPE=Release -DREWINDOW_BENCH=ON >build/Release.log
cmake --build build/Release --target generate >>build/Release.log || { tail -n 40 build/Release.log && exit 1; }
# shellcheck disable=SC2086 # files and options of pytest
exec python -m pytest ${python_arguments:-tests/unit}
