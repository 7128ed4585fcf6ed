"""Files are written atomically; what is read is checked."""

import errno
import io
import os
import resource
import stat
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from genlab.core.io import (
    atomic_write,
    encode_npz,
    map_npy,
    read_json,
    read_npz,
    sha256,
    write_bytes,
    write_json,
    write_npz,
    write_text,
)

PRODUCER = "python stages/split.py --dataset arc_grids"
GRIDS = {"train": np.arange(512, dtype=np.uint8).reshape(2, 16, 16) % 10}


def _list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, error: type[BaseException]
) -> None:
    target = tmp_path / "metrics.json"
    write_text(target, "old")
    with pytest.raises(error), atomic_write(target) as temporary:  # noqa: PT012
        temporary.write_text("half of the n")
        raise error
    assert target.read_text() == "old"
    assert _list_names(tmp_path) == ["metrics.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_file_that_was_wanted(tmp_path: Path) -> None:
    target = tmp_path / "weights.bin"
    with pytest.raises(OSError) as error, atomic_write(target):  # noqa: PT011, SIM117
        with open("/dev/full", "wb") as full:
            full.write(b"x" * 100_000)
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(target))
    assert _list_names(tmp_path) == []


def test_what_stands_in_the_place_of_a_file_or_folder_is_named(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "")
    for target, named in ((tmp_path / "file" / "x.json", tmp_path / "file"), (tmp_path, tmp_path)):
        with pytest.raises(OSError) as error:  # noqa: PT011
            write_text(target, "text")
        assert str(error.value.filename) == str(named)


def test_missing_parents_are_made_the_suffix_is_kept_and_others_can_read(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "figure.png"
    previous = os.umask(0o022)
    try:
        with atomic_write(target) as temporary:
            assert (temporary.suffix, temporary.parent) == (".png", target.parent)
            temporary.write_bytes(b"png")
    finally:
        os.umask(previous)
    assert target.read_bytes() == b"png"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_json_keeps_its_order_and_ends_with_a_newline(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"b": 1, "a": [0.1, "ä"]})
    assert path.read_text(encoding="utf-8") == '{\n  "b": 1,\n  "a": [\n    0.1,\n    "ä"\n  ]\n}\n'
    assert read_json(path, producer_command=PRODUCER) == {"b": 1, "a": [0.1, "ä"]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_json_refuses_what_it_cannot_hold(tmp_path: Path, value: object) -> None:
    with refused(tmp_path / "x.json"):
        write_json(tmp_path / "x.json", {"value": value})
    assert _list_names(tmp_path) == []


@pytest.mark.parametrize("content", [b'{"kind": "a"', b"\xff\xfe", b'{"kind": "b"}', b"[1]", None])
def test_a_bad_json_names_file_and_command(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        write_bytes(path, content)
    with refused(path=path, fix=PRODUCER):
        read_json(path, producer_command=PRODUCER, kind="a")


def test_the_same_arrays_give_the_same_bytes_at_any_time(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", GRIDS, kind="dataset")
    time.sleep(2.1)  # zip stamps have a resolution of two seconds
    write_npz(tmp_path / "b.npz", GRIDS, kind="dataset")
    assert sha256(tmp_path / "a.npz") == sha256(tmp_path / "b.npz")


def test_numpy_reads_our_files_and_we_read_its_without_a_header(tmp_path: Path) -> None:
    write_npz(tmp_path / "ours.npz", GRIDS, kind="dataset")
    with np.load(tmp_path / "ours.npz") as archive:
        assert sorted(archive.files) == ["header", "train"]
        np.testing.assert_array_equal(archive["train"], GRIDS["train"])
    np.savez(tmp_path / "x.npz", **GRIDS)
    back = read_npz(tmp_path / "x.npz", kind=None, keys=["train"], producer_command=PRODUCER)
    np.testing.assert_array_equal(back["train"], GRIDS["train"])
    with refused("{}", path=tmp_path / "x.npz", fix=PRODUCER):
        read_npz(tmp_path / "x.npz", kind="dataset", keys=["train"], producer_command=PRODUCER)


def test_objects_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        write_npz(tmp_path / "x.npz", {"x": np.array([{}], dtype=object)}, kind="test")
    with pytest.raises(ValueError, match="header"):
        write_npz(tmp_path / "x.npz", {"header": np.zeros(1)}, kind="test")
    assert _list_names(tmp_path) == []


COMPLETE = encode_npz(GRIDS, kind="dataset")
MIDDLE = COMPLETE.index(b"train.npy") + 40
SINGLE = io.BytesIO()
np.save(SINGLE, GRIDS["train"])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(encode_npz(GRIDS, kind="checkpoint"), id="another kind"),
        pytest.param(encode_npz(GRIDS, kind="dataset", version=2), id="another version"),
        pytest.param(COMPLETE[:-40], id="truncated"),
        pytest.param(COMPLETE[:MIDDLE] + bytes(20) + COMPLETE[MIDDLE + 20 :], id="damaged"),
        pytest.param(SINGLE.getvalue(), id="single array"),
        pytest.param(b"", id="empty"),
        pytest.param(None, id="missing"),
    ],
)
def test_a_bad_npz_names_file_and_command(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.npz"
    if content is not None:
        write_bytes(path, content)
    with refused(path=path, fix=PRODUCER):
        read_npz(path, kind="dataset", keys=["train"], producer_command=PRODUCER)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", train=np.array([{}], dtype=object))
    with refused(path=tmp_path / "x.npz", fix=PRODUCER):
        read_npz(tmp_path / "x.npz", kind=None, keys=["train"], producer_command=PRODUCER)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    write_npz(tmp_path / "x.npz", GRIDS, kind="dataset")
    with refused("test", path=tmp_path / "x.npz", fix=PRODUCER):
        read_npz(tmp_path / "x.npz", kind="dataset", keys=["test"], producer_command=PRODUCER)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_a_file_that_cannot_be_mapped_for_want_of_memory_is_not_called_truncated(
    tmp_path: Path,
) -> None:
    size = 1 << 40
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with (tmp_path / "x.npy").open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (size,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + size)
    assert not map_npy(tmp_path / "x.npy", producer_command=PRODUCER).flags.writeable
    resource.setrlimit(resource.RLIMIT_AS, (size, limits[1]))
    try:
        with pytest.raises(OSError) as caught:  # noqa: PT011
            map_npy(tmp_path / "x.npy", producer_command=PRODUCER)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert caught.value.errno == errno.ENOMEM
