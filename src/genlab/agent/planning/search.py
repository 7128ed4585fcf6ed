"""The policy of the tree of attempts (AIDE, Jiang et al. 2025), and random search over networks."""

import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from genlab.agent.architecture.schema import Layer, ModelConfig, has_custom
from genlab.agent.architecture.template import count_parameters
from genlab.agent.architecture.training import Training
from genlab.agent.config import Problem, Settings
from genlab.agent.registry import Attempt, Design
from genlab.core.errors import GenlabError

DEBUG_SHARE = 0.5  # probability that a failed leaf is debugged where there is one
DEBUG_DEPTH = 3
TRAINING_SHARE = 0.35  # probability that a change is one of the recipe
TRIES = 100  # proposals that are drawn until one can be assembled
WIDTHS = ("out_channels", "out_features", "hidden_size")
FIRST_WIDTHS = (8, 12, 16, 24, 32)
HIDDEN = (32, 64, 96, 128, 192, 256)
ACTIVATIONS = ("ReLU", "GELU", "SiLU", "LeakyReLU", "Mish", "Hardswish")
NORMS = ("BatchNorm2d", "BatchNorm2d", "GroupNorm", "Identity")
CHANGES = ("insert", "insert", "remove", "widths", "widths", "kernel", "activation", "norm")
KINDS = ("plain", "residual", "depthwise")
POOLS = ("MaxPool2d", "MaxPool2d", "AvgPool2d")
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
    """Choose the kind of attempt `number` (from 0) and its parent; also return its generator.

    The kind is draft until there are `drafts`. Then with some probability a failed leaf is
    debugged, at most DEBUG_DEPTH times in a row; else the attempt with the best mean is improved.
    """
    rng = random.Random(f"{settings.seed}:{number}")
    goal = settings.goal
    nodes = [attempt for attempt in attempts if attempt.kind]  # others were called by hand
    if sum(not node.parent for node in nodes) < settings.params.drafts:
        return "draft", None, rng
    by_id = {node.run_id: node for node in nodes}
    parents = {node.parent for node in nodes}

    def count_failures(node: Attempt | None) -> int:
        """Number of failed attempts in a row that end with this one."""
        return 1 + count_failures(by_id.get(node.parent)) if node and node.failure else 0

    leaves = [node for node in nodes if node.run_id not in parents]
    broken = [node for node in leaves if 0 < count_failures(node) <= DEBUG_DEPTH]
    measured = [node for node in nodes if node.values(goal.metric)]
    if broken and (not measured or rng.random() < DEBUG_SHARE):
        return "debug", rng.choice(broken), rng
    best = max(measured, key=lambda node: goal.score(node.mean(goal.metric)), default=None)
    return "improve" if best else "draft", best, rng


def draw_proposal(
    problem: Problem, parent: Design | None, rng: random.Random, tried: Sequence[Design] = ()
) -> tuple[Design, str]:
    """Draw a random draft, or one random change of the parent; return it and the change in words.

    The design is none of those tried, and the template assembles it within the limit on parameters.
    After TRIES changes of the parent that fail this, a draft is drawn. Raises a GenlabError where
    no draft is small enough.
    """
    can_change = parent and parent[0].parts and not has_custom(parent[0])
    for tries in range(2 * TRIES):
        training = parent[1] if parent else Training()
        if parent is None or not can_change or tries >= TRIES:
            config = _draft(problem, rng)
            training = _draw_training(problem, rng)
            change = "a random draft"
        elif rng.random() < TRAINING_SHARE:
            config = parent[0]
            drawn = _draw_training(problem, rng)
            training, change = _change_training(training, drawn, rng)
        else:
            config, change = _change_config(parent[0], rng)
        fitting = _fit(config, problem)
        if fitting and (fitting, training) not in (parent, *tried):
            return (fitting, training), change
    limit = problem.settings.budget.max_parameters
    raise GenlabError(f"max_parameters: no further network was found with at most {limit:,}")


def _fit(config: ModelConfig, problem: Problem) -> ModelConfig | None:
    """Reduce widths to what the limit allows; return None where the config cannot be assembled."""
    shape = problem.shape
    limit = problem.settings.budget.max_parameters
    if len(config.parts) < (1 if problem.task == "classify" else 2):  # a change removed all layers
        return None
    for _ in range(20):
        parts = {name: _copy(layers) for name, layers in config.parts.items()}
        for name, layers in parts.items():
            _set_groups(layers, shape[0] if name != "decoder" else config.latent_dim)
        config = config.model_copy(update={name: tuple(layers) for name, layers in parts.items()})
        try:
            count = count_parameters(config, shape, problem.outputs, problem.task)
        except GenlabError:
            return None
        if count <= limit:
            return config
        for layers in parts.values():
            _scale(layers, max(0.5, 0.95 * (limit / count) ** 0.5))
    return None


def _draft(problem: Problem, rng: random.Random) -> ModelConfig:
    """Draw convolutions whose width grows with each pooling, then perhaps hidden layers."""
    classify = problem.task == "classify"
    side = min(problem.shape[1:])
    act = {"type": rng.choice(ACTIVATIONS)}
    norm = rng.choice(NORMS)
    kind = rng.choice(KINDS)
    width = rng.choice(FIRST_WIDTHS)
    kernel = rng.choice((3, 3, 3, 5))
    dropout = rng.choice((0.0, 0.0, 0.1, 0.3, 0.5))
    stages = rng.choice((0, 1, 2, 2, 2, 3, 3) if classify else (1, 2, 2))
    layers = _block("plain", width, kernel, norm, act) if stages else []
    for _ in range(stages):
        if side >= 4:
            layers.append({"type": rng.choice(POOLS), "kernel_size": 2})
            side //= 2
            width = min(rng.choice((1, 2, 2)) * width, 256)
        for _ in range(rng.randint(1, 2)):
            layers += _block(kind, width, kernel, norm, act)
    if classify:
        layers += _draw_head(rng, act, side, dropout, has_convolutions=stages > 0)
        return ModelConfig(name="SearchNet", layers=tuple(layers))
    sides = [math.ceil(length / 2 ** min(stages, 2)) for length in problem.shape[1:]]
    decoder = [{"type": "ConvTranspose2d", "out_channels": width, "kernel_size": sides}, act]
    for _ in range(min(stages, 2)):
        width = max(8, width // rng.choice((1, 2)))
        decoder += [{"type": "Upsample", "scale_factor": 2}, *_block(kind, width, 3, norm, act)]
    parts = {"encoder": tuple(layers), "decoder": tuple(decoder)}
    return ModelConfig(name="SearchVAE", latent_dim=rng.choice((4, 8, 16, 32, 64)), **parts)


def _draw_head(
    rng: random.Random, act: Layer, side: int, dropout: float, *, has_convolutions: bool
) -> list[Layer]:
    """Draw what follows the convolutions of a classifier: pooling, dropout, hidden layers."""
    layers: list[Layer] = []
    if has_convolutions:
        output_size = rng.choice((0, 1, 1, 2, 3))
        if output_size:
            layers.append({"type": "AdaptiveAvgPool2d", "output_size": min(output_size, side)})
    drop: list[Layer] = [{"type": "Dropout", "p": dropout}] if dropout else []
    layers += [{"type": "Flatten"}, *(drop if has_convolutions else [])]
    for _ in range(rng.randint(0 if has_convolutions else 1, 2)):
        layers += [{"type": "Linear", "out_features": rng.choice(HIDDEN)}, act, *drop]
    return layers


def _block(kind: str, width: int, kernel: int, norm: str, act: Layer) -> list[Layer]:
    conv = {"type": "Conv2d", "out_channels": width, "kernel_size": kernel, "padding": kernel // 2}
    normalise: Layer = {"type": norm}
    if kind == "residual":
        return [{"type": "Residual", "layers": [conv, normalise, act, conv, normalise]}, act]
    if kind == "depthwise":  # _set_groups makes as many groups as there are channels
        point = {"type": "Conv2d", "out_channels": width, "kernel_size": 1}
        return [conv | {"groups": width}, normalise, act, point, normalise, act]
    return [conv, normalise, act]


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
    """Make a recipe whose weight decay suits its optimiser: that of adamw alone is decoupled."""
    limit = 1.0 if values["optimiser"] == "adamw" else 5e-4
    return Training.model_validate(values | {"weight_decay": min(limit, values["weight_decay"])})


def _change_training(old: Training, drawn: Training, rng: random.Random) -> tuple[Training, str]:
    name = rng.choice(("lr", "lr", "augmentation", *TRAINING))
    value = getattr(drawn, name)
    if name == "lr":
        value = min(10.0, float(f"{old.lr * rng.choice((0.3, 0.6, 1.6, 3)):.2g}"))
    return _suit(old.model_dump() | {name: value}), f"{name} becomes {value}"


def _change_config(config: ModelConfig, rng: random.Random) -> tuple[ModelConfig, str]:
    field = rng.choice((*config.parts, *(["latent_dim"] if config.latent_dim else [])))
    factor = rng.choice((0.5, 0.75, 1.5, 2))
    kind = rng.choice(CHANGES)
    if field == "latent_dim":
        latents = max(2, min(256, round(config.latent_dim * factor)))
        return config.model_copy(update={field: latents}), f"latent_dim becomes {latents}"
    layers = _copy(config.parts[field])
    if kind == "insert":
        change = _insert(layers, rng)
    elif kind == "remove":
        change = _remove(layers, rng)
    elif kind == "widths":
        _scale(layers, factor)
        change = f"widths x {factor:g}"
    elif kind == "kernel":
        side = rng.choice((1, 3, 5, 7))
        convolutions = [layer for layer in _walk(layers) if layer["type"] == "Conv2d"]
        if convolutions:
            rng.choice(convolutions).update(kernel_size=side, padding=side // 2)
        change = f"kernel becomes {side}"
    else:
        types = ACTIVATIONS if kind == "activation" else NORMS
        new_type = rng.choice(types)
        for layer in _walk(layers):
            if layer["type"] in types:
                layer.clear()
                layer["type"] = new_type
        change = f"{kind} becomes {new_type}"
    return config.model_copy(update={field: tuple(layers)}), f"{field}: {change}"


def _remove(layers: list[Layer], rng: random.Random) -> str:
    """Remove a random layer, and the norms, activations and dropout that follow it."""
    start = rng.randrange(len(layers))
    end = start + 1
    while end < len(layers) and layers[end]["type"] in (*NORMS, *ACTIVATIONS, "Dropout"):
        end += 1
    change = f"without {' '.join(layer['type'] for layer in layers[start:end])}"
    del layers[start:end]
    return change


def _insert(layers: list[Layer], rng: random.Random) -> str:
    """Insert a random block, pooling, dropout or hidden layer, where a block begins."""
    used = [layer["type"] for layer in layers if layer["type"] in ACTIVATIONS]
    act: Layer = {"type": rng.choice(used or ACTIVATIONS)}
    widths = [layer["out_channels"] for layer in _walk(layers) if "out_channels" in layer] or [16]
    name = rng.choice((*KINDS, *KINDS, "pooling", "dropout", "hidden layer"))
    simple: dict[str, list[Layer]] = {
        "pooling": [{"type": rng.choice(POOLS), "kernel_size": 2}],
        "dropout": [{"type": "Dropout", "p": rng.choice((0.1, 0.2, 0.3, 0.5))}],
        "hidden layer": [{"type": "Linear", "out_features": rng.choice(HIDDEN)}, act],
    }
    ends = (*ACTIVATIONS, *POOLS, "Flatten")  # a block begins after one of these
    starts = [index for index, layer in enumerate(layers, 1) if layer["type"] in ends]
    start = rng.choice(starts or [0])
    norm = rng.choice(NORMS)
    layers[start:start] = simple.get(name) or _block(name, rng.choice(widths), 3, norm, act)
    return f"{name} inserted at {start}"


def _copy(layers: Sequence[Layer]) -> list[Layer]:
    """Copy layers deeply, so that no object occurs twice in them."""
    return list(json.loads(json.dumps(layers)))


def _walk(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Yield every layer, those of a Repeat once."""
    for layer in layers:
        yield layer
        for inner in (layer.get("layers", ()), *layer.get("branches", ())):
            yield from _walk(inner)


def _scale(layers: Sequence[Layer], factor: float) -> None:
    for layer in _walk(layers):
        for name in {*WIDTHS} & {*layer}:
            layer[name] = max(4, 4 * round(layer[name] * factor / 4))


def _set_groups(layers: Sequence[Layer], channels: int) -> int:
    """Give depthwise convolutions as many groups and outputs as inputs; return the channels."""
    for layer in layers:
        if layer.get("groups", 1) > 1 and layer["groups"] == layer.get("out_channels"):
            layer |= {"groups": channels, "out_channels": channels}
        if "branches" in layer:
            ends = [_set_groups(branch, channels) for branch in layer["branches"]]
            channels = sum(ends) if layer.get("merge") == "concat" else ends[0]
        else:
            channels = _set_groups(layer.get("layers", ()), layer.get("out_channels", channels))
    return channels
