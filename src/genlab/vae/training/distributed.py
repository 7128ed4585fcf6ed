"""Training by several processes, which torchrun starts and restarts.

Each process takes its rows of every batch; gradients and losses are summed over all processes
(all-reduce), so that the weights stay the same everywhere. All draw the same random numbers for the
whole batch: the result differs from that of one process with as many micro-batches by the order of
sums alone. The first process writes the files. Without torchrun there is one process, and every
function here does what it says for one.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from genlab.core import engine
from genlab.core.errors import GenlabError

Value = TypeVar("Value")


@contextmanager
def process_group(device: str) -> Iterator[None]:
    """Join the processes that torchrun has started for the block; gloo for CPUs, NCCL for GPUs.

    device: the param of this name.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    gpu = engine.select_device(device).type == "cuda"
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if gpu else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def world_size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this process is the one that writes files."""
    return not dist.is_initialized() or dist.get_rank() == 0


def local_rows(rows: int) -> slice:
    """Return the rows of a batch that this process takes."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    return slice(rows * rank // world_size(), rows * (rank + 1) // world_size())


def require_divisible(batch_size: int) -> None:
    """Raise a GenlabError unless every process gets the same number of rows."""
    if batch_size % world_size():
        raise GenlabError(
            f"batch_size must be a multiple of the {world_size()} processes, got {batch_size};"
            " start another number: torchrun --nproc-per-node",
            key="batch_size",
        )


def all_reduce(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Sum each tensor over all processes, in one message."""
    if world_size() == 1:
        return list(tensors)
    joined = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(joined)
    sums = torch.split(joined, [tensor.numel() for tensor in tensors])
    pairs = zip(sums, tensors, strict=True)
    return [flat.view_as(tensor).to(tensor.dtype) for flat, tensor in pairs]


def broadcast(value: Value) -> Value:
    """Return the first process's value, so that no decision differs by a rounding error."""
    values = [value]
    if world_size() > 1:
        dist.broadcast_object_list(values)
    return values[0]
