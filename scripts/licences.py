"""List the installed packages with their licences, unknown licences last."""

from collections.abc import Iterable
from importlib.metadata import Distribution, distributions


def find_licence(package: Distribution) -> str:
    """Return a package's licence expression, else its classifiers or field; "" if unknown."""
    metadata = package.metadata
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or ()
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    field = (
        (metadata.get("License") or "").strip().split("\n")[0]
    )  # some packages have the full text here
    licence = metadata.get("License-Expression") or "; ".join(classifiers) or field
    return "" if licence.upper() == "UNKNOWN" else licence


def list_licences(packages: Iterable[Distribution]) -> list[str]:
    """Return a line per package, sorted; of several with the same name, the first on the path."""
    rows: dict[str, tuple[str, str, str]] = {}
    for package in packages:
        row = (package.name, package.version, find_licence(package))
        rows.setdefault(package.name.lower().replace("_", "-"), row)
    ordered = [rows[key] for key in sorted(rows, key=lambda key: (not rows[key][2], key))]
    return [f"{name:<36}{version:<20}{licence or 'unknown'}" for name, version, licence in ordered]


if __name__ == "__main__":
    print("\n".join(list_licences(distributions())))
