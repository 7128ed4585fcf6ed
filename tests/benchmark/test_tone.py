"""A change of tone over the whole picture is undone, and no other change is."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest

from genlab.benchmark.scoring.comparison import structure_distance
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.tone import restore_tone

LEVELS = np.arange(256) / 255
EVERYWHERE = np.ones((200, 300), dtype=bool)


def draw_scene(seed: int) -> Image:
    """Smooth colours with a few edges, away from black and white."""
    random = np.random.default_rng(seed)
    coarse = random.uniform(50, 205, (8, 12, 3)).astype(np.float32)
    return np.rint(cv2.resize(coarse, (300, 200), interpolation=cv2.INTER_LINEAR)).astype(np.uint8)


def make_curve(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Image], Image]:
    table = np.rint(255 * np.clip(function(LEVELS), 0, 1)).astype(np.uint8)
    return lambda image: cv2.LUT(image, table)


def saturate(image: Image) -> Image:
    grey = image.mean(-1, keepdims=True)
    return np.clip(np.rint(grey + 0.7 * (image - grey)), 0, 255).astype(np.uint8)


def mean_error(first: Image, second: Image) -> float:
    return float(cv2.absdiff(first, second).mean())


@pytest.mark.parametrize(
    "change",
    [
        make_curve(lambda x: 0.5 + 0.7 * (x - 0.5)),
        make_curve(lambda x: 0.1 + 0.9 * x),
        make_curve(lambda x: x**1.25),
        make_curve(lambda x: 1.15 * x),
        saturate,
        lambda image: np.clip(np.rint(image * [1.1, 1.0, 0.88]), 0, 255).astype(np.uint8),
    ],
    ids=["contrast", "blacks", "gamma", "exposure", "saturation", "white balance"],
)
def test_a_change_of_tone_is_undone_outside_and_inside_of_the_heads(
    change: Callable[[Image], Image],
) -> None:
    template = draw_scene(0)
    head = draw_scene(1)
    outside = EVERYWHERE.copy()
    outside[60:140, 100:200] = False
    result = np.where(outside[..., None], template, head)
    changed = change(result)
    restored, lose = restore_tone(template, changed, outside)
    before = mean_error(changed, result)
    after = mean_error(restored, result)
    assert after < min(2.0, before / 3)
    assert mean_error(lose(template), template) < 2.0


def test_what_is_no_tone_stays() -> None:
    template = draw_scene(0)
    for result in (template, draw_scene(1), cv2.GaussianBlur(template, (0, 0), 1.0)):
        restored, lose = restore_tone(template, result, EVERYWHERE)
        assert np.array_equal(restored, result)
        assert np.array_equal(lose(template), template)


def test_a_flat_background_determines_no_contrast() -> None:
    template = np.full((200, 300, 3), 150, dtype=np.uint8)
    template += np.random.default_rng(0).integers(0, 3, template.shape, dtype=np.uint8)
    result = template.copy()
    result[50:150, 100:200] = draw_scene(1)[50:150, 100:200]
    outside = EVERYWHERE.copy()
    outside[50:150, 100:200] = False
    restored, _ = restore_tone(template, result - np.uint8(30), outside)
    assert mean_error(restored, result) < 2.0


def test_what_a_tone_cuts_off_is_lost_to_other_pictures() -> None:
    template = np.tile(np.linspace(20, 235, 300), (200, 1)).astype(np.uint8)
    template = np.ascontiguousarray(np.repeat(template[..., None], 3, -1))
    cut = make_curve(lambda x: 1.5 * x)
    _, lose = restore_tone(template, cut(template), EVERYWHERE)
    lost = lose(template)[0, :, 0].astype(int)
    assert np.ptp(lost[250:]) < 3 < np.ptp(template[0, 250:, 0].astype(int))
    assert np.abs(lost[20:185] - template[0, 20:185, 0]).max() < 5  # the cut is at 170


def test_edges_survive_filters_and_not_another_picture() -> None:
    random = np.random.default_rng(0)
    coarse = random.uniform(0, 255, (2, 40, 40, 3)).astype(np.float32)
    first, second = (cv2.resize(x, (320, 320), interpolation=cv2.INTER_LINEAR) for x in coarse)
    where = np.ones((320, 320), dtype=bool)
    noise = random.normal(0, 25, first.shape).astype(np.float32)
    filtered = {
        "relit": 255 * (first / 255) ** 2,
        "faded": 60 + 0.4 * first,
        "blurred": cv2.GaussianBlur(first, (0, 0), 3.0),
        "noisy": first + noise,
    }
    for name, picture in filtered.items():
        assert structure_distance(first, picture, where) < 0.15, name
    assert structure_distance(first, first, where) == 0
    assert structure_distance(first, second, where) > 0.4
