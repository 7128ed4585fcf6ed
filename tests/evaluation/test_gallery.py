"""The failure gallery: planted causes are found, the worst come first, the page stands alone."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from pages import Page
from PIL import Image

from genlab.evaluation.failures import gallery
from genlab.evaluation.failures.sections import (
    WRONG_COUNT,
    Sections,
    grid_sections,
    image_sections,
)
from genlab.evaluation.figures.image_grids import Mosaic
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.grids.parser import is_valid

Gallery = tuple[Sections, dict[str, Any]]

N = 1200  # test images
M = 300  # samples
COUNT = 12
NAMES = ("box", "<bar> & co")


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    """The brightest quarter of each class has larger errors, a planted cause, beside noise."""
    rng = np.random.default_rng(1)
    truth = tiny.images(N, channels=3) // 2
    sample_labels = tiny.image_labels(M)
    levels = truth.mean(axis=(1, 2, 3)).reshape(-1, len(NAMES))
    bright = (levels > np.quantile(levels, 0.75, axis=0)).ravel()
    shift = rng.integers(1, 20, N) * np.where(bright, 3, 1)
    return {
        "truth": truth,
        "labels": tiny.image_labels(N),
        "predicted": (truth + shift[:, None, None, None]).astype(np.uint8),
        "nats": rng.gamma(9, 9, N),
        "train_distances": rng.uniform(0.05, 0.2, N),
        "samples": truth[-M:],
        "sample_nearest": truth[:M],
        "sample_errors": rng.uniform(1, 2, M) * np.where(sample_labels == 1, 3, 1),
        "sample_labels": sample_labels,
    }


def _sections(arrays: dict[str, Any]) -> Sections:
    return image_sections(arrays["truth"], arrays["labels"], NAMES, arrays, COUNT)


@pytest.fixture(scope="module")
def of_images(arrays: dict[str, Any]) -> Gallery:
    sections = _sections(arrays)
    return sections, gallery.summarise(sections, bootstrap=200, seed=0)


def _grid_arrays() -> dict[str, Any]:
    """300 samples, 29 with a stray cell and one empty; every fourth ARC grid is wrong."""
    grids = AtomicImageGenerator(GridDistribution()).generate(1200, 3).grids
    samples = grids[:300].copy()
    arc = grids[300:700]
    samples[::10, 8, 8] = 9 - samples[::10, 8, 8]
    samples[7] = 0
    arc_predicted = arc.copy()
    arc_predicted[::4, 0, :4] = 9 - arc[::4, 0, :4]
    return {
        "truth": grids,
        "predicted": grids.copy(),
        "nats": np.zeros(1200),
        "margins": np.random.default_rng(0).permutation(1200) + 0.5,
        "samples": samples,
        "valid": is_valid(samples),
        "object_range": np.array([1, 6]),
        "arc": arc,
        "arc_tasks": np.arange(400) // 5,
        "arc_predicted": arc_predicted,
    }


@pytest.fixture(scope="module")
def of_grids() -> Gallery:
    arrays = _grid_arrays()
    sections = grid_sections(arrays["truth"], arrays, COUNT)
    return sections, gallery.summarise(sections, bootstrap=100, seed=0)


def _verdicts(tests: list[dict[str, Any]]) -> dict[str, str]:
    return {test["name"]: test["verdict"] for test in tests}


def test_planted_causes_are_supported_and_opposites_refuted(of_images: Gallery) -> None:
    _, summary = of_images
    verdicts = _verdicts(summary["tests"])
    of_samples = _verdicts(summary["sample_tests"])
    assert (verdicts["bright"], verdicts["dark"]) == ("supported", "refuted")
    assert verdicts["far_from_training"] == "undecided"
    assert (of_samples["class_<bar> & co"], of_samples["class_box"]) == ("supported", "refuted")
    assert {item["hypothesis"] for item in summary["sample_items"]} == {"class_<bar> & co"}
    assert "far_from_training" not in of_samples


def test_the_worst_images_come_first_with_what_they_are(
    of_images: Gallery, arrays: dict[str, Any]
) -> None:
    _, summary = of_images
    difference = (arrays["truth"].astype(float) - arrays["predicted"]) / 255
    errors = np.square(difference).mean(axis=(1, 2, 3))
    scores = [item["scores"]["mse"] for item in summary["items"]]
    assert scores == pytest.approx(np.sort(errors)[::-1][:COUNT])
    supported = {n for n, verdict in _verdicts(summary["tests"]).items() if verdict == "supported"}
    for item in summary["items"]:
        assert item["class"] == NAMES[arrays["labels"][item["index"]]]
        assert item["scores"]["nats"] == arrays["nats"][item["index"]]
        assert {item["hypothesis"], *item["also"]} <= supported
    assert summary["sample_items"][0]["index"] == int(np.argmax(arrays["sample_errors"]))


def test_grids_that_failed_come_before_the_least_certain(of_grids: Gallery) -> None:
    sections, summary = of_grids
    assert list(sections) == ["sample_", "", "margin_"]
    samples, arc, least = (summary[f"{prefix}items"] for prefix in sections)
    assert (len(samples), len(arc), len(least)) == (6, 3, 3)
    assert {item["index"] % 10 for item in samples if item["index"] != 7} == {0}
    assert all(item["faults"] for item in samples)
    stray = [item["scores"]["stray cells"] for item in samples]
    assert stray == sorted(stray, reverse=True)
    assert (samples[-1]["index"], samples[-1]["faults"]) == (7, [WRONG_COUNT])
    assert all(item["index"] % 4 == 0 and item["scores"]["wrong cells"] == 4 for item in arc)
    assert [item["scores"]["margin"] for item in least] == [0.5, 1.5, 2.5]
    assert {item["scores"]["wrong cells"] for item in least} == {0}
    assert sections["margin_"].title.startswith("Exact test grids")


def test_hypotheses_about_grids_are_tested_on_all_samples_and_all_arc_grids(
    of_grids: Gallery,
) -> None:
    _, summary = of_grids
    assert (summary["sample_n"], summary["n"]) == (300, 400)
    failures = {}
    for prefix in ("sample_", ""):
        for test in summary[f"{prefix}tests"]:
            sums = [(test[f"n_{side}"], test[f"error_{side}"] or 0) for side in ("with", "without")]
            compared = sum(size for size, _ in sums)
            failures[prefix + test["name"]] = (compared, sum(size * error for size, error in sums))
    assert all(
        numbers == pytest.approx((400, 100))
        for name, numbers in failures.items()
        if not name.startswith("sample_")
    )
    # The empty sample has a number of components that no valid grid has, and stray cells a size.
    assert failures["sample_small_component"][0] < failures["sample_at_border"][0] < 300
    assert summary["margin_tests"] == []
    assert not any(name.startswith("kind_") for name in _verdicts(summary["sample_tests"]))


def test_where_nothing_failed_every_grid_is_one_of_small_margin() -> None:
    arrays = _grid_arrays()
    arrays |= {"samples": arrays["truth"][:300], "valid": np.ones(300, bool)}
    arrays["arc_predicted"] = arrays["arc"]
    sections = grid_sections(arrays["truth"], arrays, COUNT)
    assert [len(section.order) for section in sections.values()] == [0, 0, COUNT]
    arrays["predicted"][5, 0, 0] ^= 1
    arrays["margins"][5] = -1.0
    sections = grid_sections(arrays["truth"], arrays, COUNT)
    assert sections["margin_"].order[0] == 5
    assert sections["margin_"].title.startswith("Test grids, 1 not exact")


def test_perfect_reconstructions_leave_a_page_without_reasons(arrays: dict[str, Any]) -> None:
    sections = _sections({**arrays, "predicted": arrays["truth"]})
    summary = gallery.summarise(sections, bootstrap=20, seed=0)
    assert set(_verdicts(summary["tests"]).values()) == {"untestable"}
    assert summary["items"][0]["hypothesis"] is None
    assert summary["nats_rank_correlation"] is None
    assert "none of the tested attributes" in gallery.render_page("x", summary, sections)


def _decode(address: str | None) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(str(address).split(",")[1]))))


def test_the_page_shows_the_images_that_it_speaks_of(
    of_images: Gallery, arrays: dict[str, Any]
) -> None:
    sections, summary = of_images
    page = Page(gallery.render_page("Failures", summary, sections))
    assert len(page.images) == 2 * COUNT + 2 * COUNT
    assert all(str(address).startswith("data:image/png;base64,") for address in page.addresses)
    assert all(image["alt"] for image in page.images)
    pictures = [_decode(image["src"]) for image in page.images]
    first = summary["items"][0]["index"]
    sample = summary["sample_items"][0]["index"]
    for picture, name, index in (
        (pictures[0], "truth", first),
        (pictures[1], "predicted", first),
        (pictures[2 * COUNT], "samples", sample),
        (pictures[2 * COUNT + 1], "sample_nearest", sample),
    ):
        assert np.array_equal(picture, arrays[name][index])


def test_the_page_of_grids_needs_no_other_file_and_escapes_its_title(of_grids: Gallery) -> None:
    sections, summary = of_grids
    page = Page(
        gallery.render_page("Failures <of> grids", json.loads(json.dumps(summary)), sections)
    )
    assert "of" not in page.tags
    assert len(page.images) == 6 + 2 * 3 + 2 * 3
    assert all(str(address).startswith("data:") for address in page.addresses)
    titles = [section.title for section in sections.values()]
    assert sorted(titles, key=page.text.index) == titles


def test_the_sheet_shows_every_section_with_labels_that_fit(
    of_grids: Gallery, of_images: Gallery, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Mosaic] = []
    monkeypatch.setattr(gallery, "save_mosaics", lambda _, mosaics: drawn.extend(mosaics))
    for sections, _ in (of_grids, of_images):
        gallery.draw_sheet(Path("sheet.png"), sections)
        titles = [mosaic.title for mosaic in drawn if mosaic.title]
        for title, section in zip(titles, sections.values(), strict=True):
            assert title == f"{section.title} ({next(iter(section.scores))} below each)"
        # A label of more characters would run into the next one.
        assert max(len(label) for mosaic in drawn for label in mosaic.column_labels) <= 10
        drawn.clear()


def test_stray_and_wrong_cells_alone_are_outlined(of_grids: Gallery) -> None:
    sections, summary = of_grids

    def outlined(prefix: str, caption: str) -> set[tuple[int, ...]]:
        picture = _decode(sections[prefix].tile(caption, summary[f"{prefix}items"][0]["index"]))
        white = np.argwhere((picture == 255).all(axis=-1)) * 16 // len(picture)
        return set(map(tuple, white.tolist()))

    assert outlined("", "reconstruction") == {(0, column) for column in range(4)}
    assert outlined("", "input") == set()
    assert outlined("sample_", "sample")
