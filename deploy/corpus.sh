#!/bin/sh
# Compares rewindow with tshark on every capture of a folder, and runs the core under sanitizers: corpus.sh DIR [OPTION...]
set -eu
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
mkdir -p build
{
	cmake -S core-c -B build/Debug -G Ninja -DREWINDOW_TESTS=ON -DREWINDOW_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-Werror &&
		cmake --build build/Debug --target replay_file
} >build/corpus.log 2>&1 || {
	tail -n 40 build/corpus.log >&2
	exit 1
}
exec python -m bench.corpus "$@"
