#!/bin/sh
# Write requirements.lock: exact pins of the core and of the extras that set-up installs, for
# Python 3.11 and newer.
# Pins that stand there already are kept; take a line out to let that package move on.
# What torch pins by itself (CUDA, Triton) is left out, so that the lock also serves a Mac.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp requirements.lock "$work/requirements.lock"
.venv/bin/python -m piptools compile --quiet --extra dev --extra app --extra embedded \
    --extra faces --strip-extras --no-annotate --no-header \
    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
    --output-file "$work/requirements.lock" pyproject.toml
{
    echo "# Exact pins of genlab and its extras dev, app, embedded and faces, written by: make lock"
    grep '==' "$work/requirements.lock" | grep -vE '^(nvidia-(cu|nccl|nvjit|nvshmem|nvtx)[a-z0-9-]*|cuda-[a-z]+|triton)=='
} > "$work/lock"
mv "$work/lock" requirements.lock
