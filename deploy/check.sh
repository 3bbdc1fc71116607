#!/bin/sh
# Formatters, linters, types, import rules; compose and image files. Each says what it does not like.
set -eu
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
ruff format --check .
ruff check .
mypy
lint-imports
(cd dashboard && npm run --silent check)
POSTGRES_PASSWORD=check docker-compose -f docker-compose.yml config -q
hadolint deploy/Dockerfile
for script in deploy/*.sh; do sh -n "$script"; done
echo "checked"
