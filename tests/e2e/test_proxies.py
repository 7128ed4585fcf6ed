"""The app through nginx and Caddy as the how-to page sets them up; strangers stay outside."""

from collections.abc import Iterator
from pathlib import Path

import app_room
import proxies
import pytest

from genlab.benchmark.store.repository import STORE, Store

RUN = "2026-01-01"
PORTS = {(kind, replaces): 0 for kind in proxies.PROXIES for replaces in (False, True)}


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app_room.Server]:
    """A server whose public hosts are the proxies of PORTS."""
    folder = app_room.make_project(tmp_path_factory.mktemp("proxied"), cases=2)
    with Store(folder / "runs" / STORE) as store:
        app_room.make_run(store, folder, run_id=RUN, cases=2)
    PORTS.update({layout: app_room.free_port() for layout in PORTS})
    variables = {
        "GENLAB_TOKEN": proxies.TOKEN,
        "GENLAB_HOSTS": ",".join(f"{proxies.NAME}:{port}" for port in PORTS.values()),
        "GENLAB_PROXIES": "127.0.0.1",
    }
    with app_room.serving(folder, environment=variables) as served:
        yield served


@pytest.mark.parametrize("kind", proxies.PROXIES)
@pytest.mark.parametrize("replaces_host", [False, True])
def test_all_works_through_a_proxy(
    proxied: app_room.Server, tmp_path: Path, kind: str, replaces_host: bool
) -> None:
    if missing := proxies.missing_programs(kind):
        pytest.skip(missing)
    backend = int(proxied.base.rpartition(":")[2])
    port = PORTS[kind, replaces_host]
    with proxies.proxy(
        kind, tmp_path / "proxy", backend, port, replaces_host=replaces_host
    ) as public:
        assert proxies.find_faults(public, RUN) == []


def test_a_server_whose_public_host_needs_a_token_does_not_start(tmp_path: Path) -> None:
    app_room.make_project(tmp_path, cases=1)
    variables = {"GENLAB_HOSTS": proxies.NAME, "GENLAB_TOKEN": ""}
    line = "genlab: error: GENLAB_HOSTS needs GENLAB_TOKEN"
    with (
        pytest.raises(RuntimeError, match=line),
        app_room.serving(tmp_path, environment=variables),
    ):
        pass
