"""Kind `comfyui`: a workflow of a ComfyUI server.

`workflow` is the JSON file of ComfyUI's *Export (API)* with placeholders in its inputs: LoadImage
nodes get `{template}`, `{avatar}` or `{avatar_2}`, text nodes `{prompt}`, samplers `{seed}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from genlab.benchmark.cases import Case
from genlab.benchmark.cases.photographs import MAX_BYTES
from genlab.benchmark.plugins import placeholders
from genlab.benchmark.plugins.answers import ANSWER_BYTES
from genlab.benchmark.plugins.base import Picture, ToolFailure
from genlab.benchmark.plugins.configured import ConfiguredTool, ServiceEntry
from genlab.benchmark.plugins.inputs import make_inputs
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, sha256
from genlab.llm.errors import EndpointError
from genlab.llm.transport import send_request

POLL_SECONDS = (0.1, 1.0)  # first and longest pause between two looks at the history
CANCEL_SECONDS = 3.0


class ComfyEntry(ServiceEntry):
    """A tool of kind `comfyui`."""

    kind: Literal["comfyui"] = "comfyui"
    workflow: str = Field(min_length=1, description="JSON file, relative to tools.yaml.")
    output: str = Field(default="", description="Id of the node that saves; empty: the only one.")


class ComfyTool(ConfiguredTool[ComfyEntry]):
    """A workflow that is queued once per image."""

    def files(self) -> dict[str, str]:
        """SHA-256 of the workflow."""
        path = self.folder / self.entry.workflow
        return {self.entry.workflow: sha256(path)} if path.is_file() else {}

    @cached_property
    def workflow(self) -> dict[str, Any]:
        """The workflow. Raises a `GenlabError` for a file of another kind."""
        path = self.folder / self.entry.workflow
        workflow: dict[str, Any] = read_json(path, producer_command="ComfyUI's menu Export (API)")
        nodes = workflow.values() if isinstance(workflow, dict) else [None]
        if not all(isinstance(node, dict) and "class_type" in node for node in nodes):
            raise GenlabError(
                f"{path} is not a workflow in API format; save it by ComfyUI's menu Export (API)"
            )
        try:
            placeholders.check(workflow, (*self.entry.placeholders, *self.entry.options))
        except ValueError as error:
            raise GenlabError(f"{path}: {error}") from error
        return workflow

    def unavailable(self) -> str:
        """Which environment variable is missing or what is wrong with the workflow."""
        try:
            return super().unavailable() or ("" if self.workflow else "the workflow is empty")
        except GenlabError as error:
            return str(error)

    async def make(self, case: Case, options: Mapping[str, Any]) -> Picture:
        """Upload the images, queue the workflow, wait, download. Raises `EndpointError`."""
        inputs = await asyncio.to_thread(make_inputs, case)
        values = self.values(case, inputs, options)
        template = await self._upload(inputs.template)
        avatars = [await self._upload(avatar) for avatar in inputs.avatars]
        try:
            filled = placeholders.fill(self.workflow, {**values, "template": template}, avatars)
        except KeyError as error:
            raise ToolFailure("error", f"the case has no {error.args[0]}") from error
        prompt_id = await self._queue(filled)
        try:
            outputs = await self._wait(prompt_id)
        except asyncio.CancelledError:
            await self._cancel(prompt_id)
            raise
        image = self._saved(outputs)
        where = {name: str(image.get(name, "")) for name in ("filename", "subfolder", "type")}
        response = await self._send("GET", "view", params=where)
        return Picture(response.content, note=f"seed {values['seed']}")

    async def _upload(self, data: bytes) -> str:
        """Upload an image; return the name that a LoadImage node takes."""
        files = {"image": (f"genlab-{uuid.uuid4().hex}.png", data, "image/png")}
        said = await self._json("POST", "upload/image", files=files, data={"type": "input"})
        folder = said.get("subfolder")
        return f"{folder}/{said.get('name')}" if folder else str(said.get("name"))

    async def _queue(self, workflow: Mapping[str, Any]) -> str:
        try:
            said = await self._json("POST", "prompt", json={"prompt": workflow})
        except EndpointError as error:
            if error.status != 400:
                raise
            reason = _node_errors(error.body) or error.reason
            raise ToolFailure("error", f"the workflow is rejected: {reason}") from error
        if not isinstance(said.get("prompt_id"), str):
            raise EndpointError("invalid_answer", f"no prompt_id in the answer: {said}")
        return str(said["prompt_id"])

    async def _wait(self, prompt_id: str) -> Mapping[str, Any]:
        """The outputs of a finished prompt. Raises `ToolFailure` where a node failed."""
        pause, longest = POLL_SECONDS
        while True:
            entry = (await self._json("GET", f"history/{prompt_id}")).get(prompt_id)
            if isinstance(entry, dict):
                status = entry.get("status") or {}
                if status.get("status_str") == "error":
                    raise ToolFailure("error", _execution_error(status.get("messages")))
                if status.get("completed", True):
                    return dict(entry.get("outputs") or {})
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _cancel(self, prompt_id: str) -> None:
        """Ask the server to drop the prompt, so that nobody waits for its result."""
        requests = {"queue": {"delete": [prompt_id]}, "interrupt": {"prompt_id": prompt_id}}
        for path, content in requests.items():
            with suppress(EndpointError, asyncio.TimeoutError):
                await asyncio.wait_for(self._send("POST", path, json=content), CANCEL_SECONDS)

    def _saved(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The image that the output node saved; previews of type temp do not count."""
        found = {
            node: [image for image in result["images"] if image.get("type") != "temp"]
            for node, result in outputs.items()
            if self.entry.output in ("", node) and result.get("images")
        }
        images = [image for node in found.values() for image in node]
        if len(images) != 1:
            nodes = ", ".join(found) or "none"
            raise ToolFailure(
                "no_image",
                f"the workflow saved {len(images)} images (nodes: {nodes}); name the node of one"
                f" image by the key output of {self.tool_id}",
                cost=self.entry.cost,
            )
        return dict(images[0])

    async def _json(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        response = await self._send(method, path, **content)
        try:
            said = json.loads(response.content)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise EndpointError("invalid_answer", f"/{path} does not answer with a JSON object")
        return said

    async def _send(self, method: str, path: str, **content: Any) -> Any:
        url = placeholders.expand(self.entry.url).rstrip("/")
        headers = {name: placeholders.expand(value) for name, value in self.entry.headers.items()}
        secrets = [os.environ.get(name, "") for name in self.environment]
        limit = MAX_BYTES if path == "view" else ANSWER_BYTES
        return await send_request(
            method, f"{url}/{path}", max_bytes=limit, secrets=secrets, headers=headers, **content
        )


def _node_errors(body: str) -> str:
    """The first error of each node in the answer to a rejected workflow."""
    try:
        nodes = json.loads(body)["node_errors"]
        return "; ".join(
            f"node {name} ({node['class_type']}): {fault['message']} {fault.get('details', '')}"
            for name, node in nodes.items()
            for fault in node["errors"][:1]
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _execution_error(messages: Any) -> str:
    """Which node failed and why, from the messages of a history entry."""
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, list) and message[0] in ("execution_error", "execution_interrupted"):
            said = message[1]
            node = f"node {said.get('node_id')} ({said.get('node_type')})"
            return f"{node}: {said.get('exception_message', message[0])}"
    return "the workflow failed without a message"
