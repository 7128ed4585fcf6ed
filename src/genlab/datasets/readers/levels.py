"""The scale that maps stored values to levels 0 to 255; an error where it is in doubt."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError

Range = tuple[float, float]
FEW = 31  # whole numbers up to here may be levels, classes or colours: in doubt


class Scale(NamedTuple):
    """Linear scale on which the values low and high become 0 and 255.

    rule: the scale in words, for the summary.
    """

    low: float
    high: float
    rule: str

    def apply(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Convert values to levels, uint8, rounded; values beyond the range are clipped."""
        levels: npt.NDArray[np.uint8] = values
        if values.dtype != np.uint8 or (self.low, self.high) != (0, 255):
            scaled = (values.astype(np.float32) - self.low) * (255 / (self.high - self.low))
            levels = np.clip(np.rint(scaled), 0, 255).astype(np.uint8)
        return levels


def find_scale(
    kind: np.dtype[Any], low: float, high: float, place: str, stated: Range | None = None
) -> Scale:
    """Find the scale of values by their type, minimum `low` and maximum `high`.

    stated: the range that the user states. place: the file, for messages. Raises GenlabError where
    the values allow several scales, or are no numbers.
    """
    if not np.isfinite([low, high]).all():
        raise GenlabError(f"{place}: holds values that are no numbers (nan or inf)", path=place)
    if stated is not None:
        return Scale(*stated, f"{stated[0]:g} to {stated[1]:g}, as stated")
    if kind.kind == "b" or (kind.kind in "ui" and (low, high) in ((0, 1), (1, 1), (0, 0))):
        return Scale(0, 1, "two levels, 0 and 1")
    if kind.kind == "f" and low >= 0 and high <= 1:
        return Scale(0, 1, "numbers from 0 to 1")
    if kind.kind == "f" and -1 <= low < 0 and high <= 1:
        return Scale(-1, 1, "numbers from -1 to 1")
    if low >= 0 and FEW < high <= 255 and kind != np.uint16:
        return Scale(0, 255, "0 to 255")
    if kind.kind in "ui" and low >= 0 and 4095 < high <= 65535:
        return Scale(0, 65535, "0 to 65535 (16 bits)")
    bits = max(1, int(high)).bit_length()
    likely = f", such as [0, {2**bits - 1}]" if low >= 0 else ""
    raise GenlabError(
        f"{place}: holds {kind.name} values from {low:g} to {high:g}, whose scale is in doubt:"
        f" set range to the values of black and white{likely}",
        key="source.range", path=place, fix=f"set range{likely}",
    )  # fmt: skip
