"""GET /playground/NAME: the files of the page that a browser gets at /."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tornado.web import HTTPError

from ..handlers import BaseHandler

_FOLDER = Path(__file__).resolve().parents[1] / "playground"

PAGE_TYPE = "text/html"
_PAGE = "index.html"
_TYPES = {".html": PAGE_TYPE, ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# The page's own files and this server are all that it may reach, and no other page may frame it.
_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        *(f"{rule} 'none'" for rule in ("base-uri", "frame-ancestors", "form-action")),
    ]
)


@dataclass(frozen=True)
class _File:
    content_type: str
    data: bytes
    etag: str


def _read(path: Path) -> _File:
    data = path.read_bytes()
    etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    return _File(f"{_TYPES[path.suffix]}; charset=utf-8", data, etag)


# Read once. A name in a request is looked up here, never on disk.
_FILES = {path.name: _read(path) for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}

# Of the files beside the page, as it asks for them.
TYPES = tuple(sorted({file.content_type.partition(";")[0] for file in _FILES.values()} - {PAGE_TYPE}))


class FileHandler(BaseHandler):
    """A handler that can answer with a file of the page."""

    _file: _File | None = None

    def send_file(self, name: str) -> None:
        """Raises HTTPError(404) for a name that the page has no file of."""
        if name not in _FILES:
            raise HTTPError(404)
        self._file = _FILES[name]
        self.set_header("Content-Type", self._file.content_type)
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "no-cache")
        self.finish(self._file.data)

    def send_page(self) -> None:
        """The page itself."""
        self.send_file(_PAGE)

    def compute_etag(self) -> str | None:
        return None if self._file is None else self._file.etag


class PlaygroundHandler(FileHandler):
    """What the page consists of. It holds nothing that needs a key, and is where a key can be given."""

    def needs_key(self) -> bool:
        return False

    def get(self, name: str) -> None:
        if name == _PAGE:  # which stands at /, whence its own addresses start
            raise HTTPError(404)
        self.send_file(name)

    head = get
