"""The list of licences: expression, classifier, field, then packages that say nothing."""

from importlib.metadata import distributions
from pathlib import Path

from scripts.licences import list_licences

METADATA = {
    "Zeta": "License-Expression: MIT OR Apache-2.0\nLicense: the old field",
    "alpha": "Classifier: License :: OSI Approved\n"
    "Classifier: License :: OSI Approved :: BSD License\nLicense: text",
    "mid": "License: ISC\n        and then its text",
    "beta": "License: UNKNOWN",
    "also_silent": "Summary: none",
}


def test_licences_are_sorted_and_unknown_ones_are_last(tmp_path: Path) -> None:
    for folder in ("first", "second"):  # of a package that stands twice, the first counts
        for name, lines in METADATA.items():
            info = tmp_path / folder / f"{name}-1.dist-info"
            info.mkdir(parents=True)
            version = "1.0" if folder == "first" else "2.0"
            text = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{lines}\n"
            (info / "METADATA").write_text(text)
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    rows = [line.split(maxsplit=2) for line in list_licences(distributions(path=folders))]
    assert rows == [
        ["alpha", "1.0", "BSD License"],
        ["mid", "1.0", "ISC"],
        ["Zeta", "1.0", "MIT OR Apache-2.0"],
        ["also_silent", "1.0", "unknown"],
        ["beta", "1.0", "unknown"],
    ]
