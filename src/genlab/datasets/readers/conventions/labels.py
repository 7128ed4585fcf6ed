"""Names of classes from values that stand beside pictures: numbers, words, one-hot rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

WITHOUT = frozenset({"", "-1", "null"})  # texts that mean "no class"
MAX_CLASS_SHARE = 0.5  # maximum number of classes per picture; more values are no classes

Classes = list[str | None]


def name_classes(values: Sequence[Any]) -> tuple[Classes, str]:
    """Name the class of each value; return also a note that says why there are none, or "".

    Whole numbers are classes however they are written, fractions are measured values. None, NaN, -1
    and an empty text are pictures without a class. Text keeps its zeros: `007`.
    """
    names: Classes = []
    for value in values:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, str):
            value = value.strip()
            number = _as_number(value)
        else:
            number = None if value is None else float(value)
        if value is None or value in WITHOUT or (number is not None and math.isnan(number)):
            names.append(None)
        elif number is None:
            names.append(value)
        elif not number.is_integer():  # nor is infinity
            return [None] * len(values), "its labels are fractions, so no classes"
        elif isinstance(value, str) and value.isdigit():
            names.append(value)
        else:
            names.append(None if number == -1 else str(round(number)))
    distinct = {name for name in names if name is not None}
    if len(distinct) > max(1, MAX_CLASS_SHARE * len(values)):
        return [None] * len(values), f"its labels have {len(distinct):,} values, so no classes"
    return names, ""


def _as_number(text: str) -> float | None:
    """Parse a number; None for any other text, and for `nan` and `inf`."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def name_rows(labels: npt.NDArray[Any]) -> tuple[Classes, str]:
    """Name the class of each row of an array (n,), (n, 1) or one-hot (n, classes).

    Returns what `name_classes` does.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and labels.dtype.kind in "buif":
        if not (np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) == 1).all()):
            return [None] * len(labels), "its pictures have several labels at once, so no classes"
        labels = labels.argmax(axis=1)
    return name_classes(labels.tolist())


def name_one_hot(columns: dict[str, list[str]]) -> Classes | None:
    """Name classes by columns of 0 and 1, of which one is 1 in each row; None where that fails."""
    numbers = {name: [_as_number(cell) for cell in cells] for name, cells in columns.items()}
    binary = {name: cells for name, cells in numbers.items() if set(cells) <= {0.0, 1.0}}
    if len(binary) < 2:
        return None
    table = np.array(list(binary.values()), dtype=float)
    if not (table.sum(axis=0) == 1).all():
        return None
    names = list(binary)
    return [names[index] for index in table.argmax(axis=0)]
