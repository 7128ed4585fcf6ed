"""The frozen constants of both scores.

They were set on calibration persons only (`benchmarks/swap_persons.py`) and tested on held-out
persons. A change of them or of a term needs a new `VERSION`: scores of two versions are not
comparable. Of the ramps of version 3, `copied_around` was set on calibration cases alone; while
the others were set, values of the held-out party-turned-heads, window-four-avatars and
ponytail-laughing-choker were seen too, so that what is reported of them is no independent test.
"""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

VERSION = "3"

Ramp = tuple[float, float]


def frozen(**values: float) -> Mapping[str, float]:
    """A read-only table."""
    return MappingProxyType(values)


# Exponents of the weighted geometric means; `faces` is a factor without a weight.
WEIGHTS = frozen(
    identity=0.25, head=0.20, realism=0.20, expression=0.05, background=0.10, copied=0.20
)
REFERENCE_WEIGHTS = frozen(
    identity=0.25, head=0.35, expression=0.10, detail=0.15, seam=0.05, background=0.10
)
REALISM_WEIGHTS = frozen(seam=0.4, sharpness=0.4, undistorted=0.2)
HAIR = 0.2  # exponent of the avatar's hair in `head`; the rest is the template's hair that is gone

# Ramps (a, b): 0 at a, 1 at b, linear between.
RAMPS: Mapping[str, Ramp] = MappingProxyType(
    {
        # Embedding distance to the avatar: a stranger, the same person in another photograph.
        "identity_distance": (0.66, 0.40),
        # Share of the embedding distance from template to avatar that is covered.
        "identity_gain": (0.12, 0.42),
        "trace_gain": (0.02, 0.12),  # the same for faces that are hardly changed
        "gone": (0.10, 0.50),  # distance from the template's hair and outline
        "hair": (0.05, 0.35),  # intersection of hair colours with the avatar
        "covered": (0.0, 0.60),  # share of the distance from template to ideal
        "copied": (0.02, 0.05),  # distance of the face's edges from the avatar's
        "copied_around": (0.50, 0.30),  # likeness of what was changed around the face
        "seam": (0.30, 0.10),  # share of the border with new edges
        "sharpness": (0.25, 0.70),  # detail against the softer photograph
        "detail": (0.35, 0.80),  # detail against the ideal
        "shape": (0.30, 0.52),  # share of the bending that is towards the template
        "strain": (0.42, 0.20),  # median strain of the avatar's pixels
        "background": (25.0, 4.0),  # difference of a background pixel, 8-bit CIELAB units
    }
)
# Minimum values of parts: one fault alone must not hide the others.
FLOORS = frozen(
    trace=0.002, head=0.05, covered=0.02, hair=0.5, copied=0.02, seam=0.1, sharpness=0.02,
    undistorted=0.1, detail=0.02,
)  # fmt: skip
MOST_DETAIL = 2.5  # detail over that of the sharper photograph from which it counts as noise
SAME_PIXELS = 0.70  # correlation from which a face is made of the avatar's pixels

# Differences of pose and expression at which a value has fallen to 0.61 (one sigma).
POSE = frozen(
    place=0.35,  # of the centre, in eye distances
    scale=0.20,  # of the eye distance, natural logarithm
    roll=12.0,  # degrees
    turn=0.35,  # of the nose's place between the ends of the jaw
    mouth=0.30,  # of its opening, in its widths
    lids=0.20,  # of the eyes' opening, in their widths
)

CONSTANTS: Mapping[str, object] = MappingProxyType(
    {
        "weights": dict(WEIGHTS),
        "reference_weights": dict(REFERENCE_WEIGHTS),
        "realism_weights": dict(REALISM_WEIGHTS),
        "ramps": dict(RAMPS),
        "floors": dict(FLOORS),
        "pose": dict(POSE),
        "others": (HAIR, MOST_DETAIL, SAME_PIXELS),
    }
)
DIGEST = hashlib.sha256(repr(CONSTANTS).encode()).hexdigest()[:16]


def ramp(name: str, value: float, factor: float = 1.0) -> float:
    """`factor` at the end of the ramp and beyond, 0 or its floor at its start, linear between."""
    start, end = RAMPS[name]
    share = (value - start) / (end - start)
    return max(min(1.0, max(0.0, share)) * factor, FLOORS.get(name, 0.0))
