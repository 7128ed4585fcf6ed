"""The frozen constants of both scores.

They were set on calibration persons only (`benchmarks/swap_persons.py`). Changing a constant or a
term needs a new `VERSION`: scores of two versions are not comparable.

Among the ramps of version 3, only `copied_around` was set on calibration cases alone. While the
others were set, results of three held-out cases (party-turned-heads, window-four-avatars and
ponytail-laughing-choker) were visible too, so the numbers reported for those are no independent
test.
"""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

VERSION = "3"

Ramp = tuple[float, float]


def frozen(**values: float) -> Mapping[str, float]:
    """Return a read-only mapping of the keyword arguments."""
    return MappingProxyType(values)


# Exponents of the weighted geometric means. `faces` multiplies the mean and has no weight.
WEIGHTS = frozen(
    identity=0.25, head=0.20, realism=0.20, expression=0.05, background=0.10, copied=0.20
)
REFERENCE_WEIGHTS = frozen(
    identity=0.25, head=0.35, expression=0.10, detail=0.15, seam=0.05, background=0.10
)
REALISM_WEIGHTS = frozen(seam=0.4, sharpness=0.4, undistorted=0.2)
HAIR_WEIGHT = 0.2  # of the avatar's hair in `head`; the rest weighs that the template's is gone

# Ramps (a, b): 0 at a, 1 at b, linear between.
RAMPS: Mapping[str, Ramp] = MappingProxyType(
    {
        # Embedding distance to the avatar: of a stranger; of the same person in another photograph.
        "identity_distance": (0.66, 0.40),
        # Fraction of the embedding distance from template to avatar that is covered.
        "identity_gain": (0.12, 0.42),
        "trace_gain": (0.02, 0.12),  # the same for faces that hardly changed
        "gone": (0.10, 0.50),  # distance from the template's hair and outline
        "hair": (0.05, 0.35),  # intersection of the hair's colour histogram with the avatar's
        "covered": (0.0, 0.60),  # fraction of the distance from template to ideal
        "copied": (0.02, 0.05),  # distance of the face's edges from the avatar's
        "copied_around": (0.50, 0.30),  # likeness of the changed surroundings to the avatar's
        "seam": (0.30, 0.10),  # fraction of the border with new edges
        "sharpness": (0.25, 0.70),  # detail relative to the softer photograph
        "detail": (0.35, 0.80),  # detail relative to the ideal
        "shape": (0.30, 0.52),  # fraction of the bending that is towards the template
        "strain": (0.42, 0.20),  # median strain of the avatar's pixels
        "background": (25.0, 4.0),  # difference of a background pixel, 8-bit CIELAB units
    }
)
# Minimum values, so that one fault does not hide all others in a product.
FLOORS = frozen(
    trace=0.002, head=0.05, covered=0.02, hair=0.5, copied=0.02, seam=0.1, sharpness=0.02,
    undistorted=0.1, detail=0.02,
)  # fmt: skip
NOISE_DETAIL = 2.5  # detail, relative to the sharper photograph, from which it counts as noise
SAME_PIXELS = 0.70  # correlation from which a face is made of the avatar's pixels

# Standard deviations of the Gaussians of pose and expression: a value falls to 0.61 at one sigma.
POSE = frozen(
    place=0.35,  # centre, in distances between the eyes
    scale=0.20,  # natural logarithm of the distance between the eyes
    roll=12.0,  # degrees
    turn=0.35,  # position of the nose between both ends of the jaw
    mouth=0.30,  # opening, in widths of the mouth
    lids=0.20,  # opening of the eyes, in their widths
)

CONSTANTS: Mapping[str, object] = MappingProxyType(
    {
        "weights": dict(WEIGHTS),
        "reference_weights": dict(REFERENCE_WEIGHTS),
        "realism_weights": dict(REALISM_WEIGHTS),
        "ramps": dict(RAMPS),
        "floors": dict(FLOORS),
        "pose": dict(POSE),
        "others": (HAIR_WEIGHT, NOISE_DETAIL, SAME_PIXELS),
    }
)
DIGEST = hashlib.sha256(repr(CONSTANTS).encode()).hexdigest()[:16]


def ramp(name: str, value: float, factor: float = 1.0) -> float:
    """Map a value linearly to [0, factor], from the start of a ramp to its end.

    Values outside are clipped, and results below the floor of that name are raised to it.
    """
    start, end = RAMPS[name]
    share = (value - start) / (end - start)
    return max(min(1.0, max(0.0, share)) * factor, FLOORS.get(name, 0.0))
