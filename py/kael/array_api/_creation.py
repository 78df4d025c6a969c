"""New arrays."""

from __future__ import annotations

import math
from typing import Any

import kael
from kael import _checks
from kael._tensor import Tensor
from kael.array_api._registry import array, on_cpu, standard

Shape = int | tuple[int, ...]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


@standard
def _asarray(
    obj: Any, /, *, dtype: str | None = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """An array of numbers, nested sequences or whatever NumPy can read; of an array itself, where its dtype
    is the one wanted and no copy is asked for. Where only a copy can be made, ``copy=False`` is a
    ``ValueError``.
    """
    on_cpu("asarray", device)
    if isinstance(obj, Tensor):
        converted = obj if dtype is None else obj.to(dtype)
        if copy is False and converted.dtype != obj.dtype:
            raise ValueError(
                f"asarray: {obj.dtype} becomes {dtype} by a copy alone, expected copy not to be False"
            )
        return converted.clone() if copy and converted.dtype == obj.dtype else converted
    if copy is False:
        raise ValueError(
            f"asarray: a {type(obj).__name__} is copied, expected copy not to be False: from_dlpack shares "
            "memory"
        )
    return kael.tensor(obj, dtype=dtype)


@standard
def _from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The memory of another library's array, or with ``copy=True`` a copy of it."""
    on_cpu("from_dlpack", device)
    shared = kael.from_dlpack(x)
    return shared.clone() if copy else shared


@standard
def _arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: str | None = None,
    device: Any = None,
) -> Tensor:
    """start, start + step, ... without stop; from 0 when only one number is given."""
    on_cpu("arange", device)
    first, last = (0, start) if stop is None else (start, stop)
    if step != 0 and (last - first) / step <= 0:
        numbers_are_integers = all(isinstance(number, int) for number in (first, last, step))
        return kael.zeros(0, dtype=dtype or ("int64" if numbers_are_integers else "float32"))
    return kael.arange(first, last, step, dtype=dtype)


@standard
def _linspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    dtype: str | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` numbers at equal distances, the last of them ``stop`` unless ``endpoint`` is false."""
    on_cpu("linspace", device)
    wanted = dtype or "float32"
    if endpoint:
        return kael.linspace(start, stop, num, dtype=wanted)
    return kael.linspace(start, stop, num + 1, dtype=wanted)[:-1]


@standard
def _empty(shape: Shape, *, dtype: str | None = None, device: Any = None) -> Tensor:
    """An array whose elements nobody has promised anything of: zeros."""
    return _zeros(shape, dtype=dtype, device=device)


@standard
def _zeros(shape: Shape, *, dtype: str | None = None, device: Any = None) -> Tensor:
    """Zeros."""
    on_cpu("zeros", device)
    return kael.zeros(*_sizes(shape), dtype=dtype or "float32")


@standard
def _ones(shape: Shape, *, dtype: str | None = None, device: Any = None) -> Tensor:
    """Ones."""
    on_cpu("ones", device)
    return kael.ones(*_sizes(shape), dtype=dtype or "float32")


@standard
def _full(shape: Shape, fill_value: Any, *, dtype: str | None = None, device: Any = None) -> Tensor:
    """One number everywhere."""
    on_cpu("full", device)
    return kael.full(_sizes(shape), fill_value, dtype=dtype)


@standard
def _empty_like(x: Tensor, /, *, dtype: str | None = None, device: Any = None) -> Tensor:
    """An array of that shape whose elements nobody has promised anything of."""
    return _zeros_like(x, dtype=dtype, device=device)


@standard
def _zeros_like(x: Tensor, /, *, dtype: str | None = None, device: Any = None) -> Tensor:
    """Zeros in the shape of ``x``."""
    on_cpu("zeros_like", device)
    return kael.zeros_like(x, dtype=dtype)


@standard
def _ones_like(x: Tensor, /, *, dtype: str | None = None, device: Any = None) -> Tensor:
    """Ones in the shape of ``x``."""
    on_cpu("ones_like", device)
    return kael.ones_like(x, dtype=dtype)


@standard
def _full_like(x: Tensor, /, fill_value: Any, *, dtype: str | None = None, device: Any = None) -> Tensor:
    """One number in the shape, and the dtype, of ``x``."""
    x = array("full_like", x)
    return _full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


@standard
def _eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: str | None = None, device: Any = None
) -> Tensor:
    """Ones where the column is the row plus ``k``, else zeros."""
    on_cpu("eye", device)
    columns = n_rows if n_cols is None else n_cols
    return _diagonals(n_rows, columns, k, "eq").to(dtype or "float32")


@standard
def _tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """With zeros above the ``k``-th diagonal of the last two dimensions."""
    return _kept("tril", x, k, "le")


@standard
def _triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """With zeros below the ``k``-th diagonal of the last two dimensions."""
    return _kept("triu", x, k, "ge")


def _kept(name: str, x: Tensor, k: int, comparison: str) -> Tensor:
    x = array(name, x)
    if x.ndim < 2:
        raise kael.Error(f"{name}: an array of shape {list(x.shape)}, expected two dimensions or more")
    return kael.where(_diagonals(x.shape[-2], x.shape[-1], k, comparison), x, kael.zeros_like(x))


def _diagonals(rows: int, columns: int, k: int, comparison: str) -> Tensor:
    """How the column compares with the row plus ``k``."""
    shift = _checks.integer("k", k, -(2**62), 2**62)
    return getattr(kael, comparison)(kael.arange(columns), kael.arange(rows).unsqueeze(1) + shift)


@standard
def _meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Each vector along a dimension of its own, repeated along the others'. With ``"xy"`` the first two are
    exchanged.
    """
    _checks.choice("meshgrid: indexing", indexing, ("xy", "ij"))
    vectors = [array("meshgrid", vector).reshape(-1) for vector in arrays]
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(vectors)
    for vector, place in zip(vectors, places, strict=True):
        shape[place] = vector.shape[0]
    grids = []
    for vector, place in zip(vectors, places, strict=True):
        alone = [1] * len(vectors)
        alone[place] = vector.shape[0]
        grids.append(vector.reshape(alone).expand(shape).clone())
    return tuple(grids)


e = math.e
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi
