"""Keep what a benchmark measured: one file, `results/benchmarks.json`, a key each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json

BENCHMARKS = Path("results/benchmarks.json")


def record(
    key: str,
    value: float,
    *,
    interval: tuple[float, float] | None,
    n: int,
    seeds: Sequence[int],
    command: str,
    path: Path = BENCHMARKS,
    **more: object,
) -> None:
    """Set `key` to {value, interval, n, seeds, command}; every other key of the file is kept.

    more: goes into the entry beside these, for whoever wants to look closer.

    `interval` is the 95 % interval of `value`, None where it has none; `n` what was counted;
    `command` the line that measures it again. Whole or not at all. Raises a GenlabError where the
    file is not what `make bench` writes.
    """
    known = read_json(path, producer_command="make bench") if path.exists() else {}
    if not isinstance(known, dict):
        raise GenlabError(f"{path} holds no table of benchmarks; remove it and run: make bench")
    known[key] = {
        "value": value,
        "interval": None if interval is None else list(interval),
        "n": n,
        "seeds": list(seeds),
        "command": command,
        **more,
    }
    write_json(path, dict(sorted(known.items())))
