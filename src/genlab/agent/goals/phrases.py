"""Split a goal sentence into tokens and phrases.

Tokens are names, comparisons, quantities and other words. A phrase is a quantity with its number,
its unit and the comparison that belongs to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from genlab.agent.goals.goal import METRICS
from genlab.core.errors import GenlabError


def _any(patterns: dict[str, str]) -> str:
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns.items())


# The spellings of each name. A name ends where its word ends: MNIST-1D is not MNIST.
_DATASET_NAMES = {
    "fashion_mnist": r"fashion[-_ ]?mnist",
    "mnist": "mnist",
    "cifar10": r"cifar[-_ ]?10",
    "arc_grids": r"arc[-_ ](?:like[-_ ])?grids?",
    "dummy": "dummy",
}
_METRIC_NAMES = {
    "accuracy": r"(?:top-?1 )?accura(?:cy|cies|te)",
    "macro_f1": r"macro[-_ ](?:averaged?[-_ ])?f[-_ ]?1(?:[-_ ]score)?|f1[-_ ](?:score )?macro",
    "val_loss": r"val(?:idation)?[-_ ](?:loss|cross[-_ ]entropy(?: loss)?)",
    "bits_per_dim": r"bits?(?:[-_ ]per[-_ ]|/)dim(?:ension)?s?|bpd",
    "frechet_distance": r"fr[eé]chet[-_ ]distance",
}
_OTHER_NAMES = {
    "other_dataset": r"[\w-]*mnist[\w-]*|cifar[-_ ]?[\w-]*|[\w-]*imagenet[\w-]*|svhn|stl-?10|celeba"
    "|coco|usps|omniglot|caltech-?[0-9]*|food-?101|ffhq|lsun",
    "other_metric": r"top[- ]?\d+(?: accuracy)?|(?:micro|weighted)?[-_ ]?f[-_ ]?1(?:[-_ ]score)?"
    "|f-score|(?:roc[- ])?auc|auroc|(?:train(?:ing)?|test)[-_ ](?:loss|accuracy)|perplexity|elbo"
    "|nll|balanced[- ]accuracy|errors?(?: rate)?|(?:fr[eé]chet )?inception (?:distance|score)|fid"
    "|ssim|psnr|r?m[as]e",
    "vague_metric": "loss|precision|recall|likelihood|cross[- ]entropy|distance|score",
    "unlimited": "latency|inference time",
}
_SIGNS = {
    "more": r"\bmin\.|\b(?:at least|over|above|(?:more|greater|higher|larger) than|minimum|min"
    r"|exceed(?:s|ing)?|or (?:more|higher|above|over))(?![\w-])|>=|≥|=>|>",
    "less": r"\bmax\.|\b(?:at most|under|below|within|up to|(?:less|fewer|lower|smaller) than"
    r"|maximum|max(?! pool)|or (?:less|fewer|lower|below|under))(?![\w-])|<=|≤|=<|<",
    "better": r"\b(?:or better|better than|beat(?:s|ing)?)\b",
    "worse": r"\bworse than\b",
}
_OPPOSITE = {"more": "less", "less": "more", "better": "worse", "worse": "better"}
_TIMES = {r"s|sec(?:ond)?s?": 1.0, r"min(?:ute)?s?": 60.0, r"h|hours?|hrs?": 3600.0}
_UNITS = {
    "percent": "%",
    "parameters": "(?:(?:trainable|model|total) )*(?:param(?:eter)?s?|weights)",
    "seconds": "|".join(_TIMES),
    "count": r"(?:(?:conv(?:olutional)?|hidden|residual|dense|linear|training)[- ])?(?:layers?|d"
    "|epochs?|kernels?|filters?|channels?|blocks?|heads?|units?|neurons?|classes|stages?|seeds?)",
    "unlimited_unit": "ms|milliseconds?|[kmgt]?i?b(?:ytes?)?|[kmgt]?(?:flop|mac)s?|dollars?|days?",
}
_SCALES = {"hundred": 1e2, "k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}
_WORDS = {
    "half an": 0.5, "half a": 0.5, "an": 1.0, "a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0,
    "four": 4.0, "five": 5.0, "ten": 10.0,
}  # fmt: skip
_DIGITS = r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)(?:e[-+]?\d+)?"
_COUNTED = "hundred|thousand|million|seconds?|minutes?|hours?"
_KINDS = {
    "name": rf"(?<![\w-])(?:{_any(_DATASET_NAMES | _METRIC_NAMES | _OTHER_NAMES)})(?!\w|-\w)",
    "sign": rf"(?P<no>\b(?:no|not|never) (?:be |fall |drop |to )?)?(?:{_any(_SIGNS)})",
    "shape": r"(?<!\w)\d+(?:\s*[x×]\s*\d+)+(?!\w)",
    "quantity": rf"(?<![\w.])(?:(?P<digits>{_DIGITS})|(?P<words>{'|'.join(_WORDS)})(?=\s+(?:"
    rf"{_COUNTED})\b))(?P<scale>(?:\s*(?:{'|'.join(_SCALES)})\b)*)"
    rf"(?:[-\s]*(?:{_any(_UNITS)}))?(?!\w|[.,]\d)",
    "unread": r"[$€£]|\d[^\s,;]*|\b(?:(?:half|quarter|dozen|hundred|thousand|million)s?|seconds"
    r"|minutes|hours|days|twenty|thirty|forty|fifty|sixty|ninety)\b",
    "noun": r"\b(?:param(?:eter)?s?)\b",
    "word": r"[^\W\d_]\w*(?:[-'_]\w+)*",
    "stop": r"[,;.!?()]",
}
_LIMITS = "the limits that a run enforces are --max-parameters and --training-seconds"
_TOKEN = re.compile(_any(_KINDS), re.IGNORECASE)


class Token(NamedTuple):
    """A part of the sentence."""

    kind: str  # what its innermost group is called, such as mnist or less
    text: str
    match: re.Match[str]


class Phrase(NamedTuple):
    """A quantity of the sentence."""

    text: str
    value: float
    unit: str
    sign: str
    after: str  # the word that follows


def refuse(reason: str, fix: str) -> GenlabError:
    """Return the error of one line: why a goal is refused, and what settles it."""
    return GenlabError(f"goal: {reason[:200]}; {fix}")


def tokenise(words: str) -> list[Token]:
    """Split a sentence; what differs in typography alone is made equal first."""
    plain = words.translate(dict.fromkeys(map(ord, "‐‑‒–—−"), "-") | {0x2019: "'", 0xFF05: "%"})
    plain = re.sub(r"\bper ?cent\b", "%", plain, flags=re.IGNORECASE)
    plain = re.sub(r"n't\b|(?<=\bcan)not\b", " not", plain, flags=re.IGNORECASE)
    tokens = []
    for match in _TOKEN.finditer(plain):
        inner = [*_DATASET_NAMES, *_METRIC_NAMES, *_OTHER_NAMES, *_SIGNS, *_KINDS]
        kind = next(name for name in inner if match[name] is not None)
        if kind in ("unread", "unlimited"):
            raise refuse(f"{match[0]!r} cannot be read or enforced", _LIMITS)
        tokens.append(Token(kind, match[0].strip(), match))
    return tokens


def read_phrases(tokens: Sequence[Token]) -> list[Phrase]:
    """Read every quantity with its unit and comparison."""
    signs, found = _bind_signs(tokens), []
    for at, token in enumerate(tokens):
        if token.kind != "quantity":
            continue
        unit, sign = _read_unit(tokens, at), signs.get(at, "")
        if unit in ("unread", "unlimited_unit") or (unit == "count" and sign):
            raise refuse(f"{token.text!r} is not enforced", _LIMITS)
        if unit == "seconds" and at and tokens[at - 1].text.lower() in ("in", "for"):
            sign = sign or "less"
        after = "".join(each.text for each in tokens[at + 1 : at + 2] if each.kind == "word")
        found.append(Phrase(token.text, _read_number(token.match), unit, sign, after.lower()))
    return found


def _read_number(match: re.Match[str]) -> float:
    if match["words"]:
        value = _WORDS[match["words"].lower()]
    else:
        thousands = re.match(r"[-+]?[1-9]\d{0,2}(,\d{3})+", match["digits"])
        value = float(match["digits"].replace(",", "" if thousands else "."))
    value *= math.prod(_SCALES[scale] for scale in match["scale"].lower().split())
    if match["seconds"]:
        value *= next(s for name, s in _TIMES.items() if re.fullmatch(name, match["seconds"], re.I))
    return value


def _read_unit(tokens: Sequence[Token], at: int) -> str:
    """Return the unit that follows a quantity, or parameters where that noun is beside it."""
    text, match = tokens[at].text, tokens[at].match
    unit = next((name for name in _UNITS if match[name]), "")
    if not unit:
        fillers = ("count", "is", "be", "of", "the", "a")
        before = [each for each in reversed(tokens[:at]) if each.text.lower() not in fillers]
        sides = (tokens[at + 1 :], before)
        kinds = [next((t.kind for t in side if t.kind not in _SIGNS), "") for side in sides]
        if "noun" in kinds and kinds[0] not in METRICS:
            unit = "parameters"
        elif match["scale"]:
            return "unread"
    # 3.000 parameters may be three thousand
    dotted = unit == "parameters" and not match["scale"] and re.match(r"\d+\.\d{3}(?!\d)", text)
    return "unread" if dotted else unit


def _bind_signs(tokens: Sequence[Token]) -> dict[int, str]:
    """Map the index of a quantity to its comparison, which stands before it or after it."""
    bound: dict[int, str] = {}
    for at, token in enumerate(tokens):
        if token.kind in _SIGNS:
            sign = _OPPOSITE[token.kind] if token.match["no"] else token.kind
            trailing = token.text.lower().startswith("or ")
            ahead = None if trailing else _find_quantity(tokens, range(at + 1, len(tokens)))
            target = _find_quantity(tokens, range(at - 1, -1, -1)) if ahead is None else ahead
            if target is None or bound.setdefault(target, sign) != sign:
                if any(each.kind == "noun" for each in tokens[at + 1 :]):
                    raise refuse("a limit on parameters has no number", "give --max-parameters")
                if target is not None:
                    raise refuse(f"{tokens[target].text!r} has two comparisons", "leave one out")
    return bound


def _find_quantity(tokens: Sequence[Token], indices: range) -> int | None:
    """Return the first quantity that no comparison, dataset or punctuation stands before."""
    passed = ("word", "noun", *METRICS)
    first = next((index for index in indices if tokens[index].kind not in passed), None)
    return first if first is not None and tokens[first].kind == "quantity" else None
