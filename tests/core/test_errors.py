"""A fault is one line on stderr and an exit status; a bug keeps its traceback."""

import errno
import os
import pickle
import sys
from pathlib import Path

import pytest
import typer

from genlab.core.errors import OS_FIXES, GenlabError, run_cli


def _one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    assert text.startswith("genlab: ")
    return text


def _expect_exit(error: BaseException, status: int) -> None:
    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as stop:
        run_cli(main)
    assert stop.value.code == status


def test_a_fault_of_the_user_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    _expect_exit(GenlabError("params.yaml: lr must be > 0,\n got -1"), 2)
    output = capsys.readouterr()
    assert _one_line(output.err) == "genlab: error: params.yaml: lr must be > 0, got -1\n"
    assert output.out == ""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT])
def test_a_fault_of_the_disk_names_the_file_and_its_fix(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    _expect_exit(OSError(number, os.strerror(number), "data/x.npz"), 2)
    line = _one_line(capsys.readouterr().err)
    for text in ("data/x.npz", os.strerror(number), OS_FIXES[number]):
        assert text in line


FOLLOWING = ValueError("can't close the file")  # caused by a lack of memory
FOLLOWING.__context__ = MemoryError()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried"),
        RuntimeError("could not create a primitive"),
        RuntimeError("can't start new thread"),
        RuntimeError("std::bad_alloc"),
        ImportError("a.so: failed to map segment from shared object"),
        RuntimeError("can't allocate memory"),
        FOLLOWING,
    ],
)
def test_where_memory_runs_out_one_line_says_so(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    _expect_exit(error, 2)
    assert "out of memory" in _one_line(capsys.readouterr().err)


def test_a_bug_and_its_own_exit_status_pass_through() -> None:
    _expect_exit(SystemExit(7), 7)
    with pytest.raises(ZeroDivisionError):
        run_cli(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="shape"):
        _expect_exit(RuntimeError("shape mismatch"), 2)


def test_ctrl_c_in_a_typer_app_is_one_line_and_status_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()

    @app.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["interrupted"])
    with pytest.raises(SystemExit) as stop:
        run_cli(app)
    assert stop.value.code == 130
    assert "interrupted" in _one_line(capsys.readouterr().err)


def test_an_error_has_its_place_for_programs() -> None:
    error = GenlabError("params.yaml: lr must be > 0", key="lr", path="params.yaml", fix="raise lr")
    assert (error.key, error.path, error.fix) == ("lr", Path("params.yaml"), "raise lr")
    assert pickle.loads(pickle.dumps(error)).key == "lr"
    assert str(GenlabError("of two\nlines")) == "of two lines"
