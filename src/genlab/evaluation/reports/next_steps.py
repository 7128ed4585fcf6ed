"""What to try next for sharpness and diversity: sentences that a run's numbers give rise to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genlab.evaluation.reports.formats import number
from genlab.evaluation.reports.image_ablations import Row, ratio

Metrics = Mapping[str, Any]


def next_steps(metrics: Metrics, compared: Sequence[Row]) -> list[str]:
    """Statements, each a measured lack and what would be tried against it.

    compared: rows of `image_ablations.measures`, choices of networks and latents among them.
    """
    return [
        *_sharpness(metrics),
        *_texture(metrics),
        *_decoder_or_codes(metrics),
        *_diversity(metrics),
        *_idle_latents(metrics),
        *_better_runs(compared),
    ]


def _sharpness(metrics: Metrics) -> Iterator[str]:
    of = metrics["sharpness"]
    decoded, sampled = (ratio(of[name], of["test"]) for name in ("reconstructions", "samples"))
    if decoded is None or sampled is None:
        return
    opening = (
        f"**Sharpness.** The mean gradient of reconstructions is {number(decoded)} times that of "
        f"test images, that of samples {number(sampled)} times"
    )
    if min(decoded, sampled) >= 1:
        yield f"{opening}: nothing is blurred on average."
    elif 1 - decoded >= decoded - sampled:
        yield (
            f"{opening}: more is lost in the decoder than in sampling. More latents, a wider "
            "decoder or a second, coarser level of latents come first; a perceptual term beside "
            "the likelihood would sharpen pictures at the price of the bound."
        )
    else:
        yield (
            f"{opening}: more is lost in sampling than in the decoder. A stronger density over the "
            "codes comes first."
        )


def _texture(metrics: Metrics) -> Iterator[str]:
    shown, drawn = (_frechet(metrics, name) for name in ("prior", "ancestral"))
    if shown is None or drawn is None:
        return
    opening = (
        f"**Texture.** Pixels drawn from p(x|z) lie at Fréchet distance {number(drawn)}, its means "
        f"at {number(shown)}"
    )
    if drawn > shown:
        yield (
            f"{opening}: given the code pixels are independent, so drawing them adds grain that "
            "the data lack. A likelihood whose neighbours know of each other would draw texture."
        )
    else:
        yield f"{opening}: what the means leave out, the likelihood's own noise puts back."


def _decoder_or_codes(metrics: Metrics) -> Iterator[str]:
    name = metrics["best_sampler"]
    low, middle = metrics["floor"]["frechet_distance"], metrics["reconstruction"]
    reached, decoded = _frechet(metrics, name), middle["frechet_distance"]
    if reached is None or decoded is None:
        return
    opening = (
        f"**Where the distance arises.** Training images lie at Fréchet distance {number(low)} "
        f"from the test images, reconstructions at {number(decoded)}, samples of `{name}` at "
        f"{number(reached)}"
    )
    if decoded - low >= reached - decoded:
        yield f"{opening}: decoding makes up more of it than sampling, so the decoder comes first."
    else:
        yield (
            f"{opening}: sampling makes up more of it than decoding, so the prior comes first, "
            "wider, or trained on after the encoder has settled."
        )


def _diversity(metrics: Metrics) -> Iterator[str]:
    name = metrics["best_sampler"]
    drawn, decoded = metrics["samplers"][name], metrics["reconstruction"]
    if any(found[key] is None for found in (drawn, decoded) for key in ("recall", "coverage")):
        return
    opening = (
        f"**Diversity.** Samples of `{name}` have recall {number(drawn['recall'])} and coverage "
        f"{number(drawn['coverage'])}, reconstructions {number(decoded['recall'])} and "
        f"{number(decoded['coverage'])}"
    )
    if drawn["recall"] < decoded["recall"]:
        yield (
            f"{opening}: the decoder can show kinds of images that the sampler does not draw. A "
            "prior told the class, or one with more components, would reach them."
        )
    else:
        yield f"{opening}: the sampler reaches all that the decoder can show."


def _idle_latents(metrics: Metrics) -> Iterator[str]:
    active, all_of_them = metrics["active_units"], metrics["latent_dim"]
    if active < all_of_them:
        yield (
            f"**Idle latents.** {number(active)} of {number(all_of_them)} latents vary with the "
            "image; the others cost time and could be left out, or be won with more free bits."
        )


def _better_runs(compared: Sequence[Row]) -> Iterator[str]:
    """The ablation that beats its reference by most, in bits/dim and in Fréchet distance."""
    rows = [row for measure in compared for row in measure["rows"]]
    for key, words in (("bits", "bits/dim"), ("frechet", "Fréchet distance")):
        known = [
            (off / on, row)
            for row in rows
            if (off := row["off"][key]) is not None
            and (on := row["on"][key])
            and (key != "bits" or (row["off"]["comparable"] and row["on"]["comparable"]))
        ]
        share, row = min(known, key=lambda pair: pair[0], default=(1.0, None))
        if row is not None and share < 1:
            changed = " ".join(f"`{name}={value}`" for name, value in row["changed"].items())
            yield (
                f"**Better than the default in {words}.** `{row['name']}` ({changed}) has "
                f"{number(row['off'][key])}, `{row['reference']}` {number(row['on'][key])}: to be "
                "tried with the rest of the default, over seeds."
            )


def _frechet(metrics: Metrics, sampler: str) -> float | None:
    found: float | None = metrics["samplers"].get(sampler, {}).get("frechet_distance")
    return found
