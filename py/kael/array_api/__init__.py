"""kael's tensors as arrays of the Python array API standard: the functions of it that kael has, under the
standard's names, with its signatures and its rules of promotion. docs/array-api.md says what is not there.

    >>> import kael.array_api as xp
    >>> xp.sum(xp.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]

An array is a :class:`kael.Tensor`. The functions say what they have of their arguments; what they refuse is a
:class:`kael.Error`, a wrong type a ``TypeError``.
"""

from kael.array_api import _creation, _elementwise, _linear_algebra, _manipulation, _reductions  # noqa: F401
from kael.array_api._creation import e, inf, nan, newaxis, pi
from kael.array_api._dtypes import boolean as bool
from kael.array_api._dtypes import complex64, complex128, float32, float64, int8, int32, int64, uint8
from kael.array_api._info import __array_namespace_info__
from kael.array_api._registry import FUNCTIONS

__array_api_version__ = "2024.12"

globals().update(FUNCTIONS)

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "bool",
    "complex64",
    "complex128",
    "e",
    "float32",
    "float64",
    "inf",
    "int8",
    "int32",
    "int64",
    "nan",
    "newaxis",
    "pi",
    "uint8",
]
__all__ += FUNCTIONS
del FUNCTIONS
