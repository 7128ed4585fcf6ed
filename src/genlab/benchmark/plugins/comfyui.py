"""Kind `comfyui`: a workflow of a ComfyUI server.

`workflow` is the JSON file of ComfyUI's *Export (API)* with placeholders in its inputs: LoadImage
nodes get `{template}`, `{avatar}` or `{avatar_2}`, text nodes `{prompt}`, samplers `{seed}`.

A server answers repeated requests from its cache. Without a client's id it then leaves the saved
images out of the history (ComfyUI's pull request 14939), and the files may be gone. So each request
has an id and new names for saved files, which executes the nodes that save each time.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from genlab.benchmark.plugins.base import ToolFailure
from genlab.benchmark.plugins.http import ServiceTool, find_value, read_answer
from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.llm.redaction import redact
from genlab.llm.transport import EndpointError

POLL_SECONDS = (0.1, 1.0)  # first and longest pause between two requests for the history
CANCEL_SECONDS = 3.0


class ComfyTool(ServiceTool):
    """A workflow that is queued once per image."""

    kind: Literal["comfyui"] = "comfyui"
    workflow: str = Field(min_length=1, description="JSON file, relative to tools.yaml.")
    output: str = Field(default="", description="Id of the node that saves; empty: the only one.")

    @property
    def files(self) -> list[str]:
        return [self.workflow]

    @cached_property
    def nodes(self) -> dict[str, Any]:
        """The nodes of the workflow. Raises a `GenlabError` for a file of another kind."""
        path = self.place(self.workflow)
        nodes: dict[str, Any] = read_json(path, producer_command="ComfyUI's menu Export (API)")
        entries = nodes.values() if isinstance(nodes, dict) else ()
        if not entries or not all(isinstance(n, dict) and "class_type" in n for n in entries):
            fault = "is not a workflow in API format"
            if isinstance(nodes, dict) and {"nodes", "links"} <= nodes.keys():
                fault = "is a workflow of ComfyUI's page, which its API does not take"
            raise GenlabError(
                f"{path} {fault}; open it in ComfyUI and save it by the menu File, Export (API)"
            )
        try:
            self.check(nodes)
        except ValueError as error:
            raise GenlabError(f"{path}: {error}") from error
        return nodes

    def unavailable(self) -> str:
        try:
            return super().unavailable() if self.nodes else ""
        except GenlabError as error:
            return str(error)

    async def request(self, images: Sequence[bytes], values: dict[str, Any]) -> bytes:
        names = [await self._upload(image) for image in images]
        prompt_id = await self._queue(_rename_saved(self.fill(self.nodes, values, names)))
        try:
            outputs = await self._wait(prompt_id)
        except (asyncio.CancelledError, EndpointError):
            await self._cancel(prompt_id)
            raise
        image = self._find_saved(outputs)
        parameters = {name: str(image.get(name, "")) for name in ("filename", "subfolder", "type")}
        return (await self.poll("view", params=parameters)).content

    async def _upload(self, data: bytes) -> str:
        """Upload an image; return the name that a LoadImage node takes."""
        files = {"image": (f"genlab-{uuid.uuid4().hex}.png", data, "image/png")}
        answer = await self.request_json(
            "POST", "upload/image", files=files, data={"type": "input"}
        )
        name = str(find_value(answer, "name"))
        return f"{answer['subfolder']}/{name}" if answer.get("subfolder") else name

    async def _queue(self, workflow: Mapping[str, Any]) -> str:
        try:
            answer = await self.request_json(
                "POST", "prompt", json={"prompt": workflow, "client_id": uuid.uuid4().hex}
            )
        except EndpointError as error:
            if error.status != 400:
                raise
            reason = redact(_describe_node_errors(error.body), self.secrets) or error.reason
            raise ToolFailure("error", f"the workflow is rejected: {reason}") from error
        return str(find_value(answer, "prompt_id"))

    async def _wait(self, prompt_id: str) -> Mapping[str, Any]:
        """Wait for the outputs of a prompt. Raises `ToolFailure` where a node failed."""
        pause, longest = POLL_SECONDS
        while True:
            history = read_answer(await self.poll(f"history/{prompt_id}"), self.secrets)
            entry = history.get(prompt_id) if isinstance(history, dict) else None
            if isinstance(entry, dict):
                status = entry.get("status") or {}
                if status.get("status_str") == "error":
                    reason = _describe_failure(status.get("messages"))
                    raise ToolFailure("error", redact(reason, self.secrets))
                if status.get("completed", True):
                    return dict(entry.get("outputs") or {})
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _cancel(self, prompt_id: str) -> None:
        """Ask the server to drop the prompt, so that nobody waits for its result."""
        requests = {"queue": {"delete": [prompt_id]}, "interrupt": {"prompt_id": prompt_id}}
        for path, content in requests.items():
            with suppress(EndpointError, asyncio.TimeoutError):
                await asyncio.wait_for(self.send("POST", path, json=content), CANCEL_SECONDS)

    def _find_saved(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Find the image that the output node saved; previews of type temp do not count."""
        saved = [
            (node, image)
            for node, result in outputs.items()
            for image in result.get("images") or ()
            if self.output in ("", node) and image.get("type") != "temp"
        ]
        if len(saved) != 1:
            nodes = ", ".join(dict.fromkeys(node for node, _ in saved)) or "none"
            raise ToolFailure(
                "no_image",
                f"the workflow saved {len(saved)} images (nodes: {nodes}); name the node of one"
                f" image by the key output of {self.tool_id}",
                cost=self.cost,
            )
        return dict(saved[0][1])


def _rename_saved(workflow: Mapping[str, Any]) -> dict[str, Any]:
    """Return the workflow with a new name for what each node saves."""
    suffix = uuid.uuid4().hex[:8]
    nodes = {}
    for name, node in workflow.items():
        inputs = dict(node.get("inputs") or {})
        if isinstance(inputs.get("filename_prefix"), str):
            inputs["filename_prefix"] += f"-{suffix}"
        nodes[name] = {**node, "inputs": inputs}
    return nodes


def _describe_node_errors(body: str) -> str:
    """Describe the first error of each node of a rejected workflow."""
    try:
        return "; ".join(
            f"node {name} ({node['class_type']}): {fault['message']} {fault.get('details', '')}"
            for name, node in json.loads(body)["node_errors"].items()
            for fault in node["errors"][:1]
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _describe_failure(messages: Any) -> str:
    """Describe which node failed and why, from the messages of a history entry."""
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, list) and message[0] in ("execution_error", "execution_interrupted"):
            details = message[1]
            node = f"node {details.get('node_id')} ({details.get('node_type')})"
            return f"{node}: {details.get('exception_message', message[0])}"
    return "the workflow failed without a message"
