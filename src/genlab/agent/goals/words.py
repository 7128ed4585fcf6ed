"""Read the words of a goal sentence: names, paths, comparisons, and numbers with their units."""

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import NamedTuple

from genlab.agent.goals.numbers import (
    DIGITS,
    DURATION,
    PHRASE,
    SECONDS,
    TIME,
    read_digits,
    read_duration,
    read_phrase,
)
from genlab.core.errors import GenlabError

_NAMES = {
    "fashion_mnist": "fashion[-_ ]?mnist",
    "mnist": "mnist",
    "cifar10": "cifar[-_ ]?10",
    "arc_grids": "arc[-_ ](?:like[-_ ])?grids?",
    "dummy": "dummy",
    "other_dataset": r"[\w-]*mnist[\w-]*|cifar[-_ ]?[\w-]*|[\w-]*imagenet[\w-]*",
    "accuracy": "(?:top-?1 )?acc(?:ura(?:cy|te))?",
    "macro_f1": "macro[-_ ](?:averaged?[-_ ])?f[-_ ]?1(?:[-_ ]score)?",
    "val_loss": "val(?:idation)?[-_ ]loss",
    "bits_per_dim": "bits?(?:[-_ ]per[-_ ]|/)dim(?:ension)?s?",
    "frechet_distance": "fr[eé]chet[-_ ]distance",
    "error_rate": "(?:(?:top-?1|(?:mis)?classification|val(?:idation)?)[-_ ])?errors?(?:[-_ ]rate)?"
    "|misclassifications?(?: rate)?|misclassified",
    "other_metric": r"top[- ]?\d+(?: accuracy)?|(?:\w+-)?f[-_ ]?1(?:[-_ ]score)?|auc|auroc|fid"
    "|(?:train(?:ing)?|test)[-_ ](?:loss|accuracy|errors?(?: rate)?)|balanced[- ]accuracy"
    "|precision|recall|perplexity|elbo|nll|ssim|psnr|mse",
}
_SIGNS = {
    "more": r"\bmin\.|\b(?:at least|over|above|(?:more|greater|higher|larger|longer) than|minimum"
    r"|min|exceed(?:s|ing)?|or (?:more|higher|above|over))(?![\w-])|>=|≥|>",
    "less": r"\bmax\.|\b(?:at most|under|below|within|up to|(?:less|fewer|lower|smaller|shorter)"
    r" than|maximum|max|or (?:less|fewer|lower|below|under))(?![\w-])|<=|≤|<",
    "better": r"\b(?:or better|better than)\b",
    "worse": r"\bworse than\b",
}
_MEASURES = ("accuracy", "macro_f1", "val_loss", "bits_per_dim", "frechet_distance", "error_rate")
OPPOSITE = {"more": "less", "less": "more", "better": "worse", "worse": "better"}
_SCALES = {"": 1, "k": 1000, "t": 1000, "m": 1_000_000}  # by first letters
_UNITS = {
    "percent": "%|per ?cent",
    "parameters": "(?:(?:trainable|model|total) )?(?:param(?:eter)?s?|weights)",
    "seconds": TIME,
    "count": "(?:(?:conv(?:olutional)?|hidden|residual) )?(?:layers?|epochs?|blocks?|heads?)",
    "unlimited": "ms|[kmgt]?i?b(?:ytes?)?|[kmgt]?(?:flop|mac)s?",
}
_SPACED = rf"[1-9]\d{{0,2}}(?: \d{{3}})+(?= (?:{_UNITS['parameters']}))"
_ANY_UNIT = rf"[-\s]+(?:{'|'.join(_UNITS.values())})(?!\w)"


def _any(patterns: dict[str, str]) -> str:
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns.items())


# A name ends where its word ends: MNIST-1D is not MNIST.
_TOKENS = {
    "path": r"""["'`“‘](?P<quoted>(?:path:|~?/|\.{1,2}/|(?!bit)\w[\w. -]*/)[^"'`”’]*)["'`”’]"""
    r"|(?<![^\s(])(?:path:|~?/(?=\w)|\.{1,2}/)\S*[^\s.,;:!?)]",
    **{name: rf"(?<![\w-])(?:{pattern})(?!\w|-\w)" for name, pattern in _NAMES.items()},
    "not": r"\b(?:no|not|never|cannot|without|\w+n['’]t)\b(?: be\b| fall\b| drop\b)?",
    **_SIGNS,
    "shape": r"(?<!\w)\d+(?:\s*[x×]\s*\d+)+(?![\w^*])",
    "duration": DURATION,
    "quantity": rf"(?<![\w.])(?:(?P<digits>{_SPACED}|{DIGITS})"
    rf"|(?:an?|one)(?= (?:second|minute|hour)\b)|(?P<phrase>{PHRASE})(?={_ANY_UNIT}))"
    r"(?:\s*(?P<scale>k|thousand|m|million)\b)?"
    rf"(?:[-\s]*(?:{_any(_UNITS)}))?(?!\w|[.,]\d)",
    "unread": r"[$€£]|\d[^\s,;]*"
    r"|\b(?:half|quarter|hundred|thousand|million|seconds|minutes|hours|days?)\b",
    "word": r"[^\W\d_]\w*(?:[-'_]\w+)*",
    "stop": r"[,;.!?()]",
}
_TOKEN = re.compile(_any(_TOKENS), re.IGNORECASE)
# Words that may follow a percentage which means an accuracy without naming it.
JOINTS = re.compile(
    "|on|of|for|in|with|and|or|at|to|by|from|using|within|but|as|while|after|correct|right",
    re.IGNORECASE,
)
# Words that say nothing about a model, and may stand beside the name of a metric.
FILLERS = re.compile(
    f"{JOINTS.pattern}|an?|the|that|which|whose|its?|is|be|are|must|should|has|have|having|i|we|me"
    "|want|need|like|please|beat|hit|scores?|gets?|getting|reach(?:es|ing)?|achieves?|keep|bring|train(?:s|ed|ing)?"
    "|uses?|than|correctly|classif(?:y|ies|ied)|images|pictures|data(?:set)?",
    re.IGNORECASE,
)
_QUOTES = "\"'`“”‘’"
_MARKS = f" ,;:.!?()-–—{_QUOTES}"
_BRIDGES = re.compile("(?:of|is|be|an?|the|must|should|\\s)*", re.IGNORECASE)
OPTIONS = {"parameters": "--max-parameters", "seconds": "--training-seconds"}
LIMITS = f"the limits that a run enforces are {' and '.join(OPTIONS.values())}"


class UnreadError(GenlabError):
    """Raised for a sentence that the parser cannot read, though a language model might."""


class Quantity(NamedTuple):
    """A number of the sentence, its unit, and the comparison that belongs to it.

    before, after: the words beside it, negation and comparison skipped. places: positions of its
    tokens, with those of negation and comparison.
    """

    text: str
    value: Decimal
    unit: str
    sign: str
    before: str
    after: str
    places: frozenset[int]


def refuse(reason: str, fix: str, kind: type[GenlabError] = GenlabError) -> GenlabError:
    """Make the one-line error that says why a goal is refused, and the fix."""
    return kind(f"goal: {reason[:200]}; {fix}")


def find_tokens(words: str) -> list[re.Match[str]]:
    """Split a one-line sentence into tokens, which know their position in it."""
    return list(_TOKEN.finditer(re.sub("[‐‑‒–—−]", "-", words)))


def find_paths(tokens: Sequence[re.Match[str]]) -> list[str]:
    """Find the paths among tokens, each as the dataset path:FOLDER."""
    paths = [token["quoted"] or token["path"] for token in tokens if token["path"]]
    return [f"path:{path.removeprefix('path:')}" for path in paths]


def join_tokens(words: str, tokens: Sequence[re.Match[str]], chosen: Collection[int]) -> list[str]:
    """Join the chosen tokens to phrases, with the small words between neighbouring ones."""
    spans = list[tuple[int, int]]()
    for at in sorted(chosen):
        begin, end = tokens[at].span()
        between = words[spans[-1][1] : begin] if spans else "."
        if _BRIDGES.fullmatch(between):
            begin = spans.pop()[0]
        spans.append((begin, end))
    return [words[begin:end].strip(_QUOTES) for begin, end in spans]


def split_text(words: str, phrases: Sequence[str]) -> list[str]:
    """Split a sentence at phrases, given in their order, and trim what lies between them."""
    pieces = [words]
    for phrase in phrases:
        before, separator, after = pieces[-1].partition(phrase)
        pieces[-1:] = [before, after] if separator else [before]
    trimmed = [_trim(piece.split()) for piece in pieces]
    return [piece for piece in trimmed if piece]


def _trim(words: list[str]) -> str:
    """Join words, without those at both ends that say nothing."""
    while words and FILLERS.fullmatch(words[0].strip(_MARKS)):
        del words[0]
    while words and FILLERS.fullmatch(words[-1].strip(_MARKS)):
        del words[-1]
    return " ".join(words).strip(_MARKS)


def read_quantities(tokens: Sequence[re.Match[str]]) -> list[Quantity]:
    """Read every number with its unit and comparison.

    Raises an UnreadError for words that are not understood, and a GenlabError for limits that no
    run enforces.
    """
    for token in tokens:
        if token["unlimited"]:
            raise refuse(f"{token[0]!r} cannot be enforced", LIMITS)
    for token in tokens:
        if token["unread"]:
            raise refuse(f"{token[0]!r} cannot be read or enforced", LIMITS, UnreadError)
    signs = _bind_signs(tokens)
    quantities = []
    for at, token in enumerate(tokens):
        text = token["quantity"] or token["duration"]
        if not text:
            continue
        default = "seconds" if token["duration"] else ""
        unit = next((unit for unit in _UNITS if token[unit]), default)
        sign, sign_at = signs.get(at, ("", at))
        if unit == "count" and sign:
            raise refuse(f"{text!r} cannot be enforced", LIMITS)
        value = _read_value(token, unit)
        if value is None:
            fix = "write it as 50,000, 50k or 90 s"
            raise refuse(f"the number {text!r} is not clear", fix, UnreadError)
        negation = sign_at - 1 if sign and sign_at and tokens[sign_at - 1]["not"] else at
        places = frozenset((at, sign_at, negation))
        before = _find_word(tokens, min(places) - 1)
        after = _find_word(tokens, at + 1)
        if before.lower() == "by" and unit in ("", "percent"):
            reason = f"'by {text}' is a change, and a goal is a number to reach"
            raise refuse(reason, "state that number")
        quantities.append(Quantity(text, value, unit, sign, before, after, places))
    return quantities


def _find_word(tokens: Sequence[re.Match[str]], at: int) -> str:
    """Return the word at a position; empty where there is another token, or none."""
    if not 0 <= at < len(tokens):
        return ""
    return tokens[at]["word"] or ""


def _read_value(token: re.Match[str], unit: str) -> Decimal | None:
    """Read the value of a number in its unit, a time in seconds; None where it is not clear."""
    if token["duration"]:
        return read_duration(token[0])
    digits = token["digits"] or "1"
    scale = (token["scale"] or "").lower()[:1]
    if scale:
        is_clear = bool(unit)
    else:  # 3.000 parameters may be three thousand
        is_clear = unit != "parameters" or not re.fullmatch(r"\d*\.\d+", digits)
    value = read_phrase(token["phrase"]) if token["phrase"] else read_digits(digits)
    if value is None or not is_clear:
        return None
    seconds = SECONDS[token[unit][0].lower()] if unit == "seconds" else 1
    return value * _SCALES[scale] * seconds


def _bind_signs(tokens: Sequence[re.Match[str]]) -> dict[int, tuple[str, int]]:
    """Map the position of each number to its comparison and the position of that.

    A comparison stands before or after its number. Only words, negations and names of metrics may
    stand between them.
    """
    kinds = {"quantity": "q", "duration": "q", **dict.fromkeys(("word", "not", *_MEASURES), "w")}
    letters = "".join(kinds.get(token.lastgroup or "", "x") for token in tokens)
    bound: dict[int, tuple[str, int]] = {}
    for at, token in enumerate(tokens):
        if (sign := token.lastgroup or "") not in _SIGNS:
            continue
        if at and tokens[at - 1]["not"]:
            sign = OPPOSITE[sign]
        after = re.match("w*q", letters[at + 1 :])
        before = re.search("qw*$", letters[:at])
        target = before.start() if before else -1
        if after and not token[0].lower().startswith("or "):
            target = at + after.end()
        if target < 0 or bound.setdefault(target, (sign, at))[0] != sign:
            reason = f"{token[0]!r} has no number that belongs to it alone"
            raise refuse(reason, LIMITS, UnreadError)
    return bound


def find_foreign_errors(tokens: Sequence[re.Match[str]]) -> dict[int, str]:
    """Find errors that are none of classification, such as a calibration error.

    Returns the words by the position of their token.
    """
    phrases = {}
    for at, token in enumerate(tokens):
        neighbours = tokens[max(0, at - 1) : at + 2]
        words = [neighbour[0] for neighbour in neighbours if neighbour["word"]]
        if token["error_rate"] and not all(FILLERS.fullmatch(word) for word in words):
            phrase = [n[0] for n in neighbours if n["word"] or n["error_rate"]]
            phrases[at] = " ".join(phrase)
    return phrases
