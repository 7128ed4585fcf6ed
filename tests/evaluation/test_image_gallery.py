"""The gallery of images: planted causes are found, the worst come first, the page stands alone."""

import base64
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pages import Page
from PIL import Image

from genlab.evaluation.diagnostics import image_gallery
from genlab.evaluation.diagnostics.error_analysis import SAME_CLASS, compare
from genlab.evaluation.diagnostics.image_attributes import image_attributes, image_hypotheses
from genlab.evaluation.diagnostics.image_gallery import Reconstructions, Samples

N, M, NAMES = 1200, 300, ("box", "<bar> & co")


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


def _made(channels: int = 1) -> tuple[Reconstructions, Samples]:
    rng = np.random.default_rng(0)
    labels, seen = rng.integers(2, size=N), rng.integers(2, size=M)
    # A model that sees no stripes: a planted cause, with some noise beside it.
    (truth, predicted), (images, _) = (_images(each, rng, channels) for each in (labels, seen))
    predicted[:, 0, 0] = rng.integers(60, size=(N, channels))
    real = Reconstructions(truth, predicted, labels, rng.gamma(9, 9, N), rng.uniform(0.05, 0.2, N))
    errors = rng.uniform(1, 2, M) * np.where(seen == 1, 3, 1)
    return real, Samples(images, truth[:M], errors, seen)


@pytest.fixture(scope="module")
def made() -> tuple[Reconstructions, Samples]:
    return _made()


@pytest.fixture(scope="module")
def summary(made: tuple[Reconstructions, Samples]) -> dict[str, Any]:
    return image_gallery.summary(*made, NAMES, count=12, bootstrap=200)


def _verdicts(tests: list[dict[str, Any]]) -> dict[str, str]:
    return {test["name"]: test["verdict"] for test in tests}


def _named(tests: list[dict[str, Any]], verdict: str) -> set[str]:
    return {name for name, found in _verdicts(tests).items() if found == verdict}


def test_a_planted_cause_is_supported_and_its_opposite_refuted(summary: dict[str, Any]) -> None:
    verdicts = _verdicts(summary["tests"])
    assert (verdicts["textured"], verdicts["plain"]) == ("supported", "refuted")
    assert verdicts["far_from_training"] == "undecided"


def test_the_class_that_fails_is_found_and_explains_the_worst_samples(
    summary: dict[str, Any],
) -> None:
    verdicts = _verdicts(summary["sample_tests"])
    assert (verdicts["class_<bar> & co"], verdicts["class_box"]) == ("supported", "refuted")
    assert {item["hypothesis"] for item in summary["sample_items"]} == {"class_<bar> & co"}
    assert "far_from_training" not in verdicts


def test_a_hard_class_alone_makes_no_attribute_hard(
    made: tuple[Reconstructions, Samples],
) -> None:
    # Bars have less ink than boxes. Among all images, little ink would go with the class's error.
    real, _ = made
    labels = np.asarray(real.labels)
    measured = image_attributes(real.truth, labels, NAMES)
    rng = np.random.default_rng(1)
    errors = rng.exponential(1, N) * np.where(labels == 1, 5, 1)
    little = measured["ink"] < np.median(measured["ink"])
    assert errors[little].mean() > 2 * errors[~little].mean()
    tests = compare(
        errors,
        measured,
        error_name="mse",
        hypotheses=image_hypotheses(NAMES, measured),
        stratum=SAME_CLASS,
        bootstrap=300,
    )
    verdicts = _verdicts(tests)
    assert verdicts.pop("class_<bar> & co") == "supported"
    assert verdicts.pop("class_box") == "refuted"
    assert set(verdicts.values()) <= {"undecided", "untestable"}


def test_the_worst_come_first_with_what_they_are(
    summary: dict[str, Any], made: tuple[Reconstructions, Samples]
) -> None:
    real, samples = made
    difference = (real.truth.astype(float) - real.predicted) / 255
    errors = np.square(difference).mean(axis=(1, 2, 3))
    found = [item["error"] for item in summary["items"]]
    assert found == pytest.approx(np.sort(errors)[::-1][:12])
    for item in summary["items"]:
        assert errors[item["index"]] == pytest.approx(item["error"])
        assert item["class"] == NAMES[np.asarray(real.labels)[item["index"]]]
        assert item["reconstruction_nats"] == np.asarray(real.nats)[item["index"]]
        assert item["hypothesis"] in _named(summary["tests"], "supported")
        assert set(item["also"]) < _named(summary["tests"], "supported")
    assert summary["sample_items"][0]["index"] == int(np.argmax(samples.errors))


def test_what_is_striking_is_true_of_the_class(made: tuple[Reconstructions, Samples]) -> None:
    real, _ = made
    measured = image_attributes(real.truth, real.labels, NAMES, real.train_distances)
    index = int(np.argmax(np.where(measured["class"] == 0, measured["brightness"], 0)))
    words = image_gallery.striking(index, measured)
    assert 0 < len(words) <= image_gallery.POINTED_OUT
    lowest = int(np.argmin(np.where(measured["class"] == 0, measured["train_distance"], 9)))
    assert any(
        "training images below 99 %" in each for each in image_gallery.striking(lowest, measured)
    )


def test_the_summary_holds_no_pictures_and_is_writable_as_json(summary: dict[str, Any]) -> None:
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary
    assert len(text) < 60_000


def test_the_same_input_gives_the_same_summary(
    summary: dict[str, Any], made: tuple[Reconstructions, Samples]
) -> None:
    assert image_gallery.summary(*made, NAMES, count=12, bootstrap=200) == summary


def test_nats_that_may_be_negative_are_ranked_and_not_divided(
    summary: dict[str, Any], made: tuple[Reconstructions, Samples]
) -> None:
    real, samples = made
    assert len(summary["nats_tests"]) == len(summary["tests"])
    density = replace(real, nats=np.asarray(real.nats) - 500)
    found = image_gallery.summary(density, samples, NAMES, bootstrap=20)
    assert found["nats_tests"] == []
    assert found["nats_rank_correlation"] == pytest.approx(summary["nats_rank_correlation"])
    assert "ratio in nats" not in image_gallery.page("x", found, density, samples)


def test_perfect_reconstructions_leave_a_page_without_reasons(
    made: tuple[Reconstructions, Samples],
) -> None:
    real, samples = made
    exact = Reconstructions(real.truth, real.truth, real.labels)
    found = image_gallery.summary(exact, samples, NAMES, bootstrap=20)
    assert set(_verdicts(found["tests"]).values()) == {"untestable"}
    assert found["items"][0]["hypothesis"] is None
    assert found["nats_rank_correlation"] is None
    assert "none of the tested attributes" in image_gallery.page("x", found, exact, samples)


def _picture(address: str | None) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(str(address).split(",")[1]))))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_page_shows_the_pictures_that_it_speaks_of(channels: int) -> None:
    real, samples = _made(channels)
    found = image_gallery.summary(real, samples, NAMES, count=10, bootstrap=20)
    page = Page()
    page.feed(image_gallery.page("Failures", found, real, samples))
    assert len(page.images) == 3 * 10 + 2 * 10
    assert all(str(address).startswith("data:image/png;base64,") for address in page.addresses)
    assert all(image["alt"] for image in page.images)
    shown = [_picture(image["src"]).reshape(28, 28, channels) for image in page.images]
    first, sample = found["items"][0]["index"], found["sample_items"][0]["index"]
    assert np.array_equal(shown[0], real.truth[first])
    assert np.array_equal(shown[1], real.predicted[first])
    assert max(picture.max() for picture in shown[2:30:3]) == 255
    assert not shown[2][np.squeeze((real.truth == real.predicted)[first])].any()
    assert np.array_equal(shown[30], samples.images[sample])
    assert np.array_equal(shown[31], samples.nearest[sample])


def test_the_page_escapes_what_it_is_given(
    summary: dict[str, Any], made: tuple[Reconstructions, Samples]
) -> None:
    text = image_gallery.page("<script>", summary, *made)
    assert "<script>" not in text
    assert "<bar>" not in text
    assert "&lt;bar&gt; &amp; co" in text
