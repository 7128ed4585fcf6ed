"""The app through real proxies: pages, uploads and WebSockets work, and strangers are refused.

`app.proxy` is 1 where all of it works through nginx and Caddy, each with `Host` passed on and
replaced, with `GENLAB_PROXIES` and without it, and through an SSH tunnel without any setting.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import proxies
from app_room import BROWSERS, Server, chromium, free_port, make_project, make_run, serving

from benchmarks.harness import Result, benchmark
from genlab.benchmark.store.repository import Store

RUN = "2026-01-01"
LAYOUTS = [(kind, replaces) for kind in proxies.PROXIES for replaces in (False, True)]


@benchmark("app.proxy")
def app_proxy() -> Iterator[Result]:
    """Use the app through nginx, Caddy and an SSH tunnel."""
    programs = [*proxies.PROXIES, "ssh", "sshd", "ssh-keygen"]
    if missing := proxies.missing_programs(*programs):
        print(f"app.proxy skipped, {missing} (Debian: nginx-light, caddy, openssh-server)")
        return
    if not any(map(shutil.which, BROWSERS)):
        print("app.proxy skipped, not on this machine: chromium")
        return
    faults: list[str] = []
    checks = 0
    for named in (True, False):
        for proxy_faults in try_proxies(named):
            checks += 1
            faults += proxy_faults
    faults += try_tunnel()
    checks += 1
    print(*faults, sep="\n")
    yield Result("app.proxy", float(not faults), n=checks, details={"faults": faults})


def make_served(folder: Path) -> Path:
    """A project with a finished run."""
    make_project(folder, cases=2)
    with Store(folder / "runs/genlab.sqlite3") as store:
        make_run(store, folder, run_id=RUN, cases=2)
    return folder


def try_proxies(named: bool) -> list[list[str]]:
    """List the faults of each proxy, with Host passed on and replaced.

    named: whether GENLAB_PROXIES names the proxies to the server.
    """
    ports = [free_port() for _ in LAYOUTS]
    variables = {
        "GENLAB_TOKEN": proxies.TOKEN,
        "GENLAB_HOSTS": ",".join(f"{proxies.NAME}:{port}" for port in ports),
        **({"GENLAB_PROXIES": "127.0.0.1"} if named else {}),
    }
    with (
        tempfile.TemporaryDirectory() as name,
        serving(make_served(Path(name, "project")), environment=variables) as server,
    ):
        return [
            try_proxy(server, Path(name), kind, port, replaces, browse=named)
            for (kind, replaces), port in zip(LAYOUTS, ports, strict=True)
        ]


def try_proxy(
    server: Server, folder: Path, kind: str, port: int, replaces_host: bool, *, browse: bool
) -> list[str]:
    """List the faults of one proxy, each with its name."""
    backend = int(server.base.rpartition(":")[2])
    proxy_folder = folder / f"{kind}-{port}"
    with proxies.proxy(kind, proxy_folder, backend, port, replaces_host=replaces_host) as public:
        faults = proxies.find_faults(public, RUN)
        if browse:
            rule = f"--host-resolver-rules=MAP {proxies.NAME} 127.0.0.1"
            with chromium(rule) as browser:
                faults += proxies.find_page_faults(public, browser)
    words = "Host replaced" if replaces_host else "Host passed on"
    return [f"{kind}, {words}: {fault}" for fault in faults]


def try_tunnel() -> list[str]:
    """List the faults of a server without settings, through a tunnel and through a proxy."""
    with (
        tempfile.TemporaryDirectory() as name,
        serving(make_served(Path(name, "project"))) as server,
    ):
        backend = int(server.base.rpartition(":")[2])
        with proxies.tunnel(Path(name, "ssh"), backend) as port:
            answer = httpx.get(f"http://localhost:{port}/api/runs", timeout=60)
        faults = [] if answer.status_code == 200 else [f"tunnel: {answer.text[:200]}"]
        public = free_port()
        with proxies.proxy("caddy", Path(name, "c"), backend, public, replaces_host=True) as caddy:
            stranger = caddy.request("GET", "/api/runs")
        if stranger.status_code != 403 or "GENLAB_TOKEN" not in stranger.text:
            faults.append(f"a proxy without settings: {stranger.status_code} {stranger.text[:200]}")
    return faults
