"""Export stars as tasks of Label Studio, with a labelling configuration, and import them.

A task shows an image blind: who is replaced by whom, and the result beside it. Its data identify
the image and the raters of its stars. Label Studio overwrites data columns that are named `id`,
`annotator`, `created_at`, `updated_at`, `lead_time`, `annotation_id` or like a control, so no
column has such a name. The import reads the format that Label Studio's export calls JSON.
"""

import base64
import io
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from genlab.benchmark.cases import load_stored_case
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.exchange.rows import parse_time
from genlab.benchmark.service.rating_session import draw_swaps
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Rating
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_text

CONTROL = "stars"
CONFIG = f"""\
<View>
  <Header value="How well does the result replace the person? 1 poor, 5 excellent"/>
  <Image name="image" value="$picture"/>
  <Rating name="{CONTROL}" toName="image" maxRating="5" required="true"/>
</View>
"""
EXPORT = "Label Studio's Export, format JSON"
SIDE = 640  # pixels
RATING_COLUMNS = ("rater", "context", "session", "rated", "stars")


def export_tasks(store: Store, path: Path) -> int:
    """Write a task per image, with its stars as annotations; returns the number of tasks.

    The labelling configuration is written beside `path` (.xml). Images of controls have a task only
    if they have stars. The picture is a grey square if there is none in the store's folder (samples
    of models, deleted images).
    """
    ratings: dict[tuple[str, str], list[Rating]] = {}
    for rating in store.ratings():
        ratings.setdefault((rating.subject_kind, rating.subject_hash), []).append(rating)
    items: dict[tuple[str, str], ItemResult] = {}
    for item in store.items():
        if item.image_sha256:
            items.setdefault(("run_item", item.image_sha256), item)
    to_rate = {key for key, item in items.items() if not item.tool_id.startswith("control_")}
    pictures = _Pictures(store)
    tasks = [
        _make_task(key, pictures.url(items.get(key)), ratings.get(key, []))
        for key in sorted(to_rate | ratings.keys())
    ]
    write_text(path.with_suffix(".xml"), CONFIG)
    write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
    return len(tasks)


def _make_task(key: tuple[str, str], picture: str, ratings: list[Rating]) -> dict[str, Any]:
    kind, sha256 = key
    columns: dict[str, dict[str, Any]] = {}  # of each rating, by the id of its annotation's result
    annotations = []
    ordered = sorted(ratings, key=lambda rating: (rating.rater, rating.context))
    for number, rating in enumerate(ordered, 1):
        name = f"given-{number}"
        columns[name] = {column: getattr(rating, column) for column in RATING_COLUMNS}
        value = {"rating": rating.stars}
        control = {"from_name": CONTROL, "to_name": "image", "type": "rating"}
        annotations.append({"result": [{"id": name, **control, "value": value}]})
    data = {"picture": picture, "subject_kind": kind, "subject_hash": sha256, "given": columns}
    return {"data": data, "annotations": annotations}


class _Pictures:
    """Pictures of tasks; each case is drawn once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.cases = {
            (run.run_id, case["case_id"]): case for run in store.runs() for case in run.cases
        }
        self.drawings: dict[tuple[str, str], Image.Image | None] = {}

    def url(self, item: ItemResult | None) -> str:
        """Draw the image of an item beside its case, as a data URL."""
        sheet = Image.new("RGB", (64, 64), "grey")
        path = self.store.path.parent / item.image if item else None
        if item and path and path.is_file():
            sheet = read_photograph(path)
            sheet.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
            sheet = _join(self._draw_case(item), sheet)
        buffer = io.BytesIO()
        sheet.save(buffer, "JPEG", quality=82)
        return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

    def _draw_case(self, item: ItemResult) -> Image.Image | None:
        key = item.run_id, item.case_id
        if key not in self.drawings:
            try:
                case = load_stored_case(self.store, item.run_id, self.cases[key])
                self.drawings[key] = draw_swaps(case)
            except (GenlabError, OSError):  # deleted or changed since
                self.drawings[key] = None
        return self.drawings[key]


def _join(left: Image.Image | None, right: Image.Image) -> Image.Image:
    """Put two images side by side; returns the right one if there is no left one."""
    if left is None:
        return right
    sheet = Image.new(
        "RGB", (left.width + right.width + 16, max(left.height, right.height)), "white"
    )
    sheet.paste(left, (0, 0))
    sheet.paste(right, (left.width + 16, 0))
    return sheet


def import_tasks(store: Store, path: Path) -> tuple[int, list[str]]:
    """Add the stars of an export of Label Studio, all or none. Newer stars of this store stay.

    Stars that were given in Label Studio count as blind stars of `label-studio-USER`. Returns how
    many changed anything, and a line for each task or result that is left out: a skipped task, an
    unknown control. Raises a `GenlabError` that names the task whose stars are out of range.
    """
    left_out: list[str] = []
    changed = store.add(Rating, _read_tasks(path, left_out), path)
    return changed, left_out


def _read_tasks(path: Path, left_out: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    tasks = read_json(path, producer_command=EXPORT)
    if not isinstance(tasks, list):
        raise GenlabError(f"{path} is not a list of tasks; export it by {EXPORT}", path=path)
    for number, task in enumerate(tasks, 1):
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict) or not isinstance(task.get("annotations"), list):
            raise GenlabError(
                f"{path}: entry {number} has no data and annotations; export it by {EXPORT}",
                path=path,
            )
        place = f"{path}, task {task.get('id', number)}"
        subject = {name: data.get(name) for name in ("subject_kind", "subject_hash")}
        for annotation in task["annotations"]:
            if annotation.get("was_cancelled"):
                left_out.append(f"{place}: skipped by its annotator")
                continue
            for result in annotation.get("result") or ():
                if result.get("from_name") != CONTROL or result.get("type") != "rating":
                    name = str(result.get("from_name"))
                    left_out.append(f"{place}: control {name!r} is not {CONTROL!r}")
                    continue
                values = _read_stars(place, path, annotation, result, data.get("given"))
                yield place, {**subject, **values}


def _read_stars(
    place: str, path: Path, annotation: Mapping[str, Any], result: Mapping[str, Any], exported: Any
) -> dict[str, Any]:
    """Return the columns of a rating that was exported from a store or given in Label Studio.

    exported: columns of the exported ratings, by the id of their result.
    """
    stars = (result.get("value") or {}).get("rating")
    rating = exported.get(result.get("id")) if isinstance(exported, dict) else None
    read_time = partial(parse_time, place, path=path)
    if isinstance(rating, dict):
        values = {name: rating.get(name) for name in RATING_COLUMNS}
        changed = stars != values["stars"]
        moment = annotation.get("updated_at") if changed else values["rated"]
        return {**values, "stars": stars, "rated": read_time(moment)}
    user = annotation.get("completed_by")
    user = user.get("id") if isinstance(user, dict) else user
    moment = annotation.get("updated_at") or annotation.get("created_at")
    author = {"rater": f"label-studio-{user}", "context": "blind", "session": ""}
    return {**author, "stars": stars, "rated": read_time(moment)}
