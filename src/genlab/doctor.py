"""What this machine has and lacks, and which job each thing affects."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from packaging.requirements import Requirement
from pydantic import create_model

from genlab.core.errors import GenlabError

if TYPE_CHECKING:
    from genlab.core.params import AgentParams, RoleParams
    from genlab.llm.chat import Endpoint, Role

GIB = 1 << 30
NEEDED_DISK = 2 * GIB  # data, checkpoints and DVC's cache of one full run; .venv is there already
RAW_FOLDERS = {
    "fashion_mnist": "FashionMNIST",
    "mnist": "MNIST",
    "cifar10": "cifar-10-batches-py",
    "celeba": "celeba",
}
EXTRAS = {
    "app": "the app (make app)",
    "faces": "benchmark: scores of faces",
    "embedded": "agent: the small model on this machine",
    "ray": "work over the machines of a cluster",
    "wandb": "Weights & Biases mirror",
    "celeba": "download of CelebA",
    "formats": "own data in HDF5, HEIC and Parquet",
    "dev": "tests and checks",
}


PROGRAMS = (
    ("git", ("git",), "the pipeline (DVC)", True),
    (
        "chromium",
        ("chromium", "chromium-browser", "google-chrome"),
        "tests in a browser; pictures of the app",
        False,
    ),
)
ENDPOINT = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
NEEDED = {
    "reachable": ("unreachable", "redirected", "proxy"),
    "key": ("wrong_key", "forbidden", "quota"),
    "model": ("not_found", "retired"),
}
"""What an endpoint must have, and the kinds of failures that show that it is missing."""
PATIENCE = 120.0  # seconds for an answer of one line
MODELS = 20  # of an endpoint, that are listed


class Check(NamedTuple):
    """Whether something was found; `job`: what cannot be done, or differs, without it."""

    name: str
    found: bool
    detail: str
    job: str
    required: bool = False  # the pipeline cannot run without it


def examine(root: Path) -> Iterator[Check]:
    """All checks of this machine, for the project in `root`. Nothing secret is in them."""
    import torch

    from genlab.sandbox.runner import probe_mode

    yield from check_packages()
    for name, names, job, required in PROGRAMS:
        program = next(filter(None, map(shutil.which, names)), None)
        yield Check(name, program is not None, program or "not on PATH", job, required)
    free = shutil.disk_usage(root).free
    needed = f"a full run needs {NEEDED_DISK / GIB:.0f} beside the 7 of .venv"
    detail = f"{free / GIB:.1f} GiB free, {needed}"
    yield Check("disk", free >= NEEDED_DISK, detail, "the pipeline", required=True)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    yield Check("GPU", bool(gpu), gpu or "none", "speed only: everything runs on the CPU")
    for mode in ("bubblewrap", "landlock"):
        fault = probe_mode(mode, shutil.which("bwrap"))
        job = "agent: runs generated code in the better of both, and needs one"
        yield Check(mode, not fault, fault or "works", job)
    known = [name for name in ENDPOINT if os.environ.get(name)]
    detail = ", ".join(f"{name} {'' if name in known else 'not '}set" for name in ENDPOINT)
    job = "agent with --backend openai; paid image tools"
    yield Check("LLM endpoint", bool(known), detail, job)
    yield from check_datasets(root)


def check_packages() -> Iterator[Check]:
    """Python, the packages of pyproject.toml, and each of its extras."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", sys.version_info >= (3, 10), version, "everything", required=True)
    requirements = [Requirement(line) for line in metadata.requires("genlab") or ()]
    for extra, job in {"": "everything", **EXTRAS}.items():
        missing = [
            each.name
            for each in requirements
            if (each.marker.evaluate({"extra": extra}) if each.marker else not extra)
            and not _installed(each)
        ]
        detail = f"missing: {', '.join(missing)}" if missing else "installed"
        name = f"packages [{extra}]" if extra else "packages"
        yield Check(name, not missing, detail, job, required=not extra)


def _installed(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def check_datasets(root: Path) -> Iterator[Check]:
    """Published image datasets, and the font of the emoji, in data/raw or a copy of the system."""
    from genlab.datasets.emoji import FONT, SYSTEM_FONTS
    from genlab.datasets.sources import SYSTEM_FOLDERS

    for name, folder in RAW_FOLDERS.items():
        places = [root / "data" / "raw" / folder]
        places += [SYSTEM_FOLDERS[name]] if name in SYSTEM_FOLDERS else []
        found = next((place for place in places if place.is_dir()), None)
        detail = str(found) if found else "not here; downloaded at its first use"
        yield Check(name, found is not None, detail, f"experiments with {name}")
    fonts = [root / "data" / "raw" / FONT, *SYSTEM_FONTS.rglob(FONT)]
    font = next(filter(Path.is_file, fonts), None)
    detail = str(font or "not here; the Debian package fonts-noto-color-emoji has it")
    yield Check("emoji font", font is not None, detail, "experiments with emoji")


def check_endpoints(params: AgentParams) -> Iterator[Check]:
    """Ask the endpoints of `agent.planning` and `agent.tools` four short questions each.

    Endpoints that cost money charge for a few hundred tokens.
    """
    from genlab.llm.backends import resolve_roles

    roles = resolve_roles(params)
    named = [(each.base_url, each.model, each.key) for each in roles.values()]
    same = named[0] == named[1]
    for role, settings in roles.items():
        if not same or role == "planning":
            yield from _check_endpoint(role, "both roles" if same else role, settings)


def _check_endpoint(role: Role, label: str, params: RoleParams) -> Iterator[Check]:
    from genlab.llm.chat import Endpoint, LLMFailure
    from genlab.llm.redaction import excerpt
    from genlab.llm.transport import EndpointError

    job = "agent with --backend openai"
    quick = params.model_copy(update={"timeout": min(params.timeout, PATIENCE)})
    details = dict.fromkeys(NEEDED, "works")
    answer, endpoint, failed, reason = None, None, "", ""
    try:
        endpoint = Endpoint(role, quick, retries=(1, 1))
        answer = endpoint.ask(_prompt("Write the numbers from 1 to 40 as words."))
        details |= {"reachable": excerpt(endpoint.client.base_url), "model": answer.model}
    except (GenlabError, LLMFailure) as error:
        cause, reason = error.__cause__, str(error)
        kind = cause.kind if isinstance(cause, EndpointError) else ""
        failed = next((name for name, kinds in NEEDED.items() if kind in kinds), "answer")
        if endpoint is not None and kind in ("not_found", "retired", "rejected"):
            reason += _list_models(endpoint)
    if failed in ("", *NEEDED):
        for name in itertools.takewhile(lambda name: name != failed, NEEDED):
            yield Check(f"{label}: {name}", True, details[name], job, required=True)
    if answer is None or endpoint is None:
        yield Check(f"{label}: {failed}", False, reason, job, required=True)
        return
    rate = answer.tokens_out / max(answer.seconds, 1e-3)
    slow = "speed only: below 5, a proposal takes minutes"
    yield Check(f"{label}: speed", rate >= 5, f"{rate:.0f} tokens per second", slow)
    yield from _check_features(label, endpoint)


def _prompt(question: str) -> list[dict[str, Any]]:
    """A question as a run asks it: behind a system message."""
    system = {"role": "system", "content": "You answer briefly."}
    return [system, {"role": "user", "content": question}]


def _list_models(endpoint: Endpoint) -> str:
    """What the endpoint says that it has, for the end of a line; empty where it does not say."""
    from genlab.llm.redaction import excerpt
    from genlab.llm.transport import EndpointError

    try:
        names = asyncio.run(endpoint.client.list_models())
    except EndpointError:
        return ""
    return excerpt(f"; it lists: {', '.join(names[:MODELS]) or 'no model'}")


def _check_features(label: str, endpoint: Endpoint) -> Iterator[Check]:
    """JSON schema, function calling, and whatever else the endpoint turned out to reject.

    Both with a second turn, as a run has them.
    """
    from genlab.llm.chat import LLMFailure

    numbers = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    add = {"name": "add", "description": "Add two numbers.", "parameters": numbers}
    features: dict[str, tuple[dict[str, Any], str]] = {
        "JSON schema": (
            {"schema": create_model("Sum", total=int)},
            "without: schemas are stated in words, and more answers are asked for again",
        ),
        "functions": (
            {"functions": [{"type": "function", "function": add}]},
            "without: mode tools ends at once; mode loop needs none",
        ),
    }
    for name, (options, job) in features.items():
        prompt = _prompt("How much is 17 + 25? Add them with your function.")
        try:
            answer = endpoint.ask(prompt, **options)
            usable = bool(answer.parsed or answer.calls)
            detail = "works" if usable else "accepted, but the model does not use it"
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": "42"} for call in answer.calls
            ]
            again = {"role": "user", "content": "Add 1 to that."}
            endpoint.ask([*prompt, answer.as_message(), *(results or [again])], **options)
        except LLMFailure as error:
            usable, detail = False, error.reason
        for names, word in ((endpoint.left_out, "rejected"), (endpoint.ignored, "ignored")):
            if "schema" in options and "response_format" in names:
                usable, detail = False, f"{word}; in words: {detail}"
        yield Check(f"{label}: {name}", usable, detail, job)
    if others := ", ".join(sorted(endpoint.left_out - {"response_format"})):
        yield Check(f"{label}: others", True, f"rejected: {others}", "these are left out")


def format_table(checks: list[Check], ready: str = "the pipeline can run here") -> str:
    """The checks as lines of text, one each, and a last line that sums them up.

    ready: that line where nothing required is missing.
    """
    rows = [
        ("ok" if check.found else "FAIL" if check.required else "-", *check[:1], *check[2:4])
        for check in checks
    ]
    lacking = [check.name for check in checks if check.required and not check.found]
    verdict = f"missing: {', '.join(lacking)}" if lacking else ready
    table = pd.DataFrame(rows).to_markdown(index=False, headers=(), tablefmt="plain")
    return f"{table}\n{verdict}"
