#!/bin/sh
# Make the environment .venv from nothing: `make setup` calls it when the lock or pyproject changed.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv

# Debian packages that the main job needs; more only where one of these is found missing.
missing=""
command -v git >/dev/null 2>&1 || missing="$missing git"
if command -v "$python" >/dev/null 2>&1; then
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"
elif [ "$python" = python3 ]; then
    missing="$missing python3 python3-venv"
else
    echo "make setup: there is no $python here; name another with: make PYTHON=python3" >&2
    exit 2
fi
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -q && apt-get install -qy $missing
    else
        echo "make setup: missing:$missing; install with: sudo apt-get install$missing" >&2
        exit 2
    fi
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "make setup: $("$python" --version) is too old: genlab needs Python 3.10 or newer;" \
        "name another with: make PYTHON=python3.11" >&2
    exit 2
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
if "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.lock
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
else
    echo "make setup: the lock is for Python 3.11 and newer; taking the newest versions for 3.10"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[dev]"
fi
touch "$venv/.stamp"
