"""Checks of this machine: what it has, what is missing, and which job that affects."""

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
"""What an endpoint must have, with the kinds of failure that show that it is missing."""
PATIENCE = 120.0  # seconds for an answer of one line
MODELS = 20  # number of an endpoint's models that a message lists


class Check(NamedTuple):
    """Outcome of one check. job: what cannot be done, or differs, where it did not pass."""

    name: str
    passed: bool
    detail: str
    job: str
    required: bool = False  # the pipeline cannot run without it


def examine(root: Path) -> Iterator[Check]:
    """Check this machine for the project in `root`. No secret enters a check."""
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
    states = {name: "set" if os.environ.get(name) else "not set" for name in ENDPOINT}
    detail = ", ".join(f"{name} {state}" for name, state in states.items())
    job = "agent with --backend openai; paid image tools"
    yield Check("LLM endpoint", "set" in states.values(), detail, job)
    yield from check_datasets(root)


def check_packages() -> Iterator[Check]:
    """Check Python, the packages of pyproject.toml, and each of its extras."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", sys.version_info >= (3, 10), version, "everything", required=True)
    requirements = [Requirement(line) for line in metadata.requires("genlab") or ()]
    for extra, job in {"": "everything", **EXTRAS}.items():
        missing = [
            requirement.name
            for requirement in requirements
            if _belongs_to(requirement, extra) and not _is_installed(requirement)
        ]
        detail = f"missing: {', '.join(missing)}" if missing else "installed"
        name = f"packages [{extra}]" if extra else "packages"
        yield Check(name, not missing, detail, job, required=not extra)


def _belongs_to(requirement: Requirement, extra: str) -> bool:
    """Whether an extra brings the requirement; "" stands for the package without extras."""
    if requirement.marker is None:
        return not extra
    return requirement.marker.evaluate({"extra": extra})


def _is_installed(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def check_datasets(root: Path) -> Iterator[Check]:
    """Look for published datasets and the emoji font, in data/raw and in the system's folders."""
    from genlab.datasets.emoji import FONT, SYSTEM_FONTS
    from genlab.datasets.sources import SYSTEM_FOLDERS

    for name, folder in RAW_FOLDERS.items():
        candidates = [root / "data" / "raw" / folder]
        if name in SYSTEM_FOLDERS:
            candidates.append(SYSTEM_FOLDERS[name])
        copy = next(filter(Path.is_dir, candidates), None)
        detail = str(copy or "not here; downloaded at its first use")
        yield Check(name, copy is not None, detail, f"experiments with {name}")
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
    models = [(settings.base_url, settings.model, settings.key) for settings in roles.values()]
    same = models[0] == models[1]
    for role, settings in roles.items():
        if not same or role == "planning":
            yield from _check_endpoint(role, "both roles" if same else role, settings)


def _check_endpoint(role: Role, label: str, params: RoleParams) -> Iterator[Check]:
    from genlab.llm.chat import Endpoint, LLMFailure
    from genlab.llm.client import Retries
    from genlab.llm.redaction import excerpt
    from genlab.llm.transport import EndpointError

    job = "agent with --backend openai"
    quick = params.model_copy(update={"timeout": min(params.timeout, PATIENCE)})
    details = dict.fromkeys(NEEDED, "works")
    answer = None
    endpoint = None
    failed = ""
    reason = ""
    try:
        endpoint = Endpoint(role, quick, retries=Retries(1, 1))
        answer = endpoint.ask(_prompt("Write the numbers from 1 to 40 as words."))
        details |= {"reachable": excerpt(endpoint.client.base_url), "model": answer.model}
    except (GenlabError, LLMFailure) as error:
        reason = str(error)
        cause = error.__cause__
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
    """Messages that ask a question behind a system message, as a run does."""
    system = {"role": "system", "content": "You answer briefly."}
    return [system, {"role": "user", "content": question}]


def _list_models(endpoint: Endpoint) -> str:
    """List the endpoint's models as the end of a message; "" if it does not list them."""
    from genlab.llm.redaction import excerpt
    from genlab.llm.transport import EndpointError

    try:
        names = asyncio.run(endpoint.client.list_models())
    except EndpointError:
        return ""
    return excerpt(f"; it lists: {', '.join(names[:MODELS]) or 'no model'}")


def _check_features(label: str, endpoint: Endpoint) -> Iterator[Check]:
    """Check JSON schemas and function calling over two turns, and name rejected parameters."""
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
        endpoint.answered = False  # else a server that drops the functions is not found out
        try:
            answer = endpoint.ask(prompt, **options)
            usable = bool(answer.parsed or answer.calls)
            detail = "works" if usable else "accepted, but the model does not use it"
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": "42"} for call in answer.calls
            ]
            again = {"role": "user", "content": "Add 1 to that."}
            endpoint.ask([*prompt, answer.as_message(), *(results or [again])], **options)
        except (GenlabError, LLMFailure) as error:
            usable = False
            detail = str(error)
        for names, word in ((endpoint.left_out, "rejected"), (endpoint.ignored, "ignored")):
            if "schema" in options and "response_format" in names:
                usable = False
                detail = f"{word}; in words: {detail}"
        yield Check(f"{label}: {name}", usable, detail, job)
    if others := ", ".join(sorted(endpoint.left_out - {"response_format"})):
        yield Check(f"{label}: others", True, f"rejected: {others}", "these are left out")


def format_table(checks: list[Check], ready: str = "the pipeline can run here") -> str:
    """Format checks as lines of text, one each, and a last line that sums them up.

    ready: the last line if nothing required is missing.
    """
    rows = [(_mark(check), check.name, check.detail, check.job) for check in checks]
    missing = [check.name for check in checks if check.required and not check.passed]
    verdict = f"missing: {', '.join(missing)}" if missing else ready
    table = pd.DataFrame(rows).to_markdown(index=False, headers=(), tablefmt="plain")
    return f"{table}\n{verdict}"


def _mark(check: Check) -> str:
    if check.passed:
        return "ok"
    return "FAIL" if check.required else "-"
