"""Who may ask: the key, the host name and the origin of a request.

A web page may send requests to any server that its reader's machine can reach, also to one that listens on
loopback. It cannot choose the Origin header of a POST, nor the Host header, which names the page's own host
even where that name was made to mean this machine (DNS rebinding). Only browsers send an Origin.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket

from tornado.httputil import HTTPServerRequest, split_host_and_port

from . import errors
from .errors import RequestError
from .settings import ANY, Settings

# By which a browser says itself that the page and the server are of one origin, or that there is no page.
_OWN_SITES = ("same-origin", "none")

_PREFLIGHT_SECONDS = 600


class Access:
    """The rules in ``settings``."""

    def __init__(self, settings: Settings) -> None:
        self._keys = [_digest(key.encode()) for key in settings.api_keys]
        self._hosts = settings.allowed_hosts
        self._origins = settings.cors_origins

    def refusal(self, request: HTTPServerRequest, needs_key: bool) -> RequestError | None:
        """Why the request is not answered, if so."""
        if not self._is_host_allowed(request):
            return errors.wrong_host()
        if not self._is_origin_allowed(request):
            return errors.wrong_origin()
        if needs_key and self._keys and not self._has_key(request):
            return errors.no_key()
        return None

    def _is_host_allowed(self, request: HTTPServerRequest) -> bool:
        if self._hosts is None or ANY in self._hosts:
            return True
        name = split_host_and_port(request.host.lower())[0].rstrip(".")
        # Nobody can make an address, or a name of this network alone, mean another machine than it does.
        return _is_address(name) or "." not in name or name.endswith(".localhost") or name in self._hosts

    def _is_origin_allowed(self, request: HTTPServerRequest) -> bool:
        origin = request.headers.get("Origin")
        if origin is None or request.headers.get("Sec-Fetch-Site") in _OWN_SITES or self._shares(origin):
            return True
        host = origin.partition("://")[2]
        return host.lower() == request.host.lower()

    def _shares(self, origin: str) -> bool:
        return ANY in self._origins or origin.lower() in self._origins

    def _has_key(self, request: HTTPServerRequest) -> bool:
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        # Tornado decodes headers so. Of digests, a comparison takes the same time whatever the key's length.
        given = _digest(key.strip().encode("latin-1", "replace"))
        matches = [hmac.compare_digest(given, known) for known in self._keys]
        return scheme.lower() == "bearer" and any(matches)

    def headers(self, request: HTTPServerRequest) -> dict[str, str]:
        """What lets the pages of an origin read an answer; nothing unless origins are set."""
        if not self._origins:
            return {}
        origin = request.headers.get("Origin", "")
        headers = {"Vary": "Origin"}
        if origin and self._shares(origin):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "Retry-After, X-Request-Id"
        return headers

    def preflight_headers(self, request: HTTPServerRequest, methods: str) -> dict[str, str]:
        """What a browser asks by OPTIONS before it sends a request for a page."""
        if "Access-Control-Allow-Origin" not in self.headers(request):
            return {}
        return {
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Request-Id",
            "Access-Control-Max-Age": str(_PREFLIGHT_SECONDS),
        }


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is of this machine alone, or a name all of whose addresses are."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # on which nobody can listen
        return False
    return all(ipaddress.ip_address(str(address[0])).is_loopback for *_, address in found)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
