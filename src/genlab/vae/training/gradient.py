"""The gradient of a batch from its parts: one after another, or on a CPU one thread each.

Where memory is short, the parts of a batch follow each other (gradient accumulation). On a CPU the
operators of a small model gain little from threads inside them (measured: 1.3 times with two),
since each is short: there every thread takes parts of its own, with single-threaded operators. The
parts' gradients are added in a fixed order, which keeps the result the same bytes each time. Where
several processes train, each splits its own rows of the batch.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from operator import add

import torch
from torch import Tensor

from genlab.vae.training import distributed

Part = Callable[[slice], tuple[Tensor, dict[str, Tensor]]]


class BatchGradient:
    """Set `.grad` of `parameters` to the sum of the gradients of a batch's parts.

    parts: that a batch is split into, of equal size; threads: that work on them.
    """

    def __init__(self, parameters: Sequence[Tensor], parts: int, threads: int = 1) -> None:
        self.parameters, self.parts = list(parameters), parts
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __call__(self, part: Part, rows: int) -> dict[str, Tensor]:
        """`part(slice)` gives the loss over those rows and named tensors; returns their sums."""
        own = distributed.own_rows(rows)
        length = own.stop - own.start
        edges = [own.start + length * i // self.parts for i in range(self.parts + 1)]
        slices = [slice(a, b) for a, b in pairwise(edges) if b > a]
        run = map if self._pool is None else self._pool.map
        results = run(lambda chosen: self._differentiate(part, chosen), slices)
        names, own_sums = reduce(_add_part, results)  # no more than two parts are in memory
        totals = distributed.add(own_sums)
        for parameter, total in zip(self.parameters, totals, strict=False):
            # A convolution's gradient may lie in memory in another order than its weights; fused
            # optimisers go through both as they lie, and would mix up the elements.
            same = total.stride() == parameter.stride()
            parameter.grad = total if same else torch.empty_like(parameter).copy_(total)
        return dict(zip(names, totals[len(self.parameters) :], strict=True))

    def _differentiate(self, part: Part, rows: slice) -> tuple[list[str], list[Tensor]]:
        """Names of the summed tensors; the gradients, followed by these tensors."""
        loss, sums = part(rows)
        gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        return list(sums), [*gradients, *sums.values()]


def _add_part(
    one: tuple[list[str], list[Tensor]], other: tuple[list[str], list[Tensor]]
) -> tuple[list[str], list[Tensor]]:
    return one[0], list(map(add, one[1], other[1]))
