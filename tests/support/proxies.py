"""Real proxies with TLS in front of a server: nginx and Caddy as docs/how-to/proxy.md sets them up.

The configurations are the page's own; ports, certificate and folders are replaced.
"""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from app_room import READY, ROOT, free_port
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

NAME = "lab.example.org"
PAGE = ROOT / "docs/how-to/proxy.md"
TOKEN = "a-token-that-nobody-guesses"
PHOTOGRAPHS = ROOT / "cases/astronaut-officer"
BEARER = {"authorization": f"Bearer {TOKEN}"}
PROXIES = ("nginx", "caddy")
NGINX = """
worker_processes 1; pid {folder}/nginx.pid; error_log stderr; {user}
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {server}
}}
"""
CADDY = """
{{
    admin off
    auto_https off
}}
{server}
"""


@dataclass(frozen=True)
class Public:
    """A running proxy. port: where it listens, with TLS; folder: where its certificate lies."""

    port: int
    folder: Path

    @property
    def host(self) -> str:
        """What a browser's address bar shows."""
        return f"{NAME}:{self.port}"

    @property
    def origin(self) -> str:
        return f"https://{self.host}"

    def context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts only the certificate of this proxy."""
        return ssl.create_default_context(cafile=str(self.folder / "cert.pem"))

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request for the public host to this machine."""
        headers = {"host": self.host, **options.pop("headers", {})}
        with httpx.Client(verify=self.context(), timeout=120) as client:
            return client.request(
                method,
                f"https://127.0.0.1:{self.port}{path}",
                headers=headers,
                extensions={"sni_hostname": NAME},
                **options,
            )

    def socket(self, path: str, origin: str = "", **options: Any) -> ClientConnection:
        """Open a WebSocket as a browser does from a page of the public host."""
        return connect(
            f"wss://{self.host}{path}",
            sock=socket.create_connection(("127.0.0.1", self.port)),
            ssl=self.context(),
            server_hostname=NAME,
            origin=origin or self.origin,  # type: ignore[arg-type]
            additional_headers=BEARER,
            **options,
        )


def make_certificate(folder: Path) -> None:
    """Write cert.pem and key.pem for NAME, signed by itself."""
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)


def read_block(language: str) -> str:
    """Return the configuration that the how-to page shows in this language."""
    [block] = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def write_nginx(folder: Path, port: int, backend: int, *, replaces_host: bool) -> list[str]:
    """Write the page's configuration of nginx; return the command that runs it."""
    block = read_block("nginx").replace("listen 443", f"listen 127.0.0.1:{port}")
    block = block.replace("127.0.0.1:8000", f"127.0.0.1:{backend}")
    block = re.sub(r"/etc/ssl/\S+\.pem;", f"{folder}/cert.pem;", block)
    block = re.sub(r"/etc/ssl/\S+\.key;", f"{folder}/key.pem;", block)
    if replaces_host:
        block = block.replace("proxy_set_header Host $http_host;", "")
    user = "user root;" if os.geteuid() == 0 else ""
    file = folder / "nginx.conf"
    file.write_text(NGINX.format(folder=folder, user=user, server=block), encoding="utf-8")
    return ["nginx", "-e", "stderr", "-c", str(file), "-g", "daemon off;"]


def write_caddy(folder: Path, port: int, backend: int, *, replaces_host: bool) -> list[str]:
    """Write the page's configuration of Caddy; return the command that runs it."""
    block = read_block("caddy").replace(NAME, f"https://{NAME}:{port}")
    block = block.replace(
        "reverse_proxy", f"tls {folder}/cert.pem {folder}/key.pem\n reverse_proxy"
    )
    upstream = f"127.0.0.1:{backend}"
    header = " {\n header_up Host {upstream_hostport}\n }" if replaces_host else ""
    block = block.replace("127.0.0.1:8000", upstream + header)
    file = folder / "Caddyfile"
    file.write_text(CADDY.format(server=block), encoding="utf-8")
    return ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]


@contextmanager
def proxy(
    kind: str, folder: Path, backend: int, port: int, *, replaces_host: bool
) -> Iterator[Public]:
    """Run a proxy of PROXIES on `port` until the block ends."""
    write = {"nginx": write_nginx, "caddy": write_caddy}[kind]
    folder.mkdir(parents=True)
    make_certificate(folder)
    with running(write(folder, port, backend, replaces_host=replaces_host), folder, port):
        yield Public(port, folder)


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    """Run a program that listens on a port, with `folder` as its home, until the block ends."""
    variables = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=variables, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((folder / "log").read_text("utf-8", "replace")) from None
                time.sleep(0.05)
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(15)


@contextmanager
def tunnel(folder: Path, backend: int) -> Iterator[int]:
    """A real `ssh -L` through a real sshd of this machine; yields the port on the user's side."""
    folder.mkdir(parents=True)
    for name in ("host", "user"):
        file = str(folder / name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    near = free_port()
    lines = {
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized",
        "PidFile": folder / "pid",
        "ListenAddress": f"127.0.0.1:{port}",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "prohibit-password",
    }
    text = "".join(f"{key} {value}\n" for key, value in lines.items())
    (folder / "sshd_config").write_text(text, encoding="utf-8")
    server = [str(shutil.which("sshd")), "-D", "-e", "-f", str(folder / "sshd_config")]
    options = ("StrictHostKeyChecking=no", f"UserKnownHostsFile={folder}/known", "BatchMode=yes")
    client = ["ssh", "-N", "-F", "none", "-p", str(port), "-i", str(folder / "user")]
    client += [word for option in options for word in ("-o", option)]
    client += ["-L", f"127.0.0.1:{near}:127.0.0.1:{backend}", "127.0.0.1"]
    with running(server, folder, port):
        (folder / "near").mkdir()
        with running(client, folder / "near", near):
            yield near


def missing_programs(*names: str) -> str:
    """Return a line that names the programs that are not on this machine; empty if all are."""
    missing = [name for name in (*names, "openssl") if shutil.which(name) is None]
    return f"not on this machine: {', '.join(missing)}" if missing else ""


def find_faults(public: Public, run_id: str) -> list[str]:
    """List what does not work through a proxy, and what works for strangers but must not."""
    faults = []
    opened = public.request("GET", f"/?token={TOKEN}")
    cookie = opened.headers.get("set-cookie", "").lower()
    if opened.status_code != 303 or "secure" not in cookie or opened.headers["location"] != "/":
        faults.append(f"the token becomes a cookie: {opened.status_code} {cookie}")
    for path in ("/", "/_stcore/health", "/api/runs", f"/api/report/{run_id}"):
        if (code := public.request("GET", path, headers=BEARER).status_code) != 200:
            faults.append(f"{path}: {code}")
        if (code := public.request("GET", path).status_code) != 401:
            faults.append(f"{path} without a token: {code}")
    upload = send_case(public, public.origin, f"proxied-{public.port}")
    if upload.status_code != 201:
        faults.append(f"an upload by API: {upload.status_code} {upload.text[:200]}")
    # nginx may answer 502: it is still sending when the server has refused.
    if (code := send_case(public, "https://evil.example", "evil").status_code) not in (403, 502):
        faults.append(f"an upload from another site: {code}")
    with public.socket(f"/api/run/{run_id}") as follow:
        if json.loads(follow.recv(timeout=60))["type"] != "state":
            faults.append("the WebSocket of a run")
    protocol = [Subprotocol("streamlit")]
    with public.socket("/_stcore/stream", subprotocols=protocol) as pages:
        request = BackMsg(rerun_script=ClientState(query_string="", page_script_hash=""))
        pages.send(request.SerializeToString())
        message = ForwardMsg.FromString(pages.recv(timeout=60, decode=False))
        if not message.WhichOneof("type"):
            faults.append("the WebSocket of pages")
    for path in (f"/api/run/{run_id}", "/_stcore/stream"):
        try:
            public.socket(path, "https://evil.example").close()
            faults.append(f"the WebSocket {path} from another site")
        except InvalidStatus:
            pass
    return faults


def send_case(public: Public, origin: str, name: str) -> httpx.Response:
    """Create a case by the API from photographs of over 1 MB, as a page of `origin` would."""
    template = PHOTOGRAPHS / "template.jpg"
    padded = template.read_bytes() + b"\0" * (2 << 20)  # which a decoder does not read
    region = {"left": 300, "top": 200, "width": 200, "height": 200}
    case = {"case_id": name, "title": name, "licence": "mine", "regions": [region]}
    avatar = (PHOTOGRAPHS / "avatar_officer.jpg").read_bytes()
    return public.request(
        "POST",
        "/api/test-cases",
        headers={**BEARER, "origin": origin, "sec-fetch-site": "same-origin"},
        data={"case": json.dumps(case)},
        files={"template": ("t.jpg", padded), "avatars": ("a.jpg", avatar)},
    )


def find_page_faults(public: Public, browser: Any) -> list[str]:
    """Open the pages by the token and upload a photograph in a browser; list what fails."""
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.set_default_timeout(60_000)
    try:
        page.goto(f"{public.origin}/?token={TOKEN}")
        page.wait_for_function(READY)
        page.goto(f"{public.origin}/cases")
        field = page.locator("input[type=file]")
        field.first.set_input_files(PHOTOGRAPHS / "template.jpg")
        page.get_by_text("Faces, numbered").wait_for()
    except Exception as error:  # any error of playwright is a fault to report
        return [f"pages in a browser: {str(error)[:300]}"]
    finally:
        context.close()
    return []
