"""List the installed packages with their licences; those of unknown licence come last."""

from collections.abc import Iterable
from importlib.metadata import Distribution, distributions


def licence_of(package: Distribution) -> str:
    """Return the licence as an expression, else by classifiers, else by field; "" where unknown."""
    metadata = package.metadata
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or ()
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    field = (metadata.get("License") or "").strip().split("\n")[0]  # some hold the whole text
    found = metadata.get("License-Expression") or "; ".join(classifiers) or field
    return "" if found.upper() == "UNKNOWN" else found


def list_licences(packages: Iterable[Distribution]) -> list[str]:
    """Return a line for each package, by name; the first on the path where several share one."""
    rows: dict[str, tuple[str, str, str]] = {}
    for package in packages:
        row = (package.name, package.version, licence_of(package))
        rows.setdefault(package.name.lower().replace("_", "-"), row)
    ordered = [rows[key] for key in sorted(rows, key=lambda key: (not rows[key][2], key))]
    return [f"{name:<36}{version:<20}{licence or 'unknown'}" for name, version, licence in ordered]


if __name__ == "__main__":
    print("\n".join(list_licences(distributions())))
