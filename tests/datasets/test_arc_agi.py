"""The real grids of the ARC-AGI tasks."""

import numpy as np

from genlab.datasets.arc_agi import load_arc_agi_grids
from genlab.grids.parser import is_valid


def test_the_real_grids_are_different_and_fitted():
    tuning, _, _ = load_arc_agi_grids(16, "training")
    grids, tasks, cropped = load_arc_agi_grids(16, "evaluation")
    assert len(tasks) == len(cropped) == len(grids)
    assert 0 < cropped.sum() < len(cropped)
    assert len(set(tasks.tolist())) == tasks.max() + 1 == 120
    assert (grids.dtype, grids.shape[1:]) == (np.uint8, (16, 16))
    both = np.concatenate([tuning, grids])
    assert len(both) == len({grid.tobytes() for grid in both}) > 5000
    assert min(len(tuning), len(grids)) > 1000
    assert grids.max() == 9
    assert is_valid(grids).mean() < 0.1  # unlike the generated ones
    small = np.concatenate([load_arc_agi_grids(4, name)[0] for name in ("training", "evaluation")])
    assert {grid[:4, :4].tobytes() for grid in both} == {grid.tobytes() for grid in small}
