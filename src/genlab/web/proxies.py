"""Proxies in front of the server: public hosts, and headers of trusted proxies.

A proxy may pass `Host` on or replace it by the address to which it connects, and may report scheme
and host of a request in `X-Forwarded-Proto` and `-Host`, or in `Forwarded` (RFC 7239). Anybody can
send such headers: only those from the addresses of `GENLAB_PROXIES` count. The client's address,
which they report as well, is ignored: behind a proxy everybody needs the token.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection
from typing import TypeAlias

from starlette.datastructures import Headers
from starlette.types import Scope

from genlab.core.errors import GenlabError

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
HOST = re.compile(r"([a-z0-9][a-z0-9._-]*|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?")
LOOPBACK_PEER = "127.0.0.1"
SCHEMES = {"http": "ws", "https": "wss"}

_PAIR = re.compile(r'(proto|host)="?([^";,\s]*)', re.IGNORECASE)


def read_hosts() -> frozenset[str]:
    """Read the public hosts of GENLAB_HOSTS: names, with a port if a browser shows one.

    Raises a `GenlabError` for any other text, such as an address with its scheme.
    """
    hosts = frozenset(_read_list("GENLAB_HOSTS"))
    for host in sorted(hosts):
        if not HOST.fullmatch(host):
            raise GenlabError(
                f"GENLAB_HOSTS must hold hosts such as lab.example.org or lab.example.org:8443,"
                f" separated by commas, got {host!r}"
            )
    return hosts


def read_proxies() -> tuple[Network, ...]:
    """Read the addresses and networks of GENLAB_PROXIES.

    Raises a `GenlabError` for any other text.
    """
    try:
        return tuple(ipaddress.ip_network(name) for name in _read_list("GENLAB_PROXIES"))
    except ValueError as error:
        raise GenlabError(
            f"GENLAB_PROXIES must hold addresses such as 127.0.0.1 or 10.0.0.0/8: {error}"
        ) from error


def _read_list(variable: str) -> list[str]:
    names = os.environ.get(variable, "").lower().split(",")
    return [name.strip() for name in names if name.strip()]


def is_forwarded(headers: Headers) -> bool:
    """Whether headers say that a proxy forwards this request."""
    return any(name in ("forwarded", "x-real-ip") or "x-forwarded-" in name for name in headers)


def read_forwarded(scope: Scope, proxies: Collection[Network]) -> dict[str, str]:
    """Read `host` and `proto` from the headers of a trusted proxy; empty for other clients."""
    if not any(_peer(scope) in network for network in proxies):
        return {}
    headers = Headers(scope=scope)
    reported = dict(_PAIR.findall(headers.get("forwarded", "").lower().rpartition(",")[2]))
    for key in ("proto", "host"):
        value = headers.get(f"x-forwarded-{key}", "")
        if value:
            reported[key] = value.rpartition(",")[2].strip().lower()
    return {key: value for key, value in reported.items() if value}


def _peer(scope: Scope) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address of the connection's other end, an unspecified one if it is not known.

    If a proxy on this machine reports the client's address, uvicorn puts that in place of the
    proxy's, with port 0.
    """
    address, port = scope.get("client") or ("", 1)
    try:
        return ipaddress.ip_address(address if port else LOOPBACK_PEER)
    except ValueError:
        return ipaddress.IPv6Address(0)


def set_public(scope: Scope, host: str, proto: str) -> None:
    """Set a request's host, and its scheme if one was reported, to those that the browser uses.

    Streamlit compares `Host` with `Origin`, too.
    """
    others = [(name, value) for name, value in scope["headers"] if name != b"host"]
    scope["headers"] = [(b"host", host.encode("latin-1")), *others]
    if proto in SCHEMES:
        scope["scheme"] = proto if scope["type"] == "http" else SCHEMES[proto]
