"""Parallel work: the same results in the same order, and clear errors."""

import math
import os
import sys

import pytest
import tiny
from refusals import refused

from genlab.core.errors import GenlabError
from genlab.core.workers import RayExecutor, parallel_map

PIECES = [float(number) for number in range(30)]
ROOTS = [math.sqrt(piece) for piece in PIECES]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_keep_the_order_of_the_pieces(workers: int) -> None:
    assert list(parallel_map(math.sqrt, PIECES, tiny.params(workers=workers))) == ROOTS


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_piece_is_raised(workers: int) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        list(parallel_map(math.sqrt, [1.0, -1.0], tiny.params(workers=workers)))


def test_a_killed_worker_is_one_line() -> None:
    with refused(key="workers"):
        list(parallel_map(os._exit, [1, 1], tiny.params(workers=2)))


def test_pieces_are_made_as_they_are_needed() -> None:
    pieces = iter(PIECES)
    next(parallel_map(math.sqrt, pieces, tiny.params(workers=2)))
    assert list(pieces)  # some are left


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused(key="engine", fix="pip install -e '.[ray]'"):
        list(parallel_map(math.sqrt, PIECES, tiny.params(engine="ray")))


def fail(piece: int) -> None:
    raise GenlabError(f"piece {piece} is broken; make it again", key="piece")


def test_an_error_on_a_ray_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers import this file
    with pytest.raises(GenlabError) as raised:
        list(parallel_map(fail, [1], tiny.params(engine="ray", workers=1)))
    assert (str(raised.value), raised.value.key) == ("piece 1 is broken; make it again", "piece")


def test_an_address_without_a_cluster_is_one_line() -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with refused("127.0.0.1:1", key="ray_address"):
        RayExecutor("127.0.0.1:1")
