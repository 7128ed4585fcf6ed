"""Whether this machine has a sandbox, and commands that root runs as an ordinary user."""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from genlab.sandbox.guest.lockdown import landlock_abi

ROOT = Path(__file__).resolve().parents[2]
MODES = ("bubblewrap", "landlock")
ORDINARY = 4242  # a uid that owns nothing


def needs_sandbox(mode: str = "") -> None:
    """Skip a test where this machine has no `mode` of the sandbox, or none at all.

    The machine is asked, not genlab: a sandbox that could start and does not fails the test.
    """
    if not any(_exists(candidate) for candidate in MODES if mode in ("", candidate)):
        pytest.skip(f"this machine has no {mode or 'bubblewrap and no landlock'}")


@cache
def _exists(mode: str) -> bool:
    if mode == "landlock":
        return landlock_abi() > 0
    bwrap = shutil.which("bwrap")
    user = [] if os.getuid() == 0 else ["--unshare-user"]
    command = [bwrap or "", *user, "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "true"]
    return bwrap is not None and subprocess.run(command, capture_output=True).returncode == 0


def run_as_ordinary_user(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run `argv` as root's test process, as a user who owns nothing; skip where root may not.

    It runs in a new mount namespace, so that an interpreter inside a home folder that others
    cannot enter is reachable.
    """
    needed = {os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, ROOT)}
    closed = {
        str(parent)
        for path in needed
        for parent in Path(path).parents
        if not parent.stat().st_mode & stat.S_IXOTH
    }
    steps = ["set -e"]
    for home in sorted(closed)[:1]:
        inner = sorted(path for path in needed if path.startswith(home + "/"))
        steps.append("stage=$(mktemp -d)")
        for number, path in enumerate(inner):
            steps += [f"mkdir $stage/{number}", f"mount --bind {shlex.quote(path)} $stage/{number}"]
        steps.append(f"mount -t tmpfs -o mode=755 none {shlex.quote(home)}")
        for number, path in enumerate(inner):
            steps += [f"mkdir -p {shlex.quote(path)}"]
            steps += [f"mount --move $stage/{number} {shlex.quote(path)}", f"rmdir $stage/{number}"]
        steps.append("rmdir $stage")
    user = f"setpriv --reuid {ORDINARY} --regid {ORDINARY} --clear-groups"
    steps.append(f"exec {user} -- {shlex.join(argv)}")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "\n".join(steps)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": "/"},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    if any(sign in done.stdout for sign in ("unshare: unshare failed", "mount:")):
        pytest.skip(f"root cannot make a place for an ordinary user here: {done.stdout[-200:]}")
    return done
