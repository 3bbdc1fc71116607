#!/bin/sh
# Runs formatters, linters, type checkers and import rules, and checks the compose and image files.
set -eu
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
ruff format --check .
ruff check .
mypy
lint-imports
# Migrations are one line. Two branches may each have added one to the same: then there are two last ones, and no `upgrade head`.
heads=$(alembic -c migrations/alembic.ini heads)
[ "$(echo "$heads" | grep -c .)" = 1 ] || {
	printf 'migrations must have one head, and have: %s\n' "${heads:-none}" >&2
	exit 1
}
# The C core: one format, and clang-tidy's checks (core-c/.clang-tidy).
find core-c lab bench kernel -name '*.[ch]' | xargs clang-format --dry-run -Werror
cmake -S core-c -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DREWINDOW_LAB=ON >/dev/null
find core-c/src lab -name '*.c' ! -name '*.bpf.c' | xargs clang-tidy -p build/tidy --quiet 2>/dev/null
mkdir -p build
python -m api.openapi >build/openapi.json
(cd dashboard && npm run --silent types -- --check && npm run --silent check)
POSTGRES_PASSWORD=check REWINDOW_DATABASE_PASSWORD=check REDIS_PASSWORD=check docker-compose -f docker-compose.yml config -q
hadolint deploy/Dockerfile
for script in deploy/*.sh; do sh -n "$script"; done
# The recipes for other teams' CI: their form, and their safety against attackers. @TAG stands for the tag that a user pins.
check-jsonschema -q --builtin-schema vendor.github-actions deploy/ci/action.yml
check-jsonschema -q --builtin-schema vendor.github-workflows deploy/ci/github-example.yml
check-jsonschema -q --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci deploy/ci/gitlab-example.yml
# A hidden job (its name begins with a dot) is not checked by the schema, so it is checked under another name.
sed 's/^\.rewindow:/rewindow:/' deploy/ci/gitlab.yml |
	check-jsonschema -q --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci --default-filetype yaml -
zizmor --offline -q deploy/ci/action.yml
sed "s/@TAG$/@$(printf %040d 1)/" deploy/ci/github-example.yml | zizmor --offline -q -
echo "checked"
