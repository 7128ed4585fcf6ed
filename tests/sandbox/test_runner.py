"""A sandbox runs jobs within their limits, in both modes; attacks on it are in tests/faults."""

import errno
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Timer

import attacks
import pytest
from sandboxes import MODES, needs_sandbox

from genlab.core.errors import GenlabError
from genlab.sandbox import Sandbox, SandboxWarning, Worker, read_back, runner, worker
from genlab.sandbox.guest import lockdown, seccomp


@pytest.fixture(scope="module", params=MODES)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[attacks.Target]:
    needs_sandbox(request.param)
    tmp_path_factory.getbasetemp()  # made before the target has the folder for temporary files
    with attacks.make_target(request.param) as prepared:
        yield prepared


@pytest.fixture
def sandbox(target: attacks.Target) -> Sandbox:
    return target.sandbox


def test_temporary_folders_of_tests_are_outside_of_the_target(
    target: attacks.Target, tmp_path: Path
) -> None:
    assert not tmp_path.is_relative_to(target.base)


def test_a_job_has_its_environment_and_gives_its_status(sandbox: Sandbox) -> None:
    done = sandbox.run(["sh", "-c", "cat; echo $NAME >&2; exit 7"], env={"NAME": "n"})
    assert (done.output, done.exit_code, done.stopped_by) == ("n\n", 7, None)


def test_output_is_cut_with_a_mark(sandbox: Sandbox) -> None:
    done = sandbox.run(
        ["python", "-c", "print('y' * 3000)"], limits=replace(attacks.QUICK, output_bytes=1000)
    )
    assert done.output == "y" * 1000 + "\n[... output cut at 1000 bytes ...]\n"
    assert done.stopped_by is None


def test_a_signal_and_a_lack_of_memory_are_named(sandbox: Sandbox) -> None:
    killed = sandbox.run(["python", "-c", "import os; os.kill(os.getpid(), 9)"])
    assert (killed.exit_code, killed.stopped_by) == (-signal.SIGKILL, "signal")
    assert sandbox.run(["python", "-c", "bytearray(50 << 30)"]).stopped_by == "memory"
    assert sandbox.run(["no-such-program"]).exit_code == 127


FORK = """
import os, time
if {}:
    while time.process_time() < 0.5: pass
    os._exit(0)
{}
"""


@pytest.mark.parametrize("condition", ["os.fork() == 0", "os.fork()"])
def test_the_cpu_time_of_all_processes_is_counted(target: attacks.Target, condition: str) -> None:
    rest = "os.wait()" if "0" in condition else "time.sleep(60)"  # an orphan, which is killed
    (target.workspace / "job.py").write_text(FORK.format(condition, rest))
    for done in (target.worker.run("job.py"), target.sandbox.run(["python", "job.py"])):
        assert done.exit_code == 0
        assert 0.5 <= done.cpu_seconds < done.seconds * (os.cpu_count() or 1)


def test_a_job_without_processes_has_threads(target: attacks.Target) -> None:
    code = (
        "import os, subprocess, threading\n"
        "for start in (os.fork, lambda: subprocess.run(['true'])):\n"
        "    try: print(start())\n"
        "    except OSError as error: print(error.errno)\n"
        "threading.Thread(target=print, args=['thread']).start()\n"
    )
    (target.workspace / "job.py").write_text(code)
    done = target.worker.run("job.py", limits=replace(attacks.QUICK, forks=False))
    assert done.output == f"{errno.EAGAIN}\n{errno.EAGAIN}\nthread\n"


def test_a_guest_that_was_root_owns_nothing_but_its_workspace(sandbox: Sandbox) -> None:
    done = sandbox.run(["python", "-c", "import os; open('mine', 'w'); print(os.getuid())"])
    uid = int(done.output)
    assert (uid == os.getuid()) == (os.getuid() != 0)
    assert (sandbox.workspace / "mine").stat().st_uid == uid
    assert read_back(sandbox.workspace, "mine") == b""


def test_code_can_use_temporary_files_and_none_is_left(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)  # as a folder in root's home, which the guest's user cannot enter
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = "import tempfile; open(tempfile.mkdtemp() + '/f', 'w'); tempfile.TemporaryFile()"
    assert sandbox.run(["python", "-c", code]).output == ""
    (sandbox.workspace / "job.py").write_text(code)
    (sandbox.workspace / "endless.py").write_text(code + "\nwhile True: pass")
    with Worker(sandbox, ("tempfile",)) as worker:
        assert worker.run("job.py").output == ""
        assert worker.run("endless.py", limits=attacks.SHORT).output == ""
    assert os.listdir(tmp_path) == []
    if os.getuid() == 0:
        tmp_path.chmod(0o1777)  # as the system's
    with Worker(sandbox, ()) as caller:
        caller.start()
        caller.control.close()  # as when it is killed
        caller.process.wait(20)
        assert os.listdir(tmp_path) == []


def test_output_can_be_shown_on_a_terminal(sandbox: Sandbox) -> None:
    code = r"print('\x1b]0;title\x07\x1b[31mred\x1b[0m \u202eevil\x08\u2066\ttab')"
    assert sandbox.run(["python", "-c", code]).output == "red evil\ttab\n"


def test_files_of_the_caller_are_the_guests_to_change(target: attacks.Target) -> None:
    (target.workspace / "job.py").write_text("open('deep/given', 'a').write('+')")
    target.worker.run("job.py")  # the worker is warm: what follows is made under its feet
    (target.workspace / "deep").mkdir()
    (target.workspace / "deep/given").write_text("mine")
    assert target.worker.run("job.py").output == ""
    assert read_back(target.workspace, "deep/given") == b"mine+"


def test_what_was_printed_before_the_end_of_time_is_kept(target: attacks.Target) -> None:
    (target.workspace / "job.py").write_text("print('began')\nwhile True: pass")
    for done in (
        target.worker.run("job.py", limits=attacks.SHORT),
        target.sandbox.run(["python", "job.py"], limits=attacks.SHORT),
    ):
        assert (done.output, done.stopped_by) == ("began\n", "time")


def test_an_interrupted_caller_leaves_no_guest(
    target: attacks.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(worker._Job, "_exceeds_disk_limits", interrupt)
    (target.workspace / "job.py").write_text("while True: pass")
    with Worker(target.sandbox, ("json",)) as caller, pytest.raises(KeyboardInterrupt):
        caller.run("job.py")
    assert attacks.left_alive(target) == ""


def test_another_thread_ends_a_job_at_once(target: attacks.Target) -> None:
    cancelled = Event()
    (target.workspace / "job.py").write_text("while True: pass")
    with Worker(target.sandbox, ("json",), cancelled) as caller:
        caller.start()
        began = time.monotonic()
        Timer(0.2, cancelled.set).start()
        for _ in range(2):  # and no other one begins
            with pytest.raises(KeyboardInterrupt):
                caller.run("job.py")
    assert time.monotonic() - began < attacks.QUICK.wall_seconds / 2
    assert attacks.left_alive(target) == ""


def test_a_path_is_readable_where_it_was_named(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("held")
    argv = ["python", "-c", f"print(open({str(tmp_path / 'data')!r}).read())"]
    assert sandbox.run(argv).exit_code == 1
    wider = Sandbox(sandbox.workspace, attacks.QUICK, mode=sandbox.mode, readable=[tmp_path])
    assert wider.run(argv).output == "held\n"
    argv[2] = argv[2].replace("read()", "write('x')").replace("')", "', 'w')", 1)
    assert wider.run(argv).exit_code == 1
    assert (tmp_path / "data").read_text() == "held"


@pytest.mark.skipif(not Path("/dev/tty0").exists() or os.getuid() != 0, reason="no spare device")
def test_a_device_is_there_where_it_was_handed_in(sandbox: Sandbox) -> None:
    look = ["python", "-c", "import os; print(os.path.exists('/dev/tty0'))"]
    if sandbox.mode == "landlock":
        pytest.skip("Landlock hides contents, not names")
    assert sandbox.run(look).output == "False\n"
    handed = Sandbox(sandbox.workspace, attacks.QUICK, mode="bubblewrap", devices=["/dev/tty0"])
    assert handed.run(look).output == "True\n"


@pytest.mark.parametrize("device", [True, False])
def test_what_cudas_driver_needs_comes_with_a_device(sandbox: Sandbox, device: bool) -> None:
    needed = {
        "memory file": "os.memfd_create('m')",
        "socket": "s = socket.socket(AF, socket.SOCK_SEQPACKET); s.bind('\\0n'); s.listen()",
        "thread's name": "open(f'/proc/self/task/{t.native_id}/comm', 'w').write('named')",
    }
    refused = {
        "connection": "socket.socket(AF).connect('\\0n')",
        "acceptance": "socket.socketpair()[0].accept()",
        "datagram": "socket.socket(AF, socket.SOCK_DGRAM)",
        "internet": "socket.socket()",
    }
    code = "import os, socket, threading, time\nAF = socket.AF_UNIX\n"
    code += "t = threading.Thread(target=time.sleep, args=[1])\nt.start()\n"
    for name, line in {**needed, **refused}.items():
        code += f"try: {line}; print({name!r})\nexcept PermissionError: pass\n"
    devices = ["/dev/zero"] if device else []
    with_devices = Sandbox(sandbox.workspace, attacks.QUICK, mode=sandbox.mode, devices=devices)
    done = with_devices.run(["python", "-c", code])
    without = [] if sandbox.mode == "landlock" else ["thread's name"]
    assert done.output.splitlines() == (list(needed) if device else without)


def test_jobs_of_a_worker_get_arguments_and_end_as_scripts_do(target: attacks.Target) -> None:
    job = target.workspace / "job.py"
    job.write_text("import sys; print(__name__, sys.argv[1:]); sys.exit('sorry')")
    done = target.worker.run("job.py", ["a", "b"])
    assert (done.output, done.exit_code) == ("__main__ ['a', 'b']\nsorry\n", 1)
    job.write_text("import atexit; atexit.register(print, 'bye'); 1 / 0")
    done = target.worker.run("job.py")
    assert done.exit_code == 1
    assert "ZeroDivisionError" in done.output
    assert done.output.endswith("bye\n")


def test_a_worker_that_was_harmed_starts_again(target: attacks.Target) -> None:
    (target.workspace / "job.py").write_text("print('here')")
    guards = set()
    with Worker(target.sandbox, ("json",)) as caller:
        for _ in range(3):
            assert caller.run("job.py").output == "here\n"
            guard = caller.process
            guards.add(guard.pid)
            os.killpg(guard.pid, signal.SIGKILL)
            guard.wait()
    assert len(guards) == 3


@pytest.mark.parametrize("bwrap", ["", "#!/bin/sh\necho 'bwrap: No permissions' >&2; exit 1\n"])
def test_without_a_working_bubblewrap_the_best_mode_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bwrap: str
) -> None:
    needs_sandbox("landlock")
    monkeypatch.setenv("PATH", str(tmp_path))
    if bwrap:
        (tmp_path / "bwrap").write_text(bwrap)
        (tmp_path / "bwrap").chmod(0o755)
    with pytest.warns(SandboxWarning, match="No permissions" if bwrap else "no bwrap on PATH"):
        assert Sandbox(tmp_path).mode == "landlock"
    with pytest.warns(SandboxWarning, match="names, sizes and dates of files"):
        Sandbox(tmp_path, mode="landlock")
    with pytest.raises(GenlabError, match="bubblewrap does not work here"):
        Sandbox(tmp_path, mode="bubblewrap")


def test_nothing_runs_where_there_is_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lockdown, "landlock_abi", lambda: 0)
    runner.probe_mode.cache_clear()
    try:
        with pytest.raises(GenlabError, match="apt-get install bubblewrap"):
            Sandbox(tmp_path)
        with pytest.raises(GenlabError, match="no Landlock"):
            Sandbox(tmp_path, mode="landlock")
    finally:
        runner.probe_mode.cache_clear()


@pytest.mark.parametrize(
    "arguments",
    [{"mode": "none"}, {"workspace": "/no/such/folder"}, {"readable": ["/no/such/file"]}],
)
def test_bad_arguments_are_one_line(arguments: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(GenlabError):
        Sandbox(**{"workspace": tmp_path, **arguments})  # type: ignore[arg-type]


def test_read_back_takes_plain_files_alone(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/result.json").write_text("{}")
    assert read_back(tmp_path, "deep/result.json") == b"{}"
    os.link(tmp_path / "deep/result.json", tmp_path / "second")
    for path in ("deep", "second", "../x", "/etc/passwd", "", "missing", "deep/result.json/x"):
        with pytest.raises(GenlabError):
            read_back(tmp_path, path)


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
@pytest.mark.parametrize("alone", [0, 77])
@pytest.mark.parametrize("forks", [True, False])
def test_the_filter_jumps_to_its_own_lines_and_ends(machine: str, alone: int, forks: bool) -> None:
    code = seccomp.build_filter(machine, (5, -5), alone, forks=forks)
    assert len(code) < 4096
    for line, (operation, yes, no, _) in enumerate(code):
        if operation not in (seccomp.LOAD, seccomp.RETURN):
            assert line + 1 + max(yes, no) < len(code)
            assert max(yes, no) < 256
    assert code[-1][0] == seccomp.RETURN


def test_where_landlock_keeps_no_signals_in_the_filter_does() -> None:
    child = os.fork()
    if child == 0:  # a copy of the tests: nothing may be raised through it
        refused = 0
        try:
            lockdown.prctl(lockdown.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.install((), os.getpid(), attributes=False)
            os.kill(os.getpid(), 0)
            for number, forbidden in enumerate(
                (lambda: os.kill(os.getppid(), 0), lambda: os.kill(-1, 0), lambda: os.utime("/"))
            ):
                try:
                    forbidden()
                except PermissionError:
                    refused |= 1 << number
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0b111
