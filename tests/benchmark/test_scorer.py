"""The score: controls in order, each term for its fault, and outcomes for invalid pictures."""

import io
import json
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pytest
from PIL import ImageEnhance

from genlab.benchmark.cases import Case, Region, Swap, load_case
from genlab.benchmark.cases.photographs import MAX_PIXELS
from genlab.benchmark.scoring.constants import VERSION, WEIGHTS
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.scorer import COMPONENTS, Score, measure, score
from genlab.benchmark.tools.controls import (
    blur_swap,
    compress,
    enhance,
    fade_paste,
    fade_swap,
    paste_avatars,
    swap_strangers,
)
from genlab.benchmark.tools.face_tool import blend_images, find_pairs, soft_face_mask
from genlab.benchmark.tools.local import swap_locally

pytestmark = pytest.mark.slow


def judge(case: Case, image: Any) -> Score:
    """Score an array of pixels, a PIL image, or the bytes of a file."""
    with NamedTemporaryFile(suffix=".png") as file:
        if isinstance(image, bytes):
            Path(file.name).write_bytes(image)
        else:
            PIL.Image.fromarray(np.asarray(image)).save(file.name, compress_level=1)
        return score(case, Path(file.name))


@pytest.fixture(scope="module")
def good(case: Case, swap: Image) -> Score:
    return judge(case, swap)


def test_the_untouched_template_gets_exactly_nothing(case: Case, template: Image) -> None:
    untouched = judge(case, template)
    assert (untouched.outcome, untouched.score) == ("scored", 0.0)
    assert untouched.components["identity"] == 0.0
    assert untouched.components["head"] < 0.1
    unchanged = [name for name in COMPONENTS if name not in ("identity", "head")]
    assert min(untouched.components[name] for name in unchanged) > 0.9


def test_the_controls_come_below_the_swap(case: Case, good: Score) -> None:
    wrong = judge(case, swap_strangers(case, {}))
    paste = judge(case, paste_avatars(case, {}))
    soft, softer = (judge(case, blur_swap(case, {"strength": strength})) for strength in (1, 2))
    assert 0.3 < good.score < 0.6
    assert wrong.score == 0
    assert 0 < paste.score < good.score - 0.05
    assert 0 < softer.score < soft.score < good.score
    assert paste.components["realism"] < 0.7 < good.components["realism"]
    assert paste.components["copied"] < 0.1 < good.components["copied"]


def darken(image: Image) -> Image:
    return np.rint(255 * (image / 255) ** 1.25).astype(np.uint8)


def halve(image: Image) -> Image:
    small = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    return cv2.resize(small, image.shape[1::-1], interpolation=cv2.INTER_CUBIC)


@pytest.mark.parametrize("make", [swap_locally, paste_avatars])
def test_a_change_of_the_whole_picture_never_raises_a_score(root: Path, make: Any) -> None:
    case = load_case(root / "cases" / "astronaut-officer")
    plain = make(case, {})
    changed = {
        **{amount: enhance(plain, ImageEnhance.Contrast, amount) for amount in (0.7, 0.85, 1.3)},
        "saturation": enhance(plain, ImageEnhance.Color, 0.7),
        "gamma": darken(plain),
        "warm": np.clip(np.rint(plain * [1.1, 1.0, 0.88]), 0, 255).astype(np.uint8),
        "jpeg": compress(plain),
        "contrast and half size": halve(enhance(plain, ImageEnhance.Contrast, 0.85)),
    }
    before = judge(case, plain).score
    rises = {name: judge(case, image).score - before for name, image in changed.items()}
    assert max(rises.values()) < 0.05, rises
    assert min(rises.values()) > -0.1, rises


@pytest.mark.parametrize(
    ("faded", "plain"), [(fade_swap, swap_locally), (fade_paste, paste_avatars)]
)
def test_a_faded_control_ranks_where_the_plain_one_does(
    case: Case, good: Score, faded: Any, plain: Any
) -> None:
    faded_score = judge(case, faded(case, {})).score
    assert faded_score == pytest.approx(judge(case, plain(case, {})).score, abs=0.02)


def test_a_filter_over_a_pasted_face_does_not_buy_a_score(case: Case, template: Image) -> None:
    paste = paste_avatars(case, {})
    before = judge(case, paste).score
    face = find_pairs(case)[0][0]
    share = soft_face_mask(face.landmarks, template, 0.35)
    soft = cv2.GaussianBlur(paste, (0, 0), 0.02 * face.width)
    sharp = cv2.addWeighted(paste, 4, soft, -3, 0)
    for filtered in (enhance(paste, ImageEnhance.Brightness, 0.5), sharp):
        assert judge(case, blend_images(filtered, paste, share)).score < before + 0.05


def test_every_part_is_recorded_and_the_total_is_the_formula(good: Score) -> None:
    plain = asdict(good)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert tuple(good.components) == COMPONENTS
    assert good.versions["constants"] == VERSION
    parts = {"seam", "sharpness", "undistorted", "mouth", "old_hair_gone", "copied_distance"}
    assert parts <= {name for term in good.terms for name in term["parts"]}
    assert good.score_reference is None
    expected = np.prod([good.components[name] ** weight for name, weight in WEIGHTS.items()])
    assert good.score == pytest.approx(expected * good.components["faces"])
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)


def test_every_term_is_explained(case: Case, swap: Image, good: Score, tmp_path: Path) -> None:
    PIL.Image.fromarray(swap).save(tmp_path / "image.png")
    terms = {term.term: term for term in measure(case, tmp_path / "image.png")[1]}
    assert set(terms) == set(WEIGHTS)
    for name, term in terms.items():
        assert term.value == good.components[name]
        assert term.overlay.shape == swap.shape
        assert term.sentence.endswith(".")
    red = (terms["head"].overlay[..., 0].astype(int) - terms["head"].overlay[..., 1]) > 60
    assert red[:200].sum() > 10 * red[450:].sum()


def test_a_fault_costs_its_own_component(case: Case, swap: Image, good: Score) -> None:
    body = swap.copy()
    seam = swap.copy()
    face = swap.copy()
    body[420:] = (200, 30, 30)
    cv2.ellipse(seam, (265, 250), (95, 120), 0, 0, 360, (20, 10, 10), 2)
    face[100:400, 190:420] = swap[100:400, 150:380]
    faults = ((body, "background", 0.15), (seam, "realism", 0.1), (face, "expression", 0.03))
    for image, component, loss in faults:
        spoiled = judge(case, image).components[component]
        assert spoiled < good.components[component] - loss, component
    shifted = judge(case, np.roll(swap, (5, -7), axis=(0, 1)))
    assert shifted.components["background"] > 0.9
    assert any("shifted by" in note for note in shifted.notes)


def test_the_right_avatar_must_sit_on_the_right_person(root: Path) -> None:
    case = load_case(root / "cases" / "stairs-two-of-four")
    first, second = case.swaps
    pairs = ((first, second.avatar), (second, first.avatar))
    swaps = tuple(swap.model_copy(update={"avatar": avatar}) for swap, avatar in pairs)
    crossed = case.model_copy(update={"swaps": swaps})
    right = judge(case, swap_locally(case, {}))
    wrong = judge(case, swap_locally(crossed, {}))
    assert right.score > 0.3
    assert wrong.components["identity"] < 0.1
    assert sum("more like" in note for note in wrong.notes) == 2


def test_an_additional_face_costs_faces_kept(case: Case, swap: Image) -> None:
    stranger = PIL.Image.fromarray(swap[110:360, 160:380]).resize((150, 170))
    crowded = PIL.Image.fromarray(swap)
    crowded.paste(stranger, (0, 400))
    scored = judge(case, crowded)
    assert scored.components["faces"] == pytest.approx(0.5)
    assert any("additional faces" in note for note in scored.notes)


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
    ],
)
def test_what_cannot_be_scored(case: Case, template: Image, make: Any, outcome: str) -> None:
    invalid = judge(case, make(template))
    assert (invalid.outcome, invalid.score) == (outcome, None)
    assert invalid.components == {}
    assert len(invalid.notes) == 1


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

    def score_regions(*regions: Region) -> Score:
        swaps = [Swap(region=region, avatar=case.swaps[0].avatar) for region in regions]
        return score(case.model_copy(update={"template": path, "swaps": swaps}), path)

    both = score_regions(near, far)
    alone = score_regions(near)
    assert [term["value"] for term in both.terms if term["term"] == "face"] == [0.0]
    for component in ("identity", "realism", "expression"):
        assert both.components[component] == alone.components[component]
    assert score_regions(far).outcome == "tiny_face"


def test_an_avatar_without_a_face_is_the_cases_fault(case: Case, tmp_path: Path) -> None:
    blank = tmp_path / "avatar.png"
    PIL.Image.new("RGB", (200, 200), (10, 80, 30)).save(blank)
    blank_case = case.model_copy(update={"avatars": dict.fromkeys(case.avatars, blank)})
    scored = score(blank_case, case.template)
    assert scored.outcome == "no_avatar_face"
    assert "avatar.png" in scored.notes[0]
