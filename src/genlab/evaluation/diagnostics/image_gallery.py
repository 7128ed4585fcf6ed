"""The failure gallery of images: the worst reconstructions and samples, each with a reason.

The summary holds numbers and indices alone, so that it stays small; the page takes the pictures
from the arrays beside it.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.stats import spearmanr

from genlab.core.stats import Floats
from genlab.evaluation.diagnostics.attributes import Attributes
from genlab.evaluation.diagnostics.error_analysis import (
    SAME_CLASS,
    Hypothesis,
    Test,
    compare,
    explanation,
)
from genlab.evaluation.diagnostics.image_attributes import (
    MEANING,
    class_means,
    image_attributes,
    image_hypotheses,
)
from genlab.evaluation.metrics.fidelity import mse
from genlab.evaluation.reports import formats

Images = npt.NDArray[np.uint8]
Item = dict[str, Any]

STRIKING = 0.9
"""Share of its class that an image must surpass in an attribute for it to be pointed out."""
POINTED_OUT = 3


@dataclass(frozen=True, eq=False)
class Reconstructions:
    """Test images and what became of them.

    truth, predicted: (n, h, w, c) uint8; labels: (n,) classes; nats: (n,) -log p(x|z), where it is
    known; train_distances: (n,) to the nearest training image, where that was searched.
    """

    truth: Images
    predicted: Images
    labels: npt.ArrayLike
    nats: npt.ArrayLike | None = None
    train_distances: npt.ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples, and how unlike the training images they are.

    images: (m, h, w, c) uint8; nearest: the training image nearest to each, of the same shape;
    errors: (m,) distances between the two in a classifier's features; labels: (m,) classes that
    the classifier sees.
    """

    images: Images
    nearest: Images
    errors: npt.ArrayLike
    labels: npt.ArrayLike


def summary(
    reconstructions: Reconstructions,
    samples: Samples,
    names: Sequence[str],
    *,
    count: int = 16,
    bootstrap: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """All that the gallery says, as `page` shows it and `failures.json` keeps it.

    names: of the classes. Returns

    - `error` ("mse": mean squared error of levels in [0, 1]), `n`, the `count` worst `items` and
      the `tests` of `failures.compare` over all n; where every nats is positive, as those of
      discrete likelihoods are, `nats_tests`, the same in nats (else []), and where nats are given
      `nats_rank_correlation`, Spearman's between both errors (else None);
    - `sample_error` ("feature distance"), `sample_n`, `sample_items`, `sample_tests`: the same of
      samples, whose class is the classifier's and whose atypicality is their distance from the
      class means of the test images.
    """
    real = reconstructions
    measured = image_attributes(real.truth, real.labels, names, real.train_distances)
    hypotheses = image_hypotheses(names, measured)
    centres = class_means(real.truth, measured["class"], len(names))
    of_samples = image_attributes(samples.images, samples.labels, names, centres=centres)
    about_samples = image_hypotheses(
        names, of_samples, subject="samples", verb="are unlike any training image"
    )
    errors, distances = mse(real.truth, real.predicted), np.asarray(samples.errors, np.float64)
    nats = None if real.nats is None else np.asarray(real.nats, dtype=np.float64)

    def tested(error: str, values: Floats, of: Attributes, claims: Sequence[Hypothesis]) -> Any:
        return compare(
            values,
            of,
            error_name=error,
            hypotheses=claims,
            stratum=SAME_CLASS,
            bootstrap=bootstrap,
            seed=seed,
        )

    tests = tested("mse", errors, measured, hypotheses)
    sample_tests = tested("feature distance", distances, of_samples, about_samples)
    # A density's nats may be negative: then no ratio of them means anything.
    graded = nats is not None and bool((nats > 0).all())
    items = worst("mse", errors, measured, names, tests, hypotheses, count=count)
    if nats is not None:
        items = [item | {"reconstruction_nats": float(nats[item["index"]])} for item in items]
    return {
        "error": "mse",
        "n": len(errors),
        "items": items,
        "tests": tests,
        "nats_tests": tested("nats", nats, measured, hypotheses)
        if nats is not None and graded
        else [],
        "nats_rank_correlation": None if nats is None else _rank_correlation(errors, nats),
        "sample_error": "feature distance",
        "sample_n": len(distances),
        "sample_items": worst(
            "feature distance",
            distances,
            of_samples,
            names,
            sample_tests,
            about_samples,
            count=count,
        ),
        "sample_tests": sample_tests,
    }


def worst(
    error_name: str,
    errors: Floats,
    measured: Attributes,
    names: Sequence[str],
    tests: Sequence[Test],
    hypotheses: Sequence[Hypothesis],
    *,
    count: int = 16,
) -> list[Item]:
    """The `count` images of the greatest error, each with what is striking and what explains it.

    `explanation` is the best supported claim that holds of the image, `also` names the other
    supported ones that do, the highest interval first.
    """
    median = float(np.median(errors))
    items = []
    for index in np.argsort(-errors, kind="stable")[:count].tolist():
        times = f", {errors[index] / median:.2g} times the median" if median > 0 else ""
        items.append(
            {
                "index": index,
                "class": names[measured["class"][index]],
                "error": float(errors[index]),
                "standing": f"{error_name} {errors[index]:.3g}{times}",
                "attributes": {
                    name: column[index].item()
                    for name, column in measured.items()
                    if name != "class"
                },
                "seen": striking(index, measured),
                **_reasons(index, measured, tests, hypotheses),
            }
        )
    return items


def striking(index: int, measured: Attributes) -> list[str]:
    """Attributes in which image `index` surpasses STRIKING of its class, or is surpassed, in words.

    At most POINTED_OUT, the most unusual first.
    """
    mates = measured["class"] == measured["class"][index]
    found = []
    for name, (words, _) in MEANING.items():
        if name not in measured:
            continue
        value, others = measured[name][index], measured[name][mates]
        for side, share in (("above", (others < value).mean()), ("below", (others > value).mean())):
            if share >= STRIKING:
                # Rounded down: nothing is above 100 % of a class that it belongs to.
                found.append((share, f"{words} {side} {int(100 * share)} % of its class"))
    return [words for _, words in sorted(found, key=lambda pair: -pair[0])[:POINTED_OUT]]


def _reasons(
    index: int, measured: Attributes, tests: Sequence[Test], hypotheses: Sequence[Hypothesis]
) -> Item:
    best = explanation(index, measured, tests, hypotheses=hypotheses, stratum=SAME_CLASS)
    if best is None:
        return {
            "hypothesis": None,
            "explanation": "none of the tested attributes explains it",
            "also": [],
        }
    holds = {each.name: each.holds for each in hypotheses}
    others = [
        test
        for test in _strongest_first(tests)
        if test["verdict"] == "supported"
        and test is not best
        and holds[test["name"]](measured)[index]
    ]
    shown = f"{best['sentence']} ({best['verdict']}: {_ratio_words(best)})"
    return {
        "hypothesis": best["name"],
        "explanation": shown if best["verdict"] == "supported" else f"perhaps {shown}",
        "also": [test["name"] for test in others],
    }


def _strongest_first(tests: Sequence[Test]) -> list[Test]:
    """Tests by verdict, the supported first, then by how high the interval lies."""
    verdicts = ("supported", "undecided", "refuted", "untestable")

    def key(test: Test) -> tuple[int, float]:
        low = np.inf if test["low"] is None else test["low"]
        return verdicts.index(test["verdict"]), -low

    return sorted(tests, key=key)


def _ratio_words(test: Test) -> str:
    ratio = test[SAME_CLASS.ratio]
    shown = "no error at all without it" if ratio is None else f"{ratio:.2f} times the error"
    high = "∞" if test["high"] is None else f"{test['high']:.2f}"
    return shown if test["low"] is None else f"{shown}, {test['low']:.2f} to {high}"


def _rank_correlation(errors: Floats, nats: Floats) -> float | None:
    """Spearman's rank correlation; None where one of both is constant."""
    if np.ptp(errors) == 0 or np.ptp(nats) == 0:
        return None
    return float(spearmanr(errors, nats).statistic)


def page(
    title: str,
    summary: Mapping[str, Any],
    reconstructions: Reconstructions,
    samples: Samples,
) -> str:
    """The gallery as one HTML page that needs no other file.

    summary: made by `summary` of the same reconstructions and samples, which give the pictures.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("genlab.evaluation", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": formats.number, "ranked": _strongest_first}
    environment.filters |= {"words": formats.words, "tile": tile}
    chosen = [item["index"] for item in summary["items"]]
    truth, predicted = reconstructions.truth[chosen], reconstructions.predicted[chosen]
    difference, gain = _differences(truth, predicted)
    chosen = [item["index"] for item in summary["sample_items"]]
    return environment.get_template("image_gallery.html.j2").render(
        title=title,
        gain=gain,
        pictures=list(zip(truth, predicted, difference, strict=True)),
        sample_pictures=list(zip(samples.images[chosen], samples.nearest[chosen], strict=True)),
        measured={
            name: meaning
            for name, meaning in MEANING.items()
            if any(name in item["attributes"] for item in summary["items"])
        },
        **summary,
    )


def _differences(truth: Images, predicted: Images) -> tuple[Images, float]:
    """|truth - predicted|, brightened by one gain for all so that the greatest is white."""
    difference = np.abs(truth.astype(np.int16) - predicted)
    gain = 255 / max(int(difference.max(initial=0)), 1)
    return np.rint(difference * gain).astype(np.uint8), gain


def tile(image: Images) -> str:
    """An image (h, w, 1 or 3) as a PNG data URI of its own size."""
    buffer = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(
        buffer, format="PNG", optimize=True
    )
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
