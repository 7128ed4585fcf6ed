"""Words in the names of files and folders that mean a split."""

from __future__ import annotations

import re

SPLIT_WORDS = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "dev": "val",
    "test": "test", "testing": "test",
}  # fmt: skip
ALL = ""  # the split of items without an official one


def parse_split(word: str) -> str | None:
    """Return the split that a word means, None where it means none."""
    return SPLIT_WORDS.get(word.lower())


def find_split(name: str) -> str:
    """Return the split that a word of a file's name means, ALL where none does."""
    words = re.split(r"[-_. ]", name.rpartition("/")[2])
    for word in words:
        split = parse_split("test" if word.lower() == "t10k" else word)
        if split:
            return split
    return ALL
