"""A ComfyUI server on loopback: uploads, queue, history and view, as far as a client sees them."""

from __future__ import annotations

import io
import json
import threading
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from PIL import Image
from typing_extensions import Self


class ComfyServer:
    """Turns the image of the LoadImage node `1` upside down; `fault` names what goes wrong.

    fault: "" | "rejected" | "node" (an execution error) | "endless" | "two" (images) | "html".
    `deleted` lists what clients withdrew from the queue.
    """

    def __init__(self, fault: str = "", looks: int = 2) -> None:
        self.fault, self.looks = fault, looks
        self.uploads: dict[str, bytes] = {}
        self.prompts: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), {"owner": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def upload(self, content_type: str, content: bytes) -> dict[str, Any]:
        message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + content)
        part = next(part for part in message.walk() if part.get_filename())
        self.uploads[f"in/{part.get_filename()}"] = part.get_payload(decode=True)
        return {"name": part.get_filename(), "subfolder": "in", "type": "input"}

    def history(self, prompt_id: str) -> dict[str, Any]:
        self.looks -= 1
        if self.looks > 0 or self.fault == "endless":
            return {}
        if self.fault == "node":
            error = {"node_id": "3", "node_type": "KSampler", "exception_message": "out of memory"}
            messages = [["execution_start", {}], ["execution_error", error]]
            status = {"status_str": "error", "completed": False, "messages": messages}
            return {prompt_id: {"outputs": {}, "status": status}}
        image = {"filename": "out.png", "subfolder": "", "type": "output"}
        images = [image] * (2 if self.fault == "two" else 1)
        outputs = {"9": {"images": images}, "8": {"images": [{**image, "type": "temp"}]}}
        return {
            prompt_id: {"outputs": outputs, "status": {"status_str": "success", "completed": True}}
        }

    def view(self) -> bytes:
        buffer = io.BytesIO()
        name = self.prompts[-1]["1"]["inputs"]["image"]
        Image.open(io.BytesIO(self.uploads[name])).rotate(180).save(buffer, "PNG")
        return buffer.getvalue()


class _Handler(BaseHTTPRequestHandler):
    owner: ComfyServer

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/upload/image":
            self.reply(self.owner.upload(self.headers["Content-Type"], content))
        elif self.path == "/prompt" and self.owner.fault == "rejected":
            fault = {"message": "Value not in list", "details": "ckpt_name: 'x.safetensors'"}
            nodes = {"4": {"class_type": "CheckpointLoaderSimple", "errors": [fault]}}
            self.reply({"error": {"message": "invalid prompt"}, "node_errors": nodes}, 400)
        elif self.path == "/prompt":
            self.owner.prompts.append(json.loads(content)["prompt"])
            self.reply({"prompt_id": "p1", "number": 1, "node_errors": {}})
        else:
            self.owner.deleted += json.loads(content).get("delete", [])
            self.reply({})

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/view":
            assert parse_qs(parts.query)["filename"] == ["out.png"]
            self.send(self.owner.view(), "image/png")
        elif self.owner.fault == "html":
            self.send(b"<html>starting</html>", "text/html")
        else:
            self.reply(self.owner.history(parts.path.rpartition("/")[2]))

    def reply(self, value: Any, status: int = 200) -> None:
        self.send(json.dumps(value).encode(), "application/json", status)

    def send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
