"""The Tornado server of kael: one process, one model, one generation at a time.

``python -m server`` in a checkout, ``kael-server`` once installed (there, this package is called
``kael_server``). To embed it: ``create_app(Generator(model, tokenizer))`` or ``load_app(folder)`` give a
Tornado application.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Loaded at first use, so that the command line can say in one line what is not installed.
_MODULES = {
    "Generator": "generator",
    "Metrics": "metrics",
    "Settings": "settings",
    "create_app": "app",
    "load_app": "app",
}

__all__ = ["Generator", "Metrics", "Settings", "create_app", "load_app"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
