"""One picture, one score: colour profiles are applied wherever the benchmark reads a picture."""

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from profiles import SPACES, encode_in, make_profile

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.cases.files import write_case
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.plugins.base import Picture
from genlab.benchmark.plugins.inputs import make_inputs
from genlab.benchmark.run.images import Destination, save_image
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.scorer import score
from genlab.web.images import _scale

NAMES = ("sRGB", *SPACES)


def mean_difference(first: object, second: object) -> float:
    """Mean absolute difference of two pictures in 8-bit units."""
    return float(np.abs(np.asarray(first).astype(int) - np.asarray(second)).mean())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_result_has_one_score_in_every_colour_space(
    case: Case, swap: Image, kind: str, tmp_path: Path
) -> None:
    options = {"PNG": {}, "JPEG": {"quality": 97}, "WEBP": {"lossless": True}}[kind]
    scores = []
    for number, name in enumerate(NAMES):
        path = tmp_path / f"{number}.png"
        path.write_bytes(encode_in(PIL.Image.fromarray(swap), name, kind, **options))
        scores.append(score(case, path).score or 0.0)
    assert min(scores) > 0.3
    assert max(scores) - min(scores) < 0.02


@pytest.mark.parametrize("name", SPACES)
def test_every_reader_of_the_benchmark_applies_a_profile(
    case: Case, swap: Image, name: str, tmp_path: Path
) -> None:
    """A tool's image as bytes and as a picture, case files, and what tools and browsers get."""
    image = PIL.Image.fromarray(swap)
    data = encode_in(image, name)
    opened = PIL.Image.open(io.BytesIO(data))
    assert mean_difference(opened, image) > 2
    for number, sent in enumerate((data, opened)):
        place = Destination(tmp_path / f"{number}.png", case.size, {"tool": "t"})
        save_image(Picture(sent), place)
        with PIL.Image.open(place.path) as saved:
            assert mean_difference(saved, image) < 1.5
            assert "icc_profile" not in saved.info
    (tmp_path / "wide.png").write_bytes(data)
    changed = {"template": tmp_path / "wide.png", "avatars": {"astronaut": tmp_path / "wide.png"}}
    wide = load_case(write_case(tmp_path / "wide", **{**dict(case), **changed}).folder)
    pictures = [wide.open_template(), wide.open_avatar("astronaut")]
    pictures += [PIL.Image.open(io.BytesIO(png)) for png in make_inputs(wide).images]
    for picture in pictures:
        assert mean_difference(picture, image) < 1.5
    small = PIL.Image.open(io.BytesIO(_scale(wide.template, 320, "")))
    assert mean_difference(small, image.resize(small.size)) < 4


def test_a_profile_of_other_colours_leaves_the_picture(swap: Image) -> None:
    buffer = io.BytesIO()
    PIL.Image.fromarray(swap).convert("L").save(buffer, "PNG", icc_profile=make_profile(NAMES[1]))
    grey = PIL.Image.fromarray(swap).convert("L").convert("RGB")
    assert mean_difference(read_photograph(buffer.getvalue()), grey) == 0
