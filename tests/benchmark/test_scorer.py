"""The score: controls in order, each term for its fault, and outcomes for invalid pictures."""

import io
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pytest

from genlab.benchmark.cases import Case, Region, Swap, load_case
from genlab.benchmark.cases.photographs import MAX_PIXELS
from genlab.benchmark.scoring.constants import VERSION, WEIGHTS
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.scorer import COMPONENTS, Score, measure, score
from genlab.benchmark.tools.controls import blur_swap, paste_avatars, swap_strangers
from genlab.benchmark.tools.local import swap_locally

pytestmark = pytest.mark.slow

CASES = Path(__file__).parents[2] / "cases"
Judge = Callable[[Image | PIL.Image.Image], Score]


def judge_of(case: Case, folder: Path) -> Judge:
    def judge(image: Image | PIL.Image.Image) -> Score:
        path = folder / "result.png"
        PIL.Image.fromarray(np.asarray(image)).save(path, compress_level=1)
        return score(case, path)

    return judge


def total(got: Score) -> float:
    assert got.score is not None, got.notes
    return got.score


def part(got: Score, name: str) -> float:
    return got.components[name]


@pytest.fixture(scope="module")
def judge(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return judge_of(case, tmp_path_factory.mktemp("score"))


@pytest.fixture(scope="module")
def good(judge: Judge, swap: Image) -> Score:
    return judge(swap)


def test_the_untouched_template_gets_exactly_nothing(judge: Judge, template: Image) -> None:
    got = judge(template)
    assert (got.outcome, got.score, got.components["identity"]) == ("scored", 0.0, 0.0)
    others = [part(got, name) for name in COMPONENTS if name != "identity"]
    assert min(others[1:]) > 0.9 > 0.1 > others[0] == part(got, "head")


def test_the_controls_come_below_the_swap(judge: Judge, case: Case, good: Score) -> None:
    wrong, paste, soft, softer = (
        judge(make(case, options))
        for make, options in (
            (swap_strangers, {}),
            (paste_avatars, {}),
            (blur_swap, {"strength": 1}),
            (blur_swap, {"strength": 2}),
        )
    )
    assert 0.3 < total(good) < 0.6
    assert total(wrong) == 0
    assert 0 < total(paste) < total(good) - 0.05
    assert 0 < total(softer) < total(soft) < total(good)
    assert part(paste, "realism") < 0.7 < part(good, "realism")
    assert part(paste, "copied") < 0.1 < part(good, "copied")


def test_every_part_is_recorded_and_the_total_is_the_formula(good: Score) -> None:
    plain = asdict(good)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert tuple(good.components) == COMPONENTS
    assert good.versions["constants"] == VERSION
    parts = {"seam", "sharpness", "undistorted", "mouth", "old_hair_gone", "copied_distance"}
    assert parts <= {name for term in good.terms for name in term["parts"]}
    assert good.score_reference is None
    expected = np.prod([part(good, name) ** weight for name, weight in WEIGHTS.items()])
    assert good.score == pytest.approx(expected * part(good, "faces"))
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)


def test_every_term_is_explained_on_the_picture(
    case: Case, swap: Image, good: Score, tmp_path: Path
) -> None:
    path = tmp_path / "image.png"
    PIL.Image.fromarray(swap).save(path)
    _, terms = measure(case, path)
    found = {term.term: term for term in terms}
    assert set(found) == set(WEIGHTS)
    for name, term in found.items():
        assert term.value == part(good, name)
        assert term.overlay.shape == swap.shape
        assert term.sentence.endswith(".")
    red = (found["head"].overlay[..., 0].astype(int) - found["head"].overlay[..., 1]) > 60
    assert red[:200].sum() > 10 * red[450:].sum()


def test_a_shifted_picture_keeps_its_background(judge: Judge, swap: Image) -> None:
    got = judge(np.roll(swap, (5, -7), axis=(0, 1)))
    assert part(got, "background") > 0.9
    assert any("shifted by" in note for note in got.notes)


def recolour_body(image: Image) -> None:
    image[420:] = (200, 30, 30)


def draw_seam(image: Image) -> None:
    cv2.ellipse(image, (265, 250), (95, 120), 0, 0, 360, (20, 10, 10), 2)


def shift_face(image: Image) -> None:
    image[100:400, 190:420] = image[100:400, 150:380].copy()


@pytest.mark.parametrize(
    ("spoil", "component", "loss"),
    [
        (recolour_body, "background", 0.15),
        (draw_seam, "realism", 0.1),
        (shift_face, "expression", 0.03),
    ],
)
def test_a_fault_costs_its_own_component(
    judge: Judge,
    swap: Image,
    good: Score,
    spoil: Callable[[Image], None],
    component: str,
    loss: float,
) -> None:
    spoiled = swap.copy()
    spoil(spoiled)
    assert part(judge(spoiled), component) < part(good, component) - loss


def test_the_right_avatar_must_sit_on_the_right_person(tmp_path: Path) -> None:
    case = load_case(CASES / "stairs-two-of-four")
    first, second = case.swaps
    pairs = ((first, second.avatar), (second, first.avatar))
    swaps = tuple(swap.model_copy(update={"avatar": avatar}) for swap, avatar in pairs)
    crossed = case.model_copy(update={"swaps": swaps})
    judge = judge_of(case, tmp_path)
    right = judge(swap_locally(case, {}))
    wrong = judge(swap_locally(crossed, {}))
    assert total(right) > 0.3
    assert part(wrong, "identity") < 0.1
    assert sum("more like" in note for note in wrong.notes) == 2


def test_an_additional_face_costs_faces_kept(judge: Judge, swap: Image, case: Case) -> None:
    stranger = PIL.Image.fromarray(swap[110:360, 160:380]).resize((150, 170))
    more = PIL.Image.fromarray(swap)
    more.paste(stranger, (0, 400))
    got = judge(more)
    assert got.components["faces"] == pytest.approx(0.5)
    assert any("additional faces" in note for note in got.notes)


SIDE = int(MAX_PIXELS**0.5) + 1
NOISE = io.BytesIO()
PIL.Image.effect_noise((800, 600), 50).save(NOISE, "PNG")


@pytest.mark.parametrize(
    ("make", "outcome"),
    [
        (lambda template: template[:512, :512], "wrong_size"),
        (lambda template: np.full_like(template, 90), "blank"),
        (lambda template: template[::-1], "no_face"),
        (lambda template: np.zeros((SIDE, SIDE), bool), "too_large"),
        (lambda template: NOISE.getvalue()[:20_000], "unreadable"),
        (lambda template: b"<html>no picture</html>", "unreadable"),
    ],
)
def test_what_cannot_be_scored_has_an_outcome_and_no_number(
    case: Case, template: Image, tmp_path: Path, make: Any, outcome: str
) -> None:
    path, image = tmp_path / "image.png", make(template)
    if isinstance(image, bytes):
        path.write_bytes(image)
    else:
        PIL.Image.fromarray(image).save(path)
    got = score(case, path)
    assert (got.outcome, got.score) == (outcome, None)
    assert got.components == {}
    assert len(got.notes) == 1


def test_a_tiny_face_among_others_is_left_out(case: Case, tmp_path: Path) -> None:
    # The same person twice: as large as in the photograph, and far away in the same picture.
    large = case.open_template()
    width, height = large.size
    canvas = PIL.Image.new("RGB", (2 * width, height), (120, 130, 140))
    canvas.paste(large, (0, 0))
    canvas.paste(large.resize((round(0.15 * width), round(0.15 * height))), (width + 100, 100))
    path = tmp_path / "template.png"
    canvas.save(path)
    near = case.swaps[0].region
    small = {name: round(0.15 * pixels) for name, pixels in near}
    far = Region(**small | {"left": small["left"] + width + 100, "top": small["top"] + 100})

    def got(*regions: Region) -> Score:
        swaps = [Swap(region=region, avatar=case.swaps[0].avatar) for region in regions]
        return score(case.model_copy(update={"template": path, "swaps": swaps}), path)

    both, alone = got(near, far), got(near)
    assert [term["value"] for term in both.terms if term["term"] == "face"] == [0.0]
    for component in ("identity", "realism", "expression"):
        assert part(both, component) == part(alone, component)
    assert got(far).outcome == "tiny_face"


def test_an_avatar_without_a_face_is_the_cases_fault(case: Case, tmp_path: Path) -> None:
    blank = tmp_path / "avatar.png"
    PIL.Image.new("RGB", (200, 200), (10, 80, 30)).save(blank)
    other = case.model_copy(update={"avatars": dict.fromkeys(case.avatars, blank)})
    got = score(other, case.template)
    assert got.outcome == "no_avatar_face"
    assert "avatar.png" in got.notes[0]
