"""Ground-truth cases for the calibration of the score and for its test on held-out persons.

The photographs are those that ship in packages: tests of the `face_recognition` 1.3.0 source
distribution, samples of the npm package `@vladmandic/face-api` 1.7.15, scikit-image and matplotlib.
They are fetched to a temporary folder and never shipped with the cases.

Two persons are in photographs of several sessions: the one of CALIBRATION and the one of HELD_OUT.
No head of HELD_OUT is composited in CALIBRATION. Nothing was set on the cases of HELD_OUT; the
ramps of identity, expression and background are those of version 1 of the constants, which were set
on swaps among persons that include `ponytail`.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import matplotlib
import numpy as np
import PIL.Image
import skimage.data

from genlab.benchmark.cases import Case, ground_truth, load_case
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.persons import order_persons
from genlab.core.errors import GenlabError

COMMANDS = (
    [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
     "face_recognition==1.3.0"],
    ["npm", "pack", "--silent", "@vladmandic/face-api@1.7.15"],
)  # fmt: skip
TESTS = "face_recognition-1.3.0/tests/test_images"
SAMPLES = "package/demo"
MARGIN = 0.95  # of the face's box, around it
LONGEST = 1600

# Name: file, and the number of the person in it, as `persons.order_persons` numbers them.
PHOTOGRAPHS = {
    "portrait": (f"{TESTS}/obama.jpg", 1),
    "speech": (f"{TESTS}/obama2.jpg", 1),
    "reception": (f"{TESTS}/obama3.jpg", 1),
    "white-hair": (f"{TESTS}/biden.jpg", 1),
    "laughing": (f"{SAMPLES}/sample1.jpg", 3),
    "ponytail": (f"{SAMPLES}/sample3.jpg", 2),
    "long-hair": (f"{SAMPLES}/sample3.jpg", 3),
    "choker": (f"{SAMPLES}/sample4.jpg", 1),
    "daylight": (f"{SAMPLES}/sample5.jpg", 4),
    "tied-hair": (f"{SAMPLES}/sample5.jpg", 3),
    "side-parting": (f"{SAMPLES}/sample6.jpg", 2),
    "astronaut": ("astronaut.png", 1),
    "officer": ("officer.png", 1),
}
# Ideal, avatar, whose head is composited.
CALIBRATION = [
    ("portrait", "reception", "officer"),
    ("portrait", "reception", "astronaut"),
    ("portrait", "speech", "officer"),
    ("portrait", "speech", "astronaut"),
    ("reception", "portrait", "officer"),
    ("reception", "portrait", "astronaut"),
    ("reception", "portrait", "long-hair"),
]
HELD_OUT = [
    ("ponytail", "laughing", "white-hair"),
    ("ponytail", "laughing", "tied-hair"),
    ("ponytail", "laughing", "side-parting"),
    ("ponytail", "laughing", "choker"),
    ("ponytail", "laughing", "daylight"),
]


def fetch(folder: Path) -> dict[str, Path]:
    """Fetch the packages to `folder`; returns each photograph, cropped to its person."""
    for command in COMMANDS:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise GenlabError(
                f"{' '.join(command[-1:])} cannot be fetched ({done.stderr.strip()[-200:]}); make"
                " the registry reachable and run again"
            )
    for archive in [*folder.glob("*.tar.gz"), *folder.glob("*.tgz")]:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
    PIL.Image.fromarray(skimage.data.astronaut()[:, :400]).save(folder / "astronaut.png")
    officer = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    shutil.copy(officer, folder / "officer.png")
    return {name: crop(folder, name, *place) for name, place in PHOTOGRAPHS.items()}


def crop(folder: Path, name: str, file: str, number: int) -> Path:
    """Write the photograph `name` cut around one person's face."""
    image = read_photograph(folder / file)
    image.thumbnail((LONGEST, LONGEST))
    persons = order_persons(faces.detect(np.asarray(image)))
    box = np.array(persons[number - 1].box)
    more = MARGIN * (box[2] - box[0])
    low = np.maximum(box[:2] - more, 0)
    high = np.minimum(box[2:] + more, image.size)
    path = folder / f"{name}.png"
    left, top, right, bottom = (int(x) for x in (*low, *high))
    image.crop((left, top, right, bottom)).save(path)
    return path


def build_case(triple: tuple[str, str, str], photographs: dict[str, Path], root: Path) -> Case:
    """Build the ground-truth case of a triple in `root`."""
    folder = root / "-".join(triple)
    ground_truth.build_ground_truth(*(photographs[name] for name in triple), folder, consent=True)
    return load_case(folder)
