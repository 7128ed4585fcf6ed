"""A benchmark in small, and the shipped case that the local swap and the score are tested on."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_benchmark import Bench

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.tools.local import swap_locally


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def case(root: Path) -> Case:
    return load_case(root / "cases" / "officer-astronaut")


@pytest.fixture(scope="module")
def template(case: Case) -> Image:
    return np.asarray(case.open_template())


@pytest.fixture(scope="module")
def swap(case: Case) -> Image:
    return swap_locally(case, {})
