"""Packages of the compared libraries, installed beside genlab's environment.

Each package lies in a folder of the user's cache, with a pinned version and without what it shares
with genlab (torch, numpy), so that a comparison changes neither environment nor results.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from platformdirs import user_cache_path

from genlab.core.errors import GenlabError

_PYTHAE = ("pythae==0.1.2", "cloudpickle==3.1.2", "imageio==2.37.2")
PACKAGES = {
    "pythae": _PYTHAE,
    "pythae-mixture": _PYTHAE,
    "normflows": ("normflows==1.7.3",),
}
"""By contender: the library, and what it needs that genlab does not install."""


def package_folder(contender: str) -> Path:
    """Return the folder that a contender's package is installed in."""
    return user_cache_path("genlab") / PACKAGES[contender][0].replace("==", "-")


def install(contender: str) -> None:
    """Install a contender's package, once and completely, and make it importable.

    Raises a GenlabError where pip cannot.
    """
    folder = package_folder(contender)
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command = [*pip, "--no-deps", "--target", str(unfinished), *PACKAGES[contender]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise GenlabError(
                f"pip could not install {PACKAGES[contender][0]} ({lines[-1].strip()[:200]});"
                " connect to a package index, or compare without it: --only ours"
            )
        os.replace(unfinished, folder)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
