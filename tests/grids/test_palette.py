import numpy as np

from genlab.grids.palette import ARC_PALETTE, to_rgb


def test_grids_are_painted_in_the_palette():
    painted = to_rgb(np.array([[[0, 2], [9, 0]]], dtype=np.uint8))
    assert painted.shape == (1, 2, 2, 3)
    assert painted.dtype == np.uint8
    assert tuple(painted[0, 0, 1]) == ARC_PALETTE[2]
    assert tuple(painted[0, 1, 0]) == ARC_PALETTE[9]
