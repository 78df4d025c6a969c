"""The operators as functions, under the names that the package exports."""

# Each adds its own to FUNCTIONS, and methods to Tensor.
from kael import _array_protocol, _creation, _indexing, _layers, _rearranging, _reductions  # noqa: F401
from kael._operators import FUNCTIONS

globals().update(FUNCTIONS)

__all__ = list(FUNCTIONS)
