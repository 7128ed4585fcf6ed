"""Explanations made in several sessions at once equal those of a single session."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import PIL.Image
import pytest

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.scoring import segmentation
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.scorer import measure

SESSIONS = 4


def test_masks_made_at_once_are_those_of_one_thread(template: Image) -> None:
    frames = [np.roll(template, 40 * number, axis=1) for number in range(SESSIONS)]
    alone = [segmentation.person_probability(frame) for frame in frames]
    assert min(np.abs(alone[0] - mask).max() for mask in alone[1:]) > 0.5
    segmentation._network.cache_clear()  # loaded by whoever comes first
    start = Barrier(SESSIONS)

    def compare(number: int) -> list[bool]:
        start.wait()
        turns = [(number + turn) % SESSIONS for turn in range(12)]
        return [
            np.array_equal(segmentation.person_probability(frames[turn]), alone[turn])
            for turn in turns
        ]

    with ThreadPoolExecutor(SESSIONS) as pool:
        assert all(map(all, pool.map(compare, range(SESSIONS))))


@pytest.mark.slow
def test_explanations_at_once_are_those_of_one_thread(
    case: Case, swap: Image, template: Image, root: Path, tmp_path: Path
) -> None:
    """Terms with sentences and overlays for two cases with different pictures and masks."""
    second_case = load_case(root / "cases" / "astronaut-officer")
    works = [(case, swap), (case, template), (second_case, np.asarray(second_case.open_template()))]
    paths = [tmp_path / f"{number}.png" for number in range(len(works))]
    for (_, image), path in zip(works, paths, strict=True):
        PIL.Image.fromarray(image).save(path)

    def explain(number: int) -> list[tuple[object, ...]]:
        terms = measure(works[number % len(works)][0], paths[number % len(works)])[1]
        return [(repr(term.as_dict()), term.sentence, term.overlay.tobytes()) for term in terms]

    alone = [explain(number) for number in range(len(works))]
    with ThreadPoolExecutor(SESSIONS) as pool:
        for number, terms in enumerate(pool.map(explain, range(SESSIONS * 3))):
            assert terms == alone[number % len(works)]
