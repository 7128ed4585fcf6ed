"""An upper bound on the entropy of a generated grid, in nats.

Derivation, from the procedure of `generator`. Let a grid consist of the objects 1..n. Since the
grid parses in one way (`parser`), it is drawn exactly when these n objects are, in some order.

- Object j is drawn, among all objects, with probability w_j = p(kind) p(shape | kind) / 9 (9
  colours).
- Let F_j(S) be the number of positions of j's shape that keep their distance from the objects S,
  P_j the number of all its positions, and a = F_j(S) / P_j. Given S, one of the T draws is free
  with probability 1 - (1 - a)^T, and the first free one is j's position with probability
  1 / F_j(S): the T positions are uniform, so each free one is equally likely to be hit first.
- So the probability that the objects of S have been drawn, in any order, obeys

      f({}) = 1,   f(S) = sum over j in S of f(S - j) w_j (1 - (1 - a)^T) / F_j(S - j),

  a sum over all |S|! orders that takes 2^n steps. An attempt ends in this grid with probability
  p(n) f({1..n}).
- A failed attempt is repeated with the same n, so the grid's probability is p(n) f / Z_n, where
  Z_n <= 1 is the probability that an attempt at n objects succeeds. Z_n is not computed:
  p(n) f <= p, hence -log(p(n) f) >= -log p, and the mean stays an upper bound. (In the default
  distribution Z_n falls from 1 to 0.77 at n = 6: the bound is 0.06 nats too high.)

By Gibbs' inequality the mean of -log p over grids from any distribution q is at least the entropy
of q. So the bound also holds for the dataset, in which no grid occurs twice: dropping repeats
shifts the data slightly and can only loosen the bound. Of 100,000 default draws 1 % are repeats.

With `spacing` 0 objects touch and a grid may parse in more than one way. Then the probability of
one parse is only a part of the grid's, which again leaves an upper bound.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from genlab.grids.distribution import GridDistribution, Ints, Placements, Words, collide
from genlab.grids.generator import POSITION_DRAWS, AtomicImageGenerator
from genlab.grids.palette import COLOURS
from genlab.grids.shapes import Objects

Floats = npt.NDArray[np.float64]

_MAX_COMPARISONS = 1 << 14  # pairs of a grid and a position that are compared at a time


def grid_nats(objects: Objects, distribution: GridDistribution, count: int) -> Floats:
    """Upper bound on the negative log probability of each grid, in nats: (count,).

    The mean over grids is an upper bound on the entropy. `objects` is the table of `count` grids
    that were drawn from the distribution. A grid of n objects takes 2^n steps.
    """
    object_counts = np.bincount(objects["grid"], minlength=count)
    weight = AtomicImageGenerator(distribution).shape_probabilities / (COLOURS - 1)
    nats = np.full(count, np.log(distribution.max_objects - distribution.min_objects + 1))
    start = np.cumsum(object_counts) - object_counts
    for n in np.unique(object_counts):
        grids = np.flatnonzero(object_counts == n)
        rows = start[grids, None] + np.arange(n)
        nats[grids] -= _log_probability(objects[rows], weight, distribution.placements())
    return nats


def _log_probability(objects: Objects, weight: Floats, placements: Placements) -> Floats:
    """log f of grids with n objects each: OBJECT_DTYPE (grids, n) -> (grids,)."""
    shape = objects["shape"].astype(np.int32)
    placed = placements.index(objects)
    grids, n = shape.shape
    subsets = np.arange(1 << n)
    members = (subsets[:, None] >> np.arange(n)) & 1 == 1
    taken = np.zeros((1 << n, grids, placements.halo.shape[1]), dtype=np.uint64)
    for j in range(n):
        taken[members[:, j]] |= placements.halo[placed[:, j]]
    f = np.zeros((1 << n, grids))
    f[0] = 1.0
    step = np.zeros((n, 1 << n, grids))
    for j in range(n):
        before = subsets[~members[:, j]]
        shapes = np.tile(shape[:, j], len(before))
        free = _count_free_positions(placements, shapes, taken[before].reshape(len(shapes), -1))
        p_any_free = 1 - (1 - free / placements.count[shapes]) ** POSITION_DRAWS
        p_position = np.divide(p_any_free, free, out=np.zeros(len(free)), where=free > 0)
        step[j, before] = p_position.reshape(len(before), grids)
    for subset in range(1, 1 << n):
        for last in np.flatnonzero(members[subset]):
            rest = subset & ~(1 << int(last))
            f[subset] += f[rest] * step[last, rest]
    return np.asarray(np.log(weight[shape]).sum(axis=1) + np.log(f[-1]))


def _count_free_positions(
    placements: Placements, shape: Ints, taken: Words
) -> npt.NDArray[np.int64]:
    """F: number of positions of `shape`, (m,), that `taken`, (m, words), leaves free: (m,)."""
    free = np.empty(len(shape), dtype=np.int64)
    order = np.argsort(shape, kind="stable")
    bounds = np.flatnonzero(np.diff(shape[order], prepend=-1, append=-1))
    for low, high in pairwise(bounds):
        first = placements.first[shape[order[low]]]
        count = placements.count[shape[order[low]]]
        cells = placements.cells[first : first + count]
        chunk_size = max(1, _MAX_COMPARISONS // count)
        for start in range(low, high, chunk_size):
            rows = order[start : min(start + chunk_size, high)]
            free[rows] = count - collide(taken[rows, None], cells).sum(axis=1)
    return free
