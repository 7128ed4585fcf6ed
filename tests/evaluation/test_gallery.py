"""The failure gallery: planted causes are found, the worst come first, the page stands alone."""

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from pages import Page
from PIL import Image

from genlab.evaluation.diagnostics import gallery
from genlab.evaluation.diagnostics.gallery import Section
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator

N, M, COUNT, NAMES = 1200, 300, 12, ("box", "<bar> & co")
Made = tuple[Section, Section]


def _images(
    labels: np.ndarray, rng: np.random.Generator, channels: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and narrow bars on black with stripes of any depth; and the same without stripes."""
    plain = np.zeros((len(labels), 28, 28, channels), dtype=np.uint8)
    striped = plain.copy()
    for one, other, label in zip(plain, striped, labels, strict=True):
        top, left = rng.integers(2, 6, size=2)
        height, width = rng.integers(14, 19, size=2) // ((1, 1), (1, 3))[label]
        colour, depth = rng.integers(120, 255, size=channels), rng.uniform(0.3, 1)
        one[top : top + height, left : left + width] = colour
        other[top : top + height, left : left + width] = colour
        other[top : top + height : 4, left : left + width] = (depth * colour).astype(np.uint8)
    return striped, plain


def _image_arrays(channels: int = 1) -> dict[str, Any]:
    """A model that sees no stripes, a planted cause, with some noise beside it."""
    rng = np.random.default_rng(0)
    labels, seen = rng.integers(2, size=N), rng.integers(2, size=M)
    (truth, predicted), (samples, _) = (_images(each, rng, channels) for each in (labels, seen))
    predicted[:, 0, 0] = rng.integers(60, size=(N, channels))
    return {
        "truth": truth,
        "labels": labels,
        "predicted": predicted,
        "nats": rng.gamma(9, 9, N),
        "train_distances": rng.uniform(0.05, 0.2, N),
        "samples": samples,
        "sample_nearest": truth[:M],
        "sample_errors": rng.uniform(1, 2, M) * np.where(seen == 1, 3, 1),
        "sample_labels": seen,
    }


def _sections(arrays: dict[str, Any], count: int = COUNT) -> Made:
    return gallery.image_sections(arrays["truth"], arrays["labels"], NAMES, arrays, count)


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    return _image_arrays()


@pytest.fixture(scope="module")
def of_images(arrays: dict[str, Any]) -> tuple[Made, dict[str, Any]]:
    made = _sections(arrays)
    return made, gallery.summarise(*made, nats=arrays["nats"], bootstrap=200, seed=0)


@pytest.fixture(scope="module")
def of_grids() -> tuple[Made, dict[str, Any]]:
    grids = AtomicImageGenerator(GridDistribution()).generate(2500, 3).grids
    predicted, samples = grids.copy(), grids[:300].copy()
    predicted[5, 0, :4] = 9 - predicted[5, 0, :4]
    samples[::10, 8, 8] = 9 - samples[::10, 8, 8]
    nats = np.random.default_rng(0).exponential(1, 2500)
    found = {"predicted": predicted, "nats": nats, "samples": samples}
    made = gallery.grid_sections(grids, found, COUNT)
    return made, gallery.summarise(*made, nats=None, bootstrap=100, seed=0)


def _verdicts(tests: list[dict[str, Any]]) -> dict[str, str]:
    return {test["name"]: test["verdict"] for test in tests}


def test_planted_causes_are_supported_and_opposites_refuted(
    of_images: tuple[Made, dict[str, Any]],
) -> None:
    _, summary = of_images
    verdicts, of_samples = _verdicts(summary["tests"]), _verdicts(summary["sample_tests"])
    assert (verdicts["textured"], verdicts["plain"]) == ("supported", "refuted")
    assert verdicts["far_from_training"] == "undecided"
    assert (of_samples["class_<bar> & co"], of_samples["class_box"]) == ("supported", "refuted")
    assert {item["hypothesis"] for item in summary["sample_items"]} == {"class_<bar> & co"}
    assert "far_from_training" not in of_samples


def test_the_worst_images_come_first_with_what_they_are(
    of_images: tuple[Made, dict[str, Any]], arrays: dict[str, Any]
) -> None:
    _, summary = of_images
    difference = (arrays["truth"].astype(float) - arrays["predicted"]) / 255
    errors = np.square(difference).mean(axis=(1, 2, 3))
    found = [item["scores"]["mse"] for item in summary["items"]]
    assert found == pytest.approx(np.sort(errors)[::-1][:COUNT])
    supported = {n for n, verdict in _verdicts(summary["tests"]).items() if verdict == "supported"}
    for item in summary["items"]:
        assert item["class"] == NAMES[arrays["labels"][item["index"]]]
        assert item["scores"]["nats"] == arrays["nats"][item["index"]]
        assert {item["hypothesis"], *item["also"]} <= supported
    assert summary["sample_items"][0]["index"] == int(np.argmax(arrays["sample_errors"]))


def test_wrong_grids_come_first_then_those_least_certain(
    of_grids: tuple[Made, dict[str, Any]],
) -> None:
    _, summary = of_grids
    wrong = [item["scores"]["wrong cells"] for item in summary["items"]]
    assert (summary["items"][0]["index"], wrong) == (5, [4, *[0] * (COUNT - 1)])
    nats = [item["scores"]["nats"] for item in summary["items"][1:]]
    assert nats == sorted(nats, reverse=True)
    assert summary["error"] == "nats"  # one wrong grid of 2500 is too few to learn from
    assert 0 < len(summary["sample_items"]) <= COUNT
    assert all(item["scores"]["stray cells"] and item["faults"] for item in summary["sample_items"])


def test_perfect_reconstructions_leave_a_page_without_reasons(arrays: dict[str, Any]) -> None:
    made = _sections({**arrays, "predicted": arrays["truth"]})
    found = gallery.summarise(*made, nats=None, bootstrap=20, seed=0)
    assert set(_verdicts(found["tests"]).values()) == {"untestable"}
    assert found["items"][0]["hypothesis"] is None
    assert found["nats_rank_correlation"] is None
    assert "none of the tested attributes" in gallery.page("x", found, made)


def _picture(address: str | None) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(str(address).split(",")[1]))))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_page_shows_the_images_that_it_speaks_of(channels: int) -> None:
    arrays = _image_arrays(channels)
    made = _sections(arrays, count=10)
    found = gallery.summarise(*made, nats=arrays["nats"], bootstrap=20, seed=0)
    page = Page()
    page.feed(gallery.page("Failures", found, made))
    assert len(page.images) == 2 * 10 + 2 * 10
    assert all(str(address).startswith("data:image/png;base64,") for address in page.addresses)
    assert all(image["alt"] for image in page.images)
    shown = [_picture(image["src"]).reshape(28, 28, channels) for image in page.images]
    first, sample = found["items"][0]["index"], found["sample_items"][0]["index"]
    for picture, name, index in (
        (shown[0], "truth", first),
        (shown[1], "predicted", first),
        (shown[20], "samples", sample),
        (shown[21], "sample_nearest", sample),
    ):
        assert np.array_equal(picture, arrays[name][index])


def test_the_page_of_grids_needs_no_other_file_and_escapes_its_title(
    of_grids: tuple[Made, dict[str, Any]],
) -> None:
    made, summary = of_grids
    text = gallery.page("Failures <of> grids", json.loads(json.dumps(summary)), made)
    assert "<of>" not in text
    page = Page()
    page.feed(text)
    assert len(page.images) == 2 * COUNT + len(summary["sample_items"])
    assert all(str(address).startswith("data:") for address in page.addresses)


def test_a_tile_outlines_the_wrong_cell_alone() -> None:
    truth = np.zeros((16, 16), dtype=int)
    wrong = truth.copy()
    wrong[2, 5] = 1
    picture = _picture(gallery.tile(wrong, truth))
    white = np.argwhere((picture == 255).all(axis=-1)) * 16 // len(picture)
    assert {tuple(place) for place in white.tolist()} == {(2, 5)}
