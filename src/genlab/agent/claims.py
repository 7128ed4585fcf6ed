"""Numbers in an LLM's words about a model, held against what was measured.

A count of parameters or of multiply-adds, or the shape of the output, that is not the measured one
is put right in place. A number that is rounded (12k, 1.2 million) or called approximate is judged
as such. Parameters of a part of the model are a true number too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

LOOSE = 0.1  # of a number that is called approximate
SCALES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "b": 1e9, "billion": 1e9}
NUMBER = (
    r"(?P<loose>(?:about|around|roughly|approximately|nearly|almost|some|~)\s*)?"
    r"(?<![\w.,])(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?:\s?(?P<scale>k|m|b|thousand|million|billion)\b)?(?![\w%])"
)
BETWEEN = r"\s+(?:(?:trainable|total|learnable|model|in|of)\s+){0,2}"
PARAMETERS = r"(?:parameters?|params|weights)\b"
MULTIPLY_ADDS = r"(?:multiply[- ]adds?|mult[- ]adds?|multiply[- ]accumulates?|macs)\b"
TIE = r"\s*(?:is|are|of|:|=|equals|total(?:s|ling)?|count)?\s*(?:count|is|:|=)?\s*"
OUTPUT = re.compile(
    r"(?P<name>outputs?(?:\s+(?:shape|size|of|is|has|a|the|tensor)){0,4})\s*[:=]?\s*"
    r"(?P<shape>[(\[]\s*\d+(?:\s*[,x×]\s*\d+)*\s*,?\s*[)\]])",
    re.IGNORECASE,
)


def corrected(words: str, summary: Mapping[str, Any]) -> tuple[str, list[str]]:
    """`words` with each wrong number replaced by the measured one, and a line for each.

    summary: parameters, trainable, multiply_adds, output and layers, as summary.json holds them.
    """
    overruled: list[str] = []
    measured = (
        ("parameters", PARAMETERS, _parts(summary), int(summary["parameters"])),
        ("multiply-adds", MULTIPLY_ADDS, {int(summary["multiply_adds"])},
         int(summary["multiply_adds"])),
    )  # fmt: skip
    for name, noun, known, true in measured:
        for pattern in (rf"{NUMBER}{BETWEEN}{noun}", rf"\b{noun}{TIE}{NUMBER}"):

            def judged(
                hit: re.Match[str], name: str = name, known: set[int] = known, true: int = true
            ) -> str:
                if any(_same(hit, value) for value in known):
                    return hit[0]
                said = hit["number"] + (f" {hit['scale']}" if hit["scale"] else "")
                overruled.append(f"the LLM said {said} {name}, measured {true:,}")
                start, end = hit.start("number") - hit.start(), hit.end("number") - hit.start()
                end = hit.end("scale") - hit.start() if hit["scale"] else end
                return f"{hit[0][:start]}{true:,}{hit[0][end:]}"

            words = re.sub(pattern, judged, words, flags=re.IGNORECASE)
    return _shapes(words, list(summary["output"]), overruled), overruled


def _shapes(words: str, output: list[int], overruled: list[str]) -> str:
    """`words` with the right shape where one is called the output's."""
    true = f"({', '.join(map(str, output))})"

    def judged(hit: re.Match[str]) -> str:
        said = [int(side) for side in re.findall(r"\d+", hit["shape"])]
        if said in (output, output[1:]):
            return hit[0]
        overruled.append(f"the LLM said output {hit['shape']}, measured {true}")
        return hit[0].replace(hit["shape"], true)

    return OUTPUT.sub(judged, words)


def _parts(summary: Mapping[str, Any]) -> set[int]:
    """Parameters of the whole, and of every part that has a name."""
    totals: dict[str, int] = {}
    for layer in summary["layers"]:
        names = str(layer["name"]).split(".")
        for depth in range(1, len(names) + 1):
            part = ".".join(names[:depth])
            totals[part] = totals.get(part, 0) + int(layer["parameters"])
    frozen = int(summary["parameters"]) - int(summary["trainable"])
    return {int(summary["parameters"]), int(summary["trainable"]), frozen, *totals.values()}


def _same(hit: re.Match[str], measured: int) -> bool:
    """Whether what was said is `measured`, as finely as it was said."""
    digits = hit["number"].replace(",", "")
    scale = SCALES[hit["scale"].lower()] if hit["scale"] else 1.0
    said = float(digits) * scale
    if not math.isfinite(said):
        return False
    step = scale / 10 ** len(digits.partition(".")[2])
    slack = 0.5 * step if scale > 1 or "." in digits else 0.0
    if hit["loose"]:
        slack = max(slack, LOOSE * measured)
    return abs(said - measured) <= slack
