"""Whether explanations in several sessions at once are those of one session.

`swap.explain_at_once`: of SESSIONS times `times` explanations in as many threads, those that raise
or differ in a value, a sentence or an overlay from the same explanation in one thread.
"""

import itertools
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import numpy as np
import PIL.Image
import typer

from benchmarks.harness import Result, benchmark
from genlab.benchmark.cases import Case, load_cases
from genlab.benchmark.scoring.scorer import measure
from genlab.benchmark.tools.local import swap_locally

CASES = Path("cases")
SESSIONS = 4
Times = Annotated[int, typer.Option(min=1, help="Explanations per session.")]


def explain(case: Case, path: Path) -> str:
    """Digest of all that an explanation shows, or the error that it raises."""
    try:
        terms = measure(case, path)[1]
    except Exception as error:  # whatever a library does is what is counted
        return f"{type(error).__name__}: {error}"
    digest = sha256()
    for term in terms:
        digest.update(repr((term.as_dict(), term.sentence)).encode() + term.overlay.tobytes())
    return digest.hexdigest()


@benchmark("swap.explain_at_once")
def swap_explain_at_once(times: Times = 50) -> Iterator[Result]:
    """Explain scores in several sessions at once."""
    with tempfile.TemporaryDirectory() as folder:
        works = []
        for case in load_cases(CASES):
            for name, image in (
                ("local", swap_locally(case, {})),
                ("untouched", np.asarray(case.open_template())),
            ):
                path = Path(folder) / f"{case.case_id}-{name}.png"
                PIL.Image.fromarray(image).save(path, compress_level=1)
                works.append((case, path))
        alone = [explain(*work) for work in works]
        numbers = [*itertools.islice(itertools.cycle(range(len(works))), SESSIONS * times)]
        with ThreadPoolExecutor(SESSIONS) as pool:
            together = [*pool.map(lambda number: explain(*works[number]), numbers)]
    differ = sum(got != alone[number] for got, number in zip(together, numbers, strict=True))
    yield Result("swap.explain_at_once", differ, n=len(numbers), seeds=())
