"""Backups taken during writes are sound; a restore changes nothing until it has checked all."""

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from refusals import refused
from swap_runs import write_project

from genlab.benchmark.backup import MANIFEST, back_up, restore
from genlab.benchmark.store.repository import STORE, Store

COPIES = 60
# Saves ratings without a pause, and now and then a new picture with its digest.
WRITER = """
import hashlib, os, sys
from pathlib import Path
from genlab.benchmark.store.repository import STORE, Store
runs = Path(sys.argv[1])
with Store(runs / STORE) as store:
    item = store.items("2026-01-02")[0]
    print("writing", flush=True)
    for number in range(1_000_000):
        subject = hashlib.sha256(b"%d" % (number % 500)).hexdigest()
        store.rate("run_item", subject, "ada", 1 + number % 3, "blind")
        if number % 50 == 0:
            name, data = f"2026-01-02/good_tool/new-{number}.png", os.urandom(2000)
            (runs / name).write_bytes(data)
            item.image, item.image_sha256 = name, hashlib.sha256(data).hexdigest()
            store.save_items([item])
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def runs(project: Path, tmp_path: Path) -> Path:
    """A finished run, its pictures and ratings, tools.yaml and an answer that is not saved yet."""
    shutil.copytree(project / "runs", tmp_path / "runs")
    (tmp_path / "runs/tools.yaml").write_text("tools: []", "utf-8")
    (tmp_path / "runs/2026-01-02/good_tool/.case_9.answer").write_bytes(b"{}\nimage")
    (tmp_path / "runs/2026-01-02/.lock").touch()
    return tmp_path / "runs"


def content(runs: Path) -> dict[str, bytes]:
    """All files but the store's, by name."""
    paths = [path for path in runs.rglob("*") if path.is_file() and STORE not in path.name]
    return {path.relative_to(runs).as_posix(): path.read_bytes() for path in paths}


def rows(runs: Path) -> list[str]:
    """The store as SQL."""
    with closing(sqlite3.connect(runs / STORE)) as connection:
        return list(connection.iterdump())


def test_a_restored_backup_equals_what_was_backed_up(runs: Path, tmp_path: Path) -> None:
    archive = tmp_path / "b.zip"
    restored = tmp_path / "elsewhere/runs"
    assert back_up(runs, archive) == []
    assert restore(archive, restored) is None
    expected = content(runs)
    del expected["2026-01-02/.lock"]
    assert content(restored) == expected
    assert rows(restored) == rows(runs)
    with Store(restored / STORE) as store:
        assert len(store.items("2026-01-02")) == 28


def test_no_copy_of_60_is_malformed_while_another_process_writes(
    runs: Path, tmp_path: Path
) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(runs)], stdout=subprocess.PIPE, text=True
    )
    archive = tmp_path / "b.zip"
    faults = []
    rated = set()
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        for number in range(COPIES):
            faults += back_up(runs, archive)
            restored = tmp_path / "restored" / str(number)
            restore(archive, restored)
            with Store(restored / STORE) as store:
                [last] = store.table("SELECT max(rated) AS last FROM human_scores")["last"]
                rated.add(last)
            shutil.rmtree(restored)
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()
    assert faults == []
    assert len(rated) > 1  # it did write meanwhile


def test_a_folder_with_files_is_replaced_when_asked_and_kept_beside(
    runs: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "b.zip"
    back_up(runs, archive)
    (runs / "tools.yaml").write_text("tools: [changed]", "utf-8")
    before = content(runs)
    with refused(runs, "--replace"):
        restore(archive, runs)
    with Store(runs / STORE) as store:
        store.items()
        with refused(STORE, "open in another program", "stop the app"):
            restore(archive, runs, replace=True)
    assert content(runs) == before
    old = restore(archive, runs, replace=True)
    assert old is not None
    assert content(old) == before
    assert (runs / "tools.yaml").read_text("utf-8") == "tools: []"
    damaged = old / STORE
    damaged.write_bytes(b"no store")
    assert restore(archive, old, replace=True) is not None  # what a restore is for
    assert [path.name for path in tmp_path.glob(".genlab-*")] == []


def rewrite(archive: Path, **changes: bytes | None) -> None:
    """Change or add files of an archive and its list, or leave them out (None)."""
    with zipfile.ZipFile(archive) as source:
        files = {name: source.read(name) for name in source.namelist()}
    manifest = json.loads(files.pop(MANIFEST))
    for name, data in changes.items():
        files.pop(name, None)
        if data is not None:
            files[name] = data
    manifest["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    with zipfile.ZipFile(archive, "w") as target:
        for name, data in files.items():
            target.writestr(name, data)
        target.writestr(MANIFEST, json.dumps(manifest))


@pytest.mark.parametrize(
    "name", ["../out.txt", "/tmp/out.txt", "a/../../out.txt", "a\\..\\out.txt", "c:out.txt", "a//b"]
)
def test_no_file_is_unpacked_outside(runs: Path, tmp_path: Path, name: str) -> None:
    archive = tmp_path / "b.zip"
    back_up(runs, archive)
    rewrite(archive, **{name: b"evil"})
    with refused("b.zip", "no sound backup"):
        restore(archive, tmp_path / "other/runs")
    assert list(tmp_path.rglob("out.txt")) == []
    assert not (tmp_path / "other/runs").exists()


def test_a_damaged_or_foreign_archive_changes_nothing(runs: Path, tmp_path: Path) -> None:
    archive = tmp_path / "b.zip"
    back_up(runs, archive)
    sound = archive.read_bytes()
    before = content(runs)
    cut = sound[: len(sound) // 2]
    middle = len(sound) // 3
    flipped = sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :]
    for data in (cut, flipped, b"", b"no archive"):
        archive.write_bytes(data)
        with refused("b.zip", "no sound backup"):
            restore(archive, runs, replace=True)
    for changes in ({STORE: None}, {STORE: b"SQLite format 3\0 and more"}):
        archive.write_bytes(sound)
        rewrite(archive, **changes)
        with refused():
            restore(archive, runs, replace=True)
    with zipfile.ZipFile(archive, "w") as foreign:
        foreign.writestr("a.txt", "a")
    with refused("b.zip", "no sound backup"):
        restore(archive, runs, replace=True)
    assert content(runs) == before


def test_pictures_that_are_missing_or_changed_are_named(runs: Path, tmp_path: Path) -> None:
    with Store(runs / STORE) as store:
        first, second = [item.image for item in store.items() if item.image][:2]
    (runs / first).unlink()
    (runs / second).write_bytes(b"another")
    assert back_up(runs, tmp_path / "b.zip") == sorted([first, second])


def test_a_damaged_store_is_not_backed_up(runs: Path, tmp_path: Path) -> None:
    (runs / STORE).write_bytes((runs / STORE).read_bytes()[:9000])
    for name in ("-wal", "-shm"):
        (runs / (STORE + name)).unlink(missing_ok=True)
    with refused(STORE):
        back_up(runs, tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()
