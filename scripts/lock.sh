#!/bin/sh
# Write requirements.lock: exact pins with hashes of the core and of the extras that set-up installs,
# for CPython 3.11 to 3.14 on Linux and macOS. Existing pins are kept; delete a package's lines to
# update it.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src/genlab"
cp README.md LICENSE "$work"
cp src/genlab/__init__.py "$work/src/genlab"
{
    sed 's/^requires-python = .*/requires-python = ">=3.11,<3.15"/' pyproject.toml
    echo '[tool.uv]'
    echo 'environments = ['
    for system in "linux' and platform_machine == 'x86_64" "linux' and platform_machine == 'aarch64" \
        "darwin' and platform_machine == 'arm64"; do
        echo "    \"sys_platform == '$system' and implementation_name == 'cpython'\","
    done
    echo ']'
    echo 'constraint-dependencies = ['
    # Without pins for some versions of Python only: such packages have two.
    sed -n '/python_full_version/d; s/^\([a-z0-9._-]*==[^ ;]*\).*/    "\1",/p' requirements.lock
    echo ']'
} > "$work/pyproject.toml"
.venv/bin/uv lock --quiet --project "$work"
{
    echo "# Exact pins of genlab and its extras dev, app, embedded, faces and formats, written by: make lock"
    .venv/bin/uv export --quiet --frozen --project "$work" --format requirements.txt --extra dev \
        --extra app --extra embedded --extra faces --extra formats --no-emit-project --no-annotate --no-header |
        sed "s/ ; implementation_name == 'cpython' and ((platform_machine == 'arm64'.*/ \\\\/"
} > "$work/requirements.lock"
mv "$work/requirements.lock" requirements.lock
