"""A ComfyUI server on loopback: uploads, queue, history and view, as far as a client sees them."""

import io
import socket
import threading
from typing import Any

import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from typing_extensions import Self


class ComfyServer:
    """Turns the image of the LoadImage node `1` upside down; `fault` names what goes wrong.

    fault: "" | "rejected" | "node" (an execution error) | "endless" | "two" (images) | "html" |
    "busy" (once).
    `deleted` lists what clients withdrew from the queue.
    """

    def __init__(self, fault: str = "", looks: int = 2) -> None:
        self.fault, self.looks = fault, looks
        self.uploads: dict[str, bytes] = {}
        self.prompts: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        routes = [
            Route("/upload/image", self.upload, methods=["POST"]),
            Route("/prompt", self.queue, methods=["POST"]),
            Route("/history/{prompt_id}", self.history),
            Route("/view", self.view),
            Route("/{path}", self.withdraw, methods=["POST"]),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def upload(self, request: Request) -> Response:
        async with request.form() as form:
            image: Any = form["image"]
            self.uploads[f"in/{image.filename}"] = await image.read()
        return JSONResponse({"name": image.filename, "subfolder": "in", "type": "input"})

    async def queue(self, request: Request) -> Response:
        if self.fault == "rejected":
            fault = {"message": "Value not in list", "details": "ckpt_name: 'x.safetensors'"}
            nodes = {"4": {"class_type": "CheckpointLoaderSimple", "errors": [fault]}}
            answer = {"error": {"message": "invalid prompt"}, "node_errors": nodes}
            return JSONResponse(answer, status_code=400)
        self.prompts.append((await request.json())["prompt"])
        return JSONResponse({"prompt_id": "p1", "number": 1, "node_errors": {}})

    async def history(self, request: Request) -> Response:
        if self.fault == "html":
            return HTMLResponse("<html>starting</html>")
        self.looks -= 1
        if self.looks == 1 and self.fault == "busy":
            return Response(status_code=502)
        if self.looks > 0 or self.fault == "endless":
            return JSONResponse({})
        status: dict[str, Any] = {"status_str": "success", "completed": True}
        image = {"filename": "out.png", "subfolder": "", "type": "output"}
        images = [image] * (2 if self.fault == "two" else 1)
        outputs = {"9": {"images": images}, "8": {"images": [{**image, "type": "temp"}]}}
        if self.fault == "node":
            error = {"node_id": "3", "node_type": "KSampler", "exception_message": "out of memory"}
            messages = [["execution_start", {}], ["execution_error", error]]
            status = {"status_str": "error", "completed": False, "messages": messages}
            outputs = {}
        return JSONResponse({"p1": {"outputs": outputs, "status": status}})

    async def view(self, request: Request) -> Response:
        assert request.query_params["filename"] == "out.png"
        buffer = io.BytesIO()
        name = self.prompts[-1]["1"]["inputs"]["image"]
        Image.open(io.BytesIO(self.uploads[name])).rotate(180).save(buffer, "PNG")
        return Response(buffer.getvalue(), media_type="image/png")

    async def withdraw(self, request: Request) -> Response:
        self.deleted += (await request.json()).get("delete", [])
        return JSONResponse({})
