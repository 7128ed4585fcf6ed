"""The frozen constants of the score.

They were set on the persons of `benchmarks/swap_scores.py` called CALIBRATION and on no others, and
are then proved on its persons called HELD_OUT. Whoever changes one gives `VERSION` a new number:
scores of two versions don't compare.
"""

from __future__ import annotations

from types import MappingProxyType

VERSION = "1"

# A ramp (a, b): 0 at a, 1 at b, straight between.
CONSTANTS = MappingProxyType(
    {
        # Weights of the geometric mean; `faces` is a factor of its own.
        "weights": {"identity": 0.40, "background": 0.20, "realism": 0.25, "landmarks": 0.15},
        # Embedding distance to the avatar: a stranger, the same person in another photograph.
        "identity_distance": (0.66, 0.40),
        # Way from the template's person to the avatar that is gone in the embedding.
        "identity_gain": (0.12, 0.42),
        # A trace of the avatar: the mark it gets at most, and the share of the way where it counts.
        "trace": 0.002,
        "trace_gain": (0.02, 0.12),
        # Share of the bending that is towards the template: a third and less (torn), half (soft).
        "shape": (0.30, 0.52),
        # Median strain of the avatar's pixels on their way to the result, if it is made of them.
        "strain": (0.42, 0.20),
        "same_pixels": 0.70,  # correlation after the way from which they count as such
        # Share of the way from which a face has something of the avatar.
        "likeness": (0.05, 0.20),
        # Least that is left of each part of realism: one fault alone must not hide the others.
        "least": {"seam": 0.10, "sharpness": 0.02, "tone": 0.30, "torn": 0.10},
        # New edges at the rim of the face, mean CIELAB units a pixel.
        "seam": (0.12, 0.015),
        # Fine detail of the face over that of the softer of template and avatar.
        "sharpness": (0.25, 0.85),
        "sharpness_most": 2.5,
        # Change of the step in tone from cheek to rim, CIELAB units.
        "tone": (60.0, 12.0),
        # Difference of a background pixel, CIELAB units (8 bit).
        "background": (25.0, 4.0),
        # Faults of pose and expression at which a mark has fallen to 0.61 (one sigma).
        "place": 0.35,  # of the middle, in eye distances
        "scale": 0.20,  # of the eye distance, natural logarithm
        "roll": 12.0,  # degrees
        "turn": 0.35,  # of the nose's place between the ends of the jaw
        "mouth": 0.30,  # of its opening, in its widths
        "lids": 0.20,  # of the eyes' opening, in their widths
    }
)


def ramp(value: float, ends: tuple[float, float]) -> float:
    """0 at `ends[0]` and beyond, 1 at `ends[1]` and beyond, straight between."""
    share = (value - ends[0]) / (ends[1] - ends[0])
    return min(1.0, max(0.0, share))
