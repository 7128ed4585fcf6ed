"""Cases and images of the benchmark as HTML figures, and the progress of a run."""

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from html import escape
from typing import Any

from genlab.benchmark.cases import Case, load_run_case
from genlab.benchmark.leaderboard.table import format_number
from genlab.benchmark.report import grade
from genlab.benchmark.store.items import FINISHED, STATUSES, ItemResult
from genlab.benchmark.store.repository import Store
from genlab.core.errors import GenlabError
from genlab.web.components.escape import line, text
from genlab.web.files import file_version
from genlab.web.images import case_image_url

STATUS = {"generating": "generating…", "generated": "waits for its score", "evaluating": "scoring…"}


def picture(url: str, name: str) -> str:
    return f'<img src="{escape(url)}" alt="{escape(line(name))}">'


def read_run_case(store: Store, run_id: str, facts: dict[str, Any]) -> Case | str:
    """Read a case of a run; returns a reason instead if it is gone or has changed since.

    facts: the case in `Run.cases`.
    """
    try:
        folder = store.case_folder(facts)
        versions = tuple(map(file_version, folder.glob("*")))
        return _read_case(versions, folder, run_id, facts.get("digest", ""))
    except (GenlabError, OSError) as fault:
        return str(fault)


@lru_cache(maxsize=256)  # the page of a run under way is drawn again and again
def _read_case(_versions: tuple[tuple[str, ...], ...], *of_run: Any) -> Case:
    return load_run_case(*of_run)


def case_figure(case: Case | str, name: str = "") -> str:
    """Show a template with its avatars above the case's title or `name`, or why it cannot."""
    if isinstance(case, str):
        fault = f'<span class="b-wait">{text(case, 160)}</span>'
        return f'<figure class="b-cell"><span class="b-frame">{fault}</span></figure>'
    url = partial(case_image_url, case.case_id)
    frame = picture(url("template", "320"), f"template of {case.title}")
    faces = "".join(picture(url(name, "160"), f"avatar {name}") for name in case.avatars)
    return (
        f'<figure class="b-cell"><span class="b-frame">{frame}</span>'
        f'<figcaption><span class="b-name">{text(name or case.title, 60)}</span>'
        f'<span class="b-faces">{faces}</span></figcaption></figure>'
    )


def gallery(cases: Iterable[Case]) -> str:
    return f'<div class="b-gallery">{"".join(map(case_figure, cases))}</div>'


def progress(counts: Mapping[str, int]) -> str:
    """Show the progress of a run: a bar, and the number of items by status."""
    words = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts.get(status))
    ended = sum(counts.get(status, 0) for status in FINISHED)
    total = max(sum(counts.values()), 1)
    bar = f'<progress max="{total}" value="{ended}" aria-label="items that have ended"></progress>'
    return f'<div class="b-progress">{bar}<span>{words or "waiting"}</span></div>'


def item_figure(item: ItemResult, label: str) -> str:
    """Show an item: its image or its status, and its badge."""
    if item.image:
        url = escape(f"/runs/{item.image}")
        image = picture(f"/runs/{item.image}?width=320", f"{label} on {item.case_id}")
        frame = f'<a class="b-frame" href="{url}" target="_blank" rel="noopener">{image}</a>'
    else:
        words = text(item.failure, 90) if item.failure else STATUS.get(item.status, item.status)
        frame = f'<span class="b-frame"><span class="b-wait">{words}</span></span>'
    draw = f", draw {item.repeat}" if item.repeat > 1 else ""
    return (
        f'<figure class="b-cell" data-item="{item.item_id}" data-case="{escape(item.case_id)}"'
        f' data-status="{escape(item.status)}">'
        f'{frame}<figcaption><span class="b-name">{text(label, 80)}{draw}</span>'
        f"{badge(item)}</figcaption></figure>"
    )


def badge(item: ItemResult) -> str:
    """Show an item's score with its components, or its status with the kind of failure."""
    colour = "poor" if item.status == "failed" else grade(item.score)
    if item.score is None:
        kind = f" ({text(item.failure_kind.replace('_', ' '), 40)})" if item.failure_kind else ""
        return f'<span class="b-{colour}">{STATUS.get(item.status, item.status)}{kind}</span>'
    values = dict(item.components)
    if item.score_reference is not None:
        values = {"reference score": item.score_reference, **values}
    rows = "".join(
        f"<tr><td>{text(name.replace('_', ' '), 30)}</td><td>{format_number(value)}</td></tr>"
        for name, value in values.items()
    )
    return (
        f'<details class="b-badge"><summary class="b-{colour}">{format_number(item.score)}'
        f"</summary><table>{rows}</table></details>"
    )
