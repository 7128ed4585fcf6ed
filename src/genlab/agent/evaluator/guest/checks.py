"""Checks of a module before its training; each fault is a BrokenModelError."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from .model import BrokenModelError, Model, load, set_seed

STEPS = 3  # of training before a module's state is checked, and calls that show whether it grows
MAX_STEPS = 12  # until an output depends on its input: layers may be initialised with zeros
ROUNDING = 1e-6  # relative difference of answers that differ by rounding alone


def check(model: Model, x: Tensor) -> None:
    """Check that a model answers, learns, keeps its size, can be saved and uses its input.

    x: some training items on [0, 1].
    """
    for size in (2, 3):
        model.module.eval()
        with torch.no_grad():
            answers = model.answer(model.random_batch(size))
        if not all(bool(answer.isfinite().all()) for answer in answers):
            raise BrokenModelError(f"the output for {size} items is not finite (nan or inf)")
    check_gradients(model, x)
    optimiser = torch.optim.SGD(model.module.parameters(), 1e-3)
    model.module.train()
    check_growth(model, lambda: train_step(model, optimiser, x), "training step")
    check_state(model, x)
    check_growth(model, lambda: answer_alike(model, x), "call")
    check_use_of_input(model, x)


def find_loss(model: Model, x: Tensor) -> Tensor:
    """Compute the training loss of items, each of another class."""
    classes = model.job["classes"]
    target = F.one_hot(torch.arange(len(x), device=x.device) % classes, classes)
    return model.loss(x, target.float(), 1.0)


def train_step(model: Model, optimiser: torch.optim.Optimizer, x: Tensor) -> None:
    """Take one step of training."""
    optimiser.zero_grad()
    find_loss(model, x).backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def check_gradients(model: Model, x: Tensor) -> None:
    """Check that gradients of registered parameters are finite, and not all zero."""
    trained = model.trainable()
    model.module.train()
    loss = find_loss(model, x)
    if loss.grad_fn is None:
        raise BrokenModelError("the output has no gradient (detached, or under no_grad)")
    registered = {id(parameter) for parameter in trained.values()}
    unregistered = [leaf for leaf in find_leaves(loss) if id(leaf) not in registered]
    if unregistered:
        shape = tuple(unregistered[0].shape)
        fault = f"a parameter of shape {shape} is not registered in the model"
        raise BrokenModelError(f"{fault}; keep layers in nn.ModuleList, not in a list")
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad for name, p in trained.items() if p.grad is not None}
    for name, gradient in gradients.items():
        if not bool(gradient.isfinite().all()):
            raise BrokenModelError(f"the gradient of {name} is not finite (nan or inf)")
    if not any(bool(gradient.any()) for gradient in gradients.values()):
        raise BrokenModelError("every gradient is zero: the output does not depend on a parameter")


def find_leaves(loss: Tensor) -> list[Tensor]:
    """Find the tensors in which gradients of `loss` are accumulated."""
    waiting = [loss.grad_fn]
    visited = set[Any]()
    while waiting:
        node: Any = waiting.pop()
        if node is not None and node not in visited:
            visited.add(node)
            waiting += [following for following, _ in node.next_functions]
    return [node.variable for node in visited if hasattr(node, "variable")]


def check_growth(model: Model, call: Callable[[], object], what: str) -> None:
    """Check that no attribute holds more numbers after each `call`, which would fill the memory.

    A cache that is filled once, at its first use, passes.
    """
    sizes = list[dict[str, int]]()
    for _ in range(STEPS):
        call()
        sizes.append(count_numbers(model.module))
    for name in sizes[-1]:
        counts = [size.get(name, 0) for size in sizes]
        if all(low < high for low, high in pairwise(counts)):
            grows = f"{counts[0]:,}, {counts[1]:,}, {counts[2]:,} numbers"
            raise BrokenModelError(f"{name} grows with every {what} ({grows})")


def count_numbers(module: nn.Module) -> dict[str, int]:
    """Count the numbers in the tensors of each attribute, with buffers and tensors in lists."""
    counts = dict[str, int]()
    for path, submodule in module.named_modules():
        for name, value in {**submodule._buffers, **vars(submodule)}.items():
            tensors = [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
            counts[f"{path}.{name}".strip(".")] = sum(tensor.numel() for tensor in tensors)
    return counts


@torch.no_grad()
def check_state(model: Model, x: Tensor) -> None:
    """Check that a new instance with the saved weights gives the same answers."""
    model.module.eval()
    state = {name: value.clone() for name, value in model.tensors().items()}
    expected = answer_alike(model, x)
    load.cache_clear()  # module-level variables of its file are not saved with the weights either
    try:
        instance = Model(model.job | {"seed": model.job["seed"] + 1}, state=state)
        restored = answer_alike(instance, x)
    except RuntimeError as error:  # load_state_dict has a headline above what it names
        fault = str(error).splitlines()[-1].strip()
        raise BrokenModelError(f"its state does not fit a new instance: {fault}") from error
    if not torch.allclose(expected, restored, rtol=1e-5, atol=1e-6, equal_nan=True):
        raise BrokenModelError(
            "a new instance with its saved weights answers otherwise: something that is neither"
            " a parameter nor a buffer changes the answers; keep it with register_buffer"
        )


@torch.no_grad()
def answer_alike(model: Model, x: Tensor) -> Tensor:
    """Return the last answer; every call of this function draws the same random numbers."""
    model.module.eval()
    set_seed(0, x.device.type)
    return model.forward(x)


def check_use_of_input(model: Model, x: Tensor) -> None:
    """Check that answers differ between items, if need be after some steps of training."""
    optimiser = torch.optim.Adam(model.module.parameters(), 1e-2)
    for _ in range(MAX_STEPS):
        fault = find_constant(model, x.clone())
        if not fault:
            return
        model.module.train()
        train_step(model, optimiser, x)
    raise BrokenModelError(f"{fault}, also after {MAX_STEPS} steps of training")


@torch.no_grad()
def find_constant(model: Model, x: Tensor) -> str:
    """Name the function that answers all items alike; empty where none does."""
    model.module.eval()
    if model.job["task"] == "classify":
        return "the output does not depend on the input" if is_constant(model.logits, x) else ""
    if is_constant(lambda x: torch.cat(model.encode(x), 1), x):
        return "encode gives the same for every image"
    z = torch.randn_like(model.encode(x)[0])
    return "decode gives the same for every z" if is_constant(model.decode, z) else ""


def is_constant(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether a function gives all items the same output, with the same random numbers.

    Rounding can hide a difference, as in a deep network whose norms have no statistics yet; the
    gradient of a difference between items shows it.
    """
    set_seed(0, x.device.type)
    first = function(x)
    set_seed(0, x.device.type)
    if bool((first - function(x.roll(1, 0))).abs().max() > ROUNDING * first.abs().max()):
        return False
    signs = torch.ones(len(x), 1, device=x.device)
    signs[1::2] = -1
    with torch.enable_grad():
        answers = function(x.requires_grad_()).flatten(1)
        difference = (signs * torch.randn_like(answers[:1]) * answers).sum()
    if not difference.requires_grad:
        return True
    (gradient,) = torch.autograd.grad(difference, x, allow_unused=True)
    return gradient is None or not bool(gradient.any())
