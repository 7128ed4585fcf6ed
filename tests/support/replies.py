"""What the server on loopback may say in each protocol: chat, images, ComfyUI; sound and broken."""

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

from loopback import Reply, Request, encoded, html, payload, raw, status
from PIL import Image

MODEL = "scripted"
KEY = "sk-test-0123456789abcdef"


def completion(
    content: str | None,
    *,
    finish: str = "stop",
    refusal: str | None = None,
    usage: object = (11, 7),
) -> dict[str, Any]:
    """A chat completion as OpenAI words it; `usage` is (prompt, completion) tokens or any value."""
    if isinstance(usage, tuple):
        usage = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": usage,
    }


def good(content: str | dict[str, Any], **options: Any) -> Reply:
    """A whole answer; a dict is sent as JSON text. Options as in `completion`."""
    text = content if isinstance(content, str) else json.dumps(content)
    return payload(completion(text, **options))


def called(name: str, arguments: Any, id: str = "call_7", content: str | None = None) -> Reply:
    """A call of a function; arguments are sent as JSON text unless they are text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    body = completion(content, finish="tool_calls")
    function = {"name": name, "arguments": text}
    call = {"index": 0, "id": id, "type": "function", "function": function}
    body["choices"][0]["message"]["tool_calls"] = [call]
    return payload(body)


def prose(content: dict[str, Any]) -> Reply:
    """JSON in a fence, in the middle of prose."""
    text = f"Sure! Here {{as asked}} it is:\n```json\n{json.dumps(content)}\n```\nI hope it helps."
    return good(text)


def without_schema(otherwise: Reply, code: int = 400) -> Reply:
    """Refuse requests with a response_format by `code`, and answer the others."""
    refusal = status(code, message="response_format json_schema is not supported")
    return Reply(make=lambda request: refusal if request.structured else otherwise)


def refusal(words: str = "I can't help with that.") -> Reply:
    """The model declines."""
    return payload(completion(None, refusal=words))


Script = Callable[[Request], Reply]


def _fault(status: int, message: str, **more: Any) -> Reply:
    return payload({"error": {"message": message, **more}}, status=status)


def openai(answer: Script, *, thought: int = 3000) -> Script:
    """OpenAI's protocol, for a model that spends `thought` tokens before each answer."""

    def reply(request: Request) -> Reply:
        body = request.body
        if not request.headers["authorization"].startswith("Bearer sk-"):
            return status(401, message="Incorrect API key provided", code="invalid_api_key")
        for name in ("max_tokens", "temperature", "logit_bias"):
            if name in body:
                text = f"Unsupported parameter: '{name}' is not supported with this model."
                return status(400, message=text, param=name, code="unsupported_parameter")
        shape = body.get("response_format", {}).get("json_schema", {})
        if shape.get("strict") and "default" in json.dumps(shape):
            text = "Invalid schema for response_format: 'default' is not permitted"
            return status(400, message=text, param="response_format")
        if body["max_completion_tokens"] <= thought:
            return good("", finish="length", usage=(11, body["max_completion_tokens"]))
        return answer(request)

    return reply


def ollama(answer: Script, model: str = "gpt-oss:20b", *, tools: bool = True) -> Script:
    """Ollama's protocol: no key, no unknown model, function calling where the template has it."""

    def reply(request: Request) -> Reply:
        if request.body["model"] != model:
            text = f"model '{request.body['model']}' not found"
            return _fault(404, text, type="not_found_error", param=None)
        if "tools" in request.body and not tools:
            text = f"registry.ollama.ai/library/{model} does not support tools"
            return _fault(400, text, type="invalid_request_error", param=None)
        if "reasoning_effort" in request.body:
            return _fault(400, f'"{model}" does not support thinking', type="api_error")
        return answer(request)

    return reply


def vllm(answer: Script, model: str = "openai/gpt-oss-20b", *, context: int = 4096) -> Script:
    """The protocol of vLLM 0.32: a limit that must fit, tools behind two flags, no other names."""

    def reject(code: int, text: str, **more: Any) -> Reply:
        kind = "NotFoundError" if code == 404 else "BadRequestError"
        return _fault(code, text, type=kind, code=code, **{"param": None, **more})

    def reply(request: Request) -> Reply:
        name = request.body["model"]
        if name != model:
            text = f"The model `{name}` does not exist. Valid aliases: {model}."
            return reject(404, text, param="model")
        for parameter in ("max_tokens", "max_completion_tokens"):
            limit = request.body.get(parameter, 0)
            if limit > context:
                text = (
                    f"{parameter}={limit} cannot be greater than max_model_len={context}. Please"
                    f" request fewer output tokens. (parameter={parameter}, value={limit})"
                )
                return reject(400, text, param=parameter)
        if "tools" in request.body:
            text = (
                '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be'
                " set"
            )
            return reject(400, text)
        return answer(request)

    return reply


def transformers_serve(answer: Script, model: str = "Qwen/Qwen3-8B") -> Script:
    """The protocol of `transformers serve MODEL` 5.23: one name, and schemas without effect."""

    def reply(request: Request) -> Reply:
        name = request.body["model"]
        if name != model:
            text = f"Server is pinned to '{model}'; requested '{name}'."
            return payload({"detail": text}, status=400)
        if request.structured and "JSON schema" not in request.prompt:
            return good("The best net has two blocks.")
        return answer(request)

    return reply


def llama_cpp(answer: Script) -> Script:
    """The protocol of llama.cpp's server: any model, thoughts in the text, tools with --jinja."""

    def reply(request: Request) -> Reply:
        if "tools" in request.body:
            return _fault(500, "tools param requires --jinja flag", type="server_error")
        body = json.loads(answer(request).body)
        message = body["choices"][0]["message"]
        message["content"] = f"<think>Let me see {{}}.</think>{message['content']}"
        return payload({**body, "timings": {"predicted_per_second": 30.0}})

    return reply


def cut(request: Request) -> Reply:
    """The begin of an answer, as long as the limit that was sent."""
    body = request.body
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or 4096
    return good('{"blocks": ', finish="length", usage=(11, limit))


WHOLE = json.dumps(completion("HERE")).encode()
AT_ONCE = {"Retry-After": "0.01"}
# what an endpoint may give once or twice before it gives a sound answer
BROKEN: dict[str, Reply] = {
    "rate limit": status(429, AT_ONCE),
    "server error": status(500, AT_ONCE),
    "truncated": Reply(WHOLE, tear=True),
    "empty": good(""),
    "cut off": Reply(make=cut),
    "a page": html(),
    "no text": raw(WHOLE.replace(b"HERE", b"\xff\xfe\x80")),
    "too deep": raw(b"[" * 100_000),
    "an error with status 200": raw(b'{"error": {"message": "busy"}}'),
    "no choice": raw(b'{"choices": [], "usage": {"prompt_tokens": -1}}'),
    "no JSON": raw(b'{"choices": [{"message": {"content": NaN}}]}'),
    "prose": good("I would rather not use JSON."),
    "an answer that nests": good('{"blocks": ' * 5000),
    "half of a pair": good('{"decision": "\\ud800", "analysis": "\\ud800"}'),
}


def image(data: bytes, *, usage: dict[str, Any] | None = None, **more: Any) -> Reply:
    """An answer with these bytes as its image."""
    text = base64.b64encode(data).decode()
    return payload({"created": 0, "data": [{"b64_json": text}], "usage": usage}, **more)


def turned(seconds: float = 0.0) -> Reply:
    """What the small benchmark scores 1: the first image upside down."""

    def make(request: Request) -> Reply:
        result = request.template().rotate(180)
        return image(encoded(result, compress_level=1), seconds=seconds)

    return Reply(make=make)


def packed() -> Reply:
    """Sixty kilobytes that unpack to sixty-four megabytes."""
    squeezer = zlib.compressobj(9, wbits=31)
    body = b"".join(squeezer.compress(bytes(1 << 20)) for _ in range(64)) + squeezer.flush()
    return Reply(body, 200, {"Content-Type": "application/json", "Content-Encoding": "gzip"})


def moderated() -> Reply:
    """The content policy steps in."""
    return status(
        400,
        message="Your request was rejected by the safety system.",
        code="moderation_blocked",
        type="image_generation_user_error",
    )


@cache
def bomb(side: int = 10_000) -> bytes:
    """A PNG of side × side black pixels (100 million) in a hundred kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    squeezer = zlib.compressobj(1)
    rows = b"".join(squeezer.compress(bytes(1 + 3 * side)) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", rows + squeezer.flush())
        + chunk(b"IEND", b"")
    )


class Comfy:
    """ComfyUI's protocol: turns the image of the LoadImage node `1` upside down.

    fault: "" | "rejected" | "node" (an execution error) | "endless" | "two" (images) | "html" |
    "busy" (once) | "cached" (a node that saved under a name before is not executed again: what it
    saved is in the history of clients with an id alone, and the file is gone).
    `deleted` lists what clients withdrew from the queue.
    """

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.looks = 2  # at the history until the image is there
        self.uploads: dict[str, bytes] = {}
        self.prompts: list[dict[str, Any]] = []
        self.deleted: list[str] = []

    def __call__(self, request: Request) -> Reply:
        path = request.path.split("?")[0]
        if path == "/upload/image":
            return self._upload(request)
        if path == "/prompt":
            return self._queue(request)
        if path.startswith("/history/"):
            return self._history()
        if path == "/view":
            return self._view(request)
        self.deleted += request.body.get("delete", [])
        return payload({})

    def _upload(self, request: Request) -> Reply:
        name = f"{len(self.uploads)}.png"
        [self.uploads[f"in/{name}"]] = request.images
        return payload({"name": name, "subfolder": "in", "type": "input"})

    def _queue(self, request: Request) -> Reply:
        if self.fault == "rejected":
            fault = {"message": "Value not in list", "details": "ckpt_name: 'x.safetensors'"}
            nodes = {"4": {"class_type": "CheckpointLoaderSimple", "errors": [fault]}}
            answer = {"error": {"message": "invalid prompt"}, "node_errors": nodes}
            return payload(answer, status=400)
        self.prompts.append(request.body["prompt"])
        self.anonymous = "client_id" not in request.body
        self.looks = max(self.looks, 1)
        return payload({"prompt_id": "p1", "number": 1, "node_errors": {}})

    def _history(self) -> Reply:
        if self.fault == "html":
            return html()
        self.looks -= 1
        if self.looks == 1 and self.fault == "busy":
            return status(502)
        if self.looks > 0 or self.fault == "endless":
            return payload({})
        if self.fault == "node":
            error = {"node_id": "3", "node_type": "KSampler", "exception_message": "out of memory"}
            messages = [["execution_start", {}], ["execution_error", error]]
            failed = {"status_str": "error", "completed": False, "messages": messages}
            return payload({"p1": {"outputs": {}, "status": failed}})
        saved = {"filename": "out.png", "subfolder": "", "type": "output"}
        results = [saved] * (2 if self.fault == "two" else 1)
        if self._is_cached() and self.anonymous:
            results = []
        outputs = {"9": {"images": results}, "8": {"images": [{**saved, "type": "temp"}]}}
        done = {"status_str": "success", "completed": True}
        return payload({"p1": {"outputs": outputs, "status": done}})

    def _is_cached(self) -> bool:
        """Whether the node that saves did the same before."""
        saving = [prompt.get("9", {}).get("inputs", {}) for prompt in self.prompts]
        return self.fault == "cached" and saving[-1] in saving[:-1]

    def _view(self, request: Request) -> Reply:
        assert "filename=out.png" in request.path
        if self._is_cached():
            return status(404)
        content = self.uploads[self.prompts[-1]["1"]["inputs"]["image"]]
        return raw(encoded(Image.open(io.BytesIO(content)).rotate(180)), kind="image/png")
