"""Products of matrices and of more."""

from __future__ import annotations

import string
from collections.abc import Sequence

import kael
from kael import _checks
from kael._tensor import Tensor
from kael.array_api._elementwise import meeting
from kael.array_api._manipulation import _broadcast_arrays
from kael.array_api._registry import array, standard


@standard
def _matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices in the last two dimensions; those before them broadcast."""
    return kael.matmul(*meeting("matmul", array("matmul", x1), array("matmul", x2)))


@standard
def _matrix_transpose(x: Tensor, /) -> Tensor:
    """A view with the last two dimensions exchanged."""
    x = array("matrix_transpose", x)
    if x.ndim < 2:
        raise kael.Error(f"matrix_transpose: an array of shape {list(x.shape)}, expected two dimensions")
    return x.transpose(-2, -1)


@standard
def _tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products over axes of both: so many, the last ones of the first and the first ones of the
    second, or those that are listed for each.
    """
    x1, x2 = meeting("tensordot", array("tensordot", x1), array("tensordot", x2))
    if isinstance(axes, int):
        count = _checks.integer("tensordot: axes", axes, 0, min(x1.ndim, x2.ndim))
        pairs = list(zip(range(x1.ndim - count, x1.ndim), range(count), strict=True))
    else:
        first, second = axes
        if len(first) != len(second):
            raise kael.Error(f"tensordot: {len(first)} and {len(second)} axes, expected as many")
        pairs = [
            (
                _checks.integer("tensordot: an axis", one, -x1.ndim, x1.ndim - 1) % x1.ndim,
                _checks.integer("tensordot: an axis", other, -x2.ndim, x2.ndim - 1) % x2.ndim,
            )
            for one, other in zip(first, second, strict=True)
        ]
    for one, other in pairs:
        if x1.shape[one] != x2.shape[other]:
            raise kael.Error(
                f"tensordot: axis {one} of shape {list(x1.shape)} and axis {other} of shape "
                f"{list(x2.shape)}, expected equal sizes"
            )
    names = list(string.ascii_letters[: x1.ndim + x2.ndim])
    left, right = names[: x1.ndim], names[x1.ndim :]
    for one, other in pairs:
        right[other] = left[one]
    rest = [name for name in (*left, *right) if (name in left) != (name in right)]
    return kael.einsum(f"{''.join(left)},{''.join(right)}->{''.join(rest)}", x1, x2)


@standard
def _vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, counted from the end; the other axes broadcast."""
    x1, x2 = (array("vecdot", x) for x in (x1, x2))
    axis = _checks.integer("vecdot: axis", axis, -min(x1.ndim, x2.ndim), -1)
    if x1.shape[axis] != x2.shape[axis]:
        raise kael.Error(
            f"vecdot: axis {axis} of shapes {list(x1.shape)} and {list(x2.shape)}, expected equal sizes"
        )
    left, right = (x.transpose(axis, -1) for x in _broadcast_arrays(*meeting("vecdot", x1, x2)))
    return kael.einsum("...i,...i->...", left, right)
