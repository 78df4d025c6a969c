"""PyTorch as an oracle: a test that asks for something of it is skipped where it is not installed."""

from __future__ import annotations

from typing import Any

import pytest


class _Missing:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # pytest looks at what a module holds
            raise AttributeError(name)
        pytest.skip("PyTorch, the oracle of this test, is not installed")


try:
    import torch
except ImportError:
    torch = _Missing()

__all__ = ["torch"]
