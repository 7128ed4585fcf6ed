"""Grids beyond the first shard: same bytes by any number of workers, none of val or test."""

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest
import tiny
from refusals import refused

from genlab.core.io import UNFINISHED, read_json, sha256, write_text
from genlab.datasets import arc_grids, shards
from genlab.datasets.arc_grids import (
    find_data_file,
    generate_grids,
    load_split,
    make_distribution,
    split_grids,
)
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.datasets.splits import SplitSummary
from genlab.grids.generator import AtomicImageGenerator, hash_grids

SHARD = 60
COUNT = 200


@pytest.fixture(autouse=True)
def _small_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for module in ("arc_grids", "shards"):
        monkeypatch.setattr(f"genlab.datasets.{module}.SHARD", SHARD)


def generate(folder: str, **params: Any) -> dict[str, str]:
    """Generate COUNT grids; the hashes of the files."""
    generate_grids("arc_grids", tiny.params(**params), Path(folder), COUNT)
    return {file.name: sha256(file) for file in Path(folder).iterdir()}


def split() -> SplitSummary:
    """Generate COUNT grids and split them into the folder `split`."""
    generate("made", workers=1)
    return split_grids("arc_grids", tiny.params().grids, Path("made"), Path("split"), seed=0)


def test_shards_outlive_a_fault_in_what_is_written_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(arc_grids, "write_manifest", Mock(side_effect=OSError("a full disk")))
        with pytest.raises(OSError, match="a full disk"):
            generate("made", workers=1)
    shutil.rmtree("made")  # as DVC does before a stage
    monkeypatch.setattr(shards, "draw_shard", None)  # none is drawn again
    assert len(generate("made", workers=1)) == 6


def test_shards_of_other_code_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(arc_grids, "digest_code", lambda *_: "older")
        patch.setattr(shutil, "rmtree", lambda *_: None)  # as if killed before
        generate("older", workers=1)
    [unfinished] = UNFINISHED.iterdir()
    write_text(unfinished / "grids_00001.npz", "of other code")
    assert len(generate("made", workers=1)) == 6
    assert unfinished.exists()


def test_a_split_of_another_count_takes_the_place_of_the_last() -> None:
    split()
    generate_grids("arc_grids", tiny.params(), Path("made"), 50)
    split_grids("arc_grids", tiny.params().grids, Path("made"), Path("split"), seed=0)
    assert find_data_file("split").name == "simplified_dataset_50.npz"


def test_any_number_of_workers_gives_the_same_bytes() -> None:
    alone = generate("alone", workers=1)
    shard_files = {f"grids_{index:05d}.npz" for index in (1, 2, 3)}
    assert set(alone) == {"grids.npz", "objects.npz", "manifest.json", *shard_files}
    assert generate("together", workers=3) == alone
    assert generate("again", workers=1, seed=1) != alone


def test_a_ray_cluster_gives_the_same_bytes() -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    assert generate("ray", engine="ray", workers=2) == generate("alone", workers=1)


def test_training_gets_the_shards_and_no_grid_of_val_or_test() -> None:
    assert split().counts == {"train": COUNT - 12, "val": 6, "test": 6}
    train = load_split("split", "train")
    assert isinstance(train, np.memmap)
    assert len(train) == COUNT - 12
    held_out = np.concatenate([load_split("split", name) for name in ("val", "test")])
    assert not np.isin(hash_grids(train), hash_grids(held_out)).any()
    later_shards = [np.load(f"made/grids_{index:05d}.npz")["grids"] for index in (1, 2, 3)]
    assert np.array_equal(train[SHARD - 12 :], np.concatenate(later_shards))
    assert (
        shards.TRAIN_FILE in read_json(Path("split") / MANIFEST_FILE, producer_command="")["sha256"]
    )


def test_an_excluded_grid_is_not_drawn() -> None:
    generator = AtomicImageGenerator(make_distribution(tiny.params().grids))
    first = generator.generate(50, 0).grids
    others = generator.generate(50, 0, hash_grids(first)).grids  # the same stream of draws
    assert not np.isin(hash_grids(others), hash_grids(first)).any()


def test_a_killed_run_keeps_its_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = generate("whole", workers=1)
    draws = [DEFAULT, DEFAULT, KeyboardInterrupt, DEFAULT]  # DEFAULT: what is wrapped
    draw = Mock(wraps=shards.draw_shard, side_effect=draws)
    monkeypatch.setattr(shards, "draw_shard", draw)
    with pytest.raises(KeyboardInterrupt):
        generate("resumed", workers=1)
    assert generate("resumed", workers=1) == whole
    drawn = [call.args[0].seed for call in draw.call_args_list]
    assert drawn == [(0, 1), (0, 2), (0, 3), (0, 3)]
    assert not list(UNFINISHED.rglob("*.npz"))


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"no array"])
def test_a_truncated_training_file_is_one_line(content: bytes) -> None:
    split()
    (Path("split") / shards.TRAIN_FILE).write_bytes(content)
    with refused(path=Path("split") / shards.TRAIN_FILE):
        load_split("split", "train")


def test_only_the_file_of_the_manifest_has_shards(tmp_path: Path) -> None:
    split()
    file = find_data_file("split")
    mine = tiny.write_dataset(tmp_path, 50)
    users = shutil.copy(mine, file.parent / "mine.npz")
    assert len(load_split(file, "train")) == COUNT - 12
    assert len(load_split(users, "train")) == 40
    shutil.copy(mine, file)
    assert len(load_split(file, "train")) == 40
    (file.parent / MANIFEST_FILE).write_text("[]")
    assert len(load_split(users, "train")) == 40
