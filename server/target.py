"""What a request asks for: a path, a whole URL, or the server as such (RFC 9112, section 3.2)."""

from __future__ import annotations

import re
import urllib.parse

from tornado.httputil import HTTPServerRequest, split_host_and_port

# A host and a port, and nobody's name and password.
_AUTHORITY = re.compile(r"([a-zA-Z0-9._-]{1,255}|\[[0-9a-fA-F:.]+\])(:[0-9]{0,5})?")


def normalize(request: HTTPServerRequest) -> None:
    """Gives a request for a whole URL, as proxies send them, the URL's path and host; and one for the options
    of the server as such the path of its root. What is no URL of HTTP stays as it is."""
    target = request.uri or ""
    if target == "*" and request.method == "OPTIONS":
        request.path = "/"
        return
    if not target.lower().startswith(("http://", "https://")):
        return
    try:
        parts = urllib.parse.urlsplit(target)
    except ValueError:  # brackets that are none
        return
    if not _AUTHORITY.fullmatch(parts.netloc) or parts.fragment:
        return
    # The host of the target counts, whatever the Host header says.
    request.host, request.host_name = parts.netloc, split_host_and_port(parts.netloc.lower())[0]
    request.path = parts.path or "/"
