"""Cases, parameters and tools, read again only where their files have changed.

A page asks for them at every look; parsing YAML would be most of its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.plugins import ImageTool, load_tools
from genlab.core.params import BenchmarkParams, load_params

State = tuple[tuple[str, int, int], ...]


def read_case(folder: Path) -> Case:
    """Read a case, again where a file of its folder has changed. Raises as `load_case`."""
    return _case(folder, state_of(folder))


def read_params(path: Path) -> BenchmarkParams:
    """The section `benchmark` of the parameters as it is now."""
    return _params(path, state_of(path))


def read_tools(root: Path, file: Path) -> dict[str, ImageTool]:
    """All tools, those of the YAML file included where it is there.

    A package that is installed meanwhile is found by the next server. root: whose tools they are.
    """
    return dict(_tools(root, file if file.exists() else None, state_of(file)))


def state_of(path: Path) -> State:
    """Name, time and size of a file, or of all that lies in a folder; () where there is none."""
    if not path.exists():
        return ()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    found = [(file.name, file.stat()) for file in files]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


@lru_cache(maxsize=1024)
def _case(folder: Path, _: State) -> Case:
    return load_case(folder)


@lru_cache(maxsize=4)
def _params(path: Path, _: State) -> BenchmarkParams:
    return load_params(path).benchmark


@lru_cache(maxsize=4)
def _tools(root: Path, file: Path | None, _: State) -> Mapping[str, ImageTool]:
    return load_tools(file)
