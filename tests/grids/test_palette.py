import numpy as np

from genlab.grids.palette import ARC_PALETTE, COLOUR_NAMES, COLOURS, to_rgb


def test_ten_different_colours_have_ten_different_names():
    assert COLOURS == 10
    assert len(set(ARC_PALETTE)) == len(set(COLOUR_NAMES)) == len(COLOUR_NAMES) == COLOURS


def test_grids_are_painted_in_the_palette():
    painted = to_rgb(np.array([[[0, 2], [9, 0]]], dtype=np.uint8))
    assert painted.shape == (1, 2, 2, 3)
    assert painted.dtype == np.uint8
    assert tuple(painted[0, 0, 1]) == ARC_PALETTE[2]
    assert tuple(painted[0, 1, 0]) == ARC_PALETTE[9]
