"""The policy of the tree of attempts (AIDE, Jiang et al. 2025), and random search over networks."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from genlab.agent.architecture.schema import Layer, ModelConfig, has_custom
from genlab.agent.architecture.template import count_parameters
from genlab.agent.architecture.training import Training
from genlab.agent.config import Problem, Settings
from genlab.agent.registry import Attempt, Design
from genlab.core.errors import GenlabError

DEBUG_SHARE, DEBUG_DEPTH, TRAINING_SHARE = 0.5, 3, 0.35
TRIES = 100  # proposals that are drawn until one can be assembled
WIDTHS = ("out_channels", "out_features", "hidden_size")
FIRST_WIDTHS, HIDDEN = (8, 12, 16, 24, 32), (32, 64, 96, 128, 192, 256)
ACTIVATIONS = ("ReLU", "GELU", "SiLU", "LeakyReLU", "Mish", "Hardswish")
NORMS = ("BatchNorm2d", "BatchNorm2d", "GroupNorm", "Identity")
CHANGES = ("insert", "insert", "remove", "widths", "widths", "kernel", "activation", "norm")
KINDS, POOLS = ("plain", "residual", "depthwise"), ("MaxPool2d", "MaxPool2d", "AvgPool2d")
TRAINING: dict[str, tuple[Any, ...]] = {
    "optimiser": ("adamw", "adamw", "adamw", "adam", "nadam", "radam"),
    "lr": (5e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 4e-3, 6e-3, 1e-2), "warmup": (0.0, 0.05, 0.1, 0.2),
    "batch_size": (16, 32, 32, 64, 64, 128), "weight_decay": (0.0, 1e-4, 0.01, 0.01, 0.05),
    "schedule": ("cosine", "cosine", "linear", "constant"), "clip": (0.0, 0.0, 1.0),
    "label_smoothing": (0.0, 0.0, 0.05, 0.1), "mixup": (0.0, 0.0, 0.0, 0.2),
    "ema": (0.0, 0.0, 0.0, 0.95, 0.99),
}  # fmt: skip


def choose_parent(
    settings: Settings, attempts: Sequence[Attempt], number: int
) -> tuple[str, Attempt | None, random.Random]:
    """What attempt `number` (from 0) is to be, which one it changes, and its random generator.

    Drafts until there are `drafts`; then with some probability a failed leaf is debugged, at most
    three times in a row; else the attempt with the best mean is improved.
    """
    rng, goal = random.Random(f"{settings.seed}:{number}"), settings.goal
    usable = [attempt for attempt in attempts if attempt.kind]  # others were called by hand
    if sum(not each.parent for each in usable) < settings.params.drafts:
        return "draft", None, rng
    known, parents = {each.run_id: each for each in usable}, {each.parent for each in usable}

    def depth(attempt: Attempt | None) -> int:
        return 1 + depth(known.get(attempt.parent)) if attempt and attempt.failure else 0

    broken = [x for x in usable if x.run_id not in parents and 0 < depth(x) <= DEBUG_DEPTH]
    measured = [each for each in usable if each.values(goal.metric)]
    if broken and (not measured or rng.random() < DEBUG_SHARE):
        return "debug", rng.choice(broken), rng
    best = max(measured, key=lambda each: goal.score(each.mean(goal.metric)), default=None)
    return "improve" if best else "draft", best, rng


def draw_proposal(
    problem: Problem, parent: Design | None, rng: random.Random, tried: Sequence[Design] = ()
) -> tuple[Design, str]:
    """A random draft, or one random change of the parent, and the change in a sentence.

    It is none of those tried, and the template assembles it within the limit on parameters. A
    parent that no change brings to that is given up for a draft. Raises a GenlabError where no
    draft is small enough.
    """
    usable = parent and parent[0].parts and not has_custom(parent[0])
    for tries in range(2 * TRIES):
        training = parent[1] if parent else Training()
        if parent is None or not usable or tries >= TRIES:
            config, training = _draft(problem, rng), _draw_training(problem, rng)
            change = "a random draft"
        elif rng.random() < TRAINING_SHARE:
            drawn = _draw_training(problem, rng)
            config, (training, change) = parent[0], _change_training(training, drawn, rng)
        else:
            config, change = _change_config(parent[0], rng)
        fitting = _fit(config, problem)
        if fitting and (fitting, training) not in (parent, *tried):
            return (fitting, training), change
    most = problem.settings.budget.max_parameters
    raise GenlabError(f"max_parameters: no further network was found with at most {most:,}")


def _fit(config: ModelConfig, problem: Problem) -> ModelConfig | None:
    """The config with widths that the limit allows; None where it cannot be assembled."""
    task, shape, most = problem.task, problem.shape, problem.settings.budget.max_parameters
    if len(config.parts) < (1 if task == "classify" else 2):  # a change left nothing of one
        return None
    for _ in range(20):
        parts = {name: _copy(layers) for name, layers in config.parts.items()}
        for name, each in parts.items():
            _set_groups(each, shape[0] if name != "decoder" else config.latent_dim)
        config = config.model_copy(update={name: tuple(each) for name, each in parts.items()})
        try:
            count = count_parameters(config, shape, problem.outputs, task)
        except GenlabError:
            return None
        if count <= most:
            return config
        for each in parts.values():
            _scale(each, max(0.5, 0.95 * (most / count) ** 0.5))
    return None


def _draft(problem: Problem, rng: random.Random) -> ModelConfig:
    """Convolutions whose width grows where a pooling follows, then perhaps hidden layers."""
    shape, classify = problem.shape, problem.task == "classify"
    act, norm, kind = {"type": rng.choice(ACTIVATIONS)}, rng.choice(NORMS), rng.choice(KINDS)
    width, side, kernel = rng.choice(FIRST_WIDTHS), min(shape[1:]), rng.choice((3, 3, 3, 5))
    dropout = rng.choice((0.0, 0.0, 0.1, 0.3, 0.5))
    stages = rng.choice((0, 1, 2, 2, 2, 3, 3) if classify else (1, 2, 2))
    layers = _block("plain", width, kernel, norm, act) if stages else []
    for _ in range(stages):
        if side >= 4:
            layers.append({"type": rng.choice(POOLS), "kernel_size": 2})
            side, width = side // 2, min(rng.choice((1, 2, 2)) * width, 256)
        for _ in range(rng.randint(1, 2)):
            layers += _block(kind, width, kernel, norm, act)
    if classify:
        if stages and (pooled := rng.choice((0, 1, 1, 2, 3))):
            layers.append({"type": "AdaptiveAvgPool2d", "output_size": min(pooled, side)})
        drop: list[Layer] = [{"type": "Dropout", "p": dropout}] if dropout else []
        layers += [{"type": "Flatten"}, *(drop if stages else [])]
        for _ in range(rng.randint(0 if stages else 1, 2)):
            layers += [{"type": "Linear", "out_features": rng.choice(HIDDEN)}, act, *drop]
        return ModelConfig(name="SearchNet", layers=tuple(layers))
    sides = [-(-each // 2 ** min(stages, 2)) for each in shape[1:]]
    decoder = [{"type": "ConvTranspose2d", "out_channels": width, "kernel_size": sides}, act]
    for _ in range(min(stages, 2)):
        width = max(8, width // rng.choice((1, 2)))
        decoder += [{"type": "Upsample", "scale_factor": 2}, *_block(kind, width, 3, norm, act)]
    parts = {"encoder": tuple(layers), "decoder": tuple(decoder)}
    return ModelConfig(name="SearchVAE", latent_dim=rng.choice((4, 8, 16, 32, 64)), **parts)


def _block(kind: str, width: int, kernel: int, norm: str, act: Layer) -> list[Layer]:
    conv = {"type": "Conv2d", "out_channels": width, "kernel_size": kernel, "padding": kernel // 2}
    normed: Layer = {"type": norm}
    if kind == "residual":
        return [{"type": "Residual", "layers": [conv, normed, act, conv, normed]}, act]
    if kind == "depthwise":  # _set_groups makes as many groups as there are channels
        point = {"type": "Conv2d", "out_channels": width, "kernel_size": 1}
        return [conv | {"groups": width}, normed, act, point, normed, act]
    return [conv, normed, act]


def _draw_training(problem: Problem, rng: random.Random) -> Training:
    values = {name: rng.choice(choices) for name, choices in TRAINING.items()}
    if problem.task == "generate":
        return _suit(values | {"label_smoothing": 0.0, "mixup": 0.0})
    transforms: list[dict[str, Any]] = [
        {"type": "RandomCrop", "size": list(problem.shape[1:]), "padding": 2},
        {"type": "RandomHorizontalFlip"},
        {"type": "RandomAffine", "degrees": 10, "translate": [0.07, 0.07], "scale": [0.9, 1.1]},
        {"type": "RandomErasing", "p": 0.25},
    ]
    return _suit(values | {"augmentation": rng.sample(transforms, rng.choice((0, 0, 0, 1, 1, 2)))})


def _suit(values: dict[str, Any]) -> Training:
    """A recipe whose weight decay suits its optimiser: that of adamw alone is decoupled."""
    most = 1.0 if values["optimiser"] == "adamw" else 5e-4
    return Training.model_validate(values | {"weight_decay": min(most, values["weight_decay"])})


def _change_training(old: Training, drawn: Training, rng: random.Random) -> tuple[Training, str]:
    name = rng.choice(("lr", "lr", "augmentation", *TRAINING))
    value = getattr(drawn, name)
    if name == "lr":
        value = min(10.0, float(f"{old.lr * rng.choice((0.3, 0.6, 1.6, 3)):.2g}"))
    return _suit(old.model_dump() | {name: value}), f"{name} becomes {value}"


def _change_config(config: ModelConfig, rng: random.Random) -> tuple[ModelConfig, str]:
    part = rng.choice((*config.parts, *(["latent_dim"] if config.latent_dim else [])))
    factor, kind = rng.choice((0.5, 0.75, 1.5, 2)), rng.choice(CHANGES)
    if part == "latent_dim":
        latents = max(2, min(256, round(config.latent_dim * factor)))
        return config.model_copy(update={part: latents}), f"latent_dim becomes {latents}"
    layers = _copy(config.parts[part])
    if kind == "insert":
        done = _insert(layers, rng)
    elif kind == "remove":
        start = rng.randrange(len(layers))
        end = start + 1
        while end < len(layers) and layers[end]["type"] in (*NORMS, *ACTIVATIONS, "Dropout"):
            end += 1
        done = f"without {' '.join(each['type'] for each in layers[start:end])}"
        del layers[start:end]
    elif kind == "widths":
        _scale(layers, factor)
        done = f"widths x {factor:g}"
    elif kind == "kernel":
        side = rng.choice((1, 3, 5, 7))
        if convolutions := [each for each in _walk(layers) if each["type"] == "Conv2d"]:
            rng.choice(convolutions).update(kernel_size=side, padding=side // 2)
        done = f"kernel becomes {side}"
    else:
        types = ACTIVATIONS if kind == "activation" else NORMS
        new = rng.choice(types)
        for each in _walk(layers):
            if each["type"] in types:
                each.clear()
                each["type"] = new
        done = f"{kind} becomes {new}"
    return config.model_copy(update={part: tuple(layers)}), f"{part}: {done}"


def _insert(layers: list[Layer], rng: random.Random) -> str:
    used = [each["type"] for each in layers if each["type"] in ACTIVATIONS]
    act: Layer = {"type": rng.choice(used or ACTIVATIONS)}
    widths = [each["out_channels"] for each in _walk(layers) if "out_channels" in each] or [16]
    name = rng.choice((*KINDS, *KINDS, "pooling", "dropout", "hidden layer"))
    new: dict[str, list[Layer]] = {
        "pooling": [{"type": rng.choice(POOLS), "kernel_size": 2}],
        "dropout": [{"type": "Dropout", "p": rng.choice((0.1, 0.2, 0.3, 0.5))}],
        "hidden layer": [{"type": "Linear", "out_features": rng.choice(HIDDEN)}, act],
    }
    ends = (*ACTIVATIONS, *POOLS, "Flatten")  # a block begins after one of these
    starts = [index for index, each in enumerate(layers, 1) if each["type"] in ends]
    start, norm = rng.choice(starts or [0]), rng.choice(NORMS)
    layers[start:start] = new.get(name) or _block(name, rng.choice(widths), 3, norm, act)
    return f"{name} inserted at {start}"


def _copy(layers: Sequence[Layer]) -> list[Layer]:
    """A deep copy in which no layer stands twice."""
    return list(json.loads(json.dumps(layers)))


def _walk(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Every layer, those of a Repeat once."""
    for layer in layers:
        yield layer
        for inner in (layer.get("layers", ()), *layer.get("branches", ())):
            yield from _walk(inner)


def _scale(layers: Sequence[Layer], factor: float) -> None:
    for layer in _walk(layers):
        for name in {*WIDTHS} & {*layer}:
            layer[name] = max(4, 4 * round(layer[name] * factor / 4))


def _set_groups(layers: Sequence[Layer], channels: int) -> int:
    """Give depthwise convolutions as many groups and outputs as inputs; returns the channels."""
    for layer in layers:
        if layer.get("groups", 1) > 1 and layer["groups"] == layer.get("out_channels"):
            layer |= {"groups": channels, "out_channels": channels}
        if "branches" in layer:
            ends = [_set_groups(branch, channels) for branch in layer["branches"]]
            channels = sum(ends) if layer.get("merge") == "concat" else ends[0]
        else:
            channels = _set_groups(layer.get("layers", ()), layer.get("out_channels", channels))
    return channels
