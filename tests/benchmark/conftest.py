"""A small benchmark, a finished run, and a shipped case for the tests of swap and score."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_benchmark import Bench
from swap_runs import write_project

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.tools.local import swap_locally


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def place(finished: Path, tmp_path: Path) -> Path:
    """A folder with cases/ and runs/ of a finished run."""
    return Path(shutil.copytree(finished, tmp_path, dirs_exist_ok=True))


@pytest.fixture(scope="module")
def case(root: Path) -> Case:
    return load_case(root / "cases" / "officer-astronaut")


@pytest.fixture(scope="module")
def template(case: Case) -> Image:
    return np.asarray(case.open_template())


@pytest.fixture(scope="module")
def swap(case: Case) -> Image:
    return swap_locally(case, {})
