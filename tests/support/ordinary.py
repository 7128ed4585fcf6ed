"""What root's tests run a second time as somebody who owns nothing."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORDINARY = 4242  # a uid that owns nothing
NO_PLACE = ("unshare: unshare failed", "mount:")  # said where such a user has no way in


def as_ordinary_user(argv: list[str]) -> list[str]:
    """A command line of root's that runs `argv` as an ordinary user.

    In a mount namespace of its own where the interpreter stands in a home that others cannot enter.
    """
    needed = {os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, ROOT)}
    shut = {
        str(parent)
        for path in needed
        for parent in Path(path).parents
        if not parent.stat().st_mode & stat.S_IXOTH
    }
    steps = ["set -e"]
    for home in sorted(shut)[:1]:
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
    return ["unshare", "--mount", "sh", "-c", "\n".join(steps)]
