"""Tensors: a handle to memory of the library, seen from NumPy without a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from kael import _checks, _signatures
from kael._errors import Error, ErrorCode
from kael._handles import NotCopied, Owned, filled
from kael._library import answered_text, check_status, native

_NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
_ITEM_SIZES = {"bfloat16": 2, **{name: dtype.itemsize for name, dtype in _NUMPY_TYPES.items()}}


# PyBUF_WRITABLE.
_WRITABLE = 1

# Below it, float64 holds every integer.
_EVERY_INTEGER_BELOW = 2.0**53

_HandlePointer = ctypes.POINTER(_signatures.TensorHandle)


if TYPE_CHECKING:
    from kael._tensor_operators import TensorOperators
else:
    TensorOperators = object  # the operators are attached when they are defined


class Tensor(NotCopied, TensorOperators):
    """An n-dimensional array in the memory of the library. Made by :func:`kael.tensor`, by loading a file, by
    a model.

    Any number of threads may read a tensor at the same time.
    """

    __module__ = "kael"
    __slots__ = ("_dtype", "_info", "_owned")
    # Two tensors are never the same dictionary key: == compares their elements.
    __hash__ = object.__hash__
    # NumPy leaves `array + tensor` to the tensor, which says what is wrong with it.
    __array_priority__ = 1000
    _instead = "; clone() copies it, kael.save_safetensors keeps it"
    _dtype: str
    _info: Any
    _owned: Owned

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("kael.Tensor has no constructor: use kael.tensor(data)")

    @classmethod
    def _filled_by(cls, call: Callable[[Any], int]) -> Tensor:
        """The tensor whose handle ``call``, a function of the library, writes to the pointer that it is
        given.
        """
        (tensor,) = cls._filled(1, call)
        return tensor

    @classmethod
    def _filled(cls, count: int, call: Callable[[Any], int]) -> list[Tensor]:
        """The tensors whose handles ``call`` writes to the ``count`` pointers that it is given."""
        return cast(list[Tensor], cls._filled_or_none(count, call))

    @classmethod
    def _filled_or_none(cls, count: int, call: Callable[[Any], int]) -> list[Tensor | None]:
        """The same, with None for a pointer that ``call`` leaves empty."""
        free = native().released.kael_tensor_free
        owned = filled(_HandlePointer, count, free, "tensor", lambda handles: check_status(call(handles)))
        return [None if one is None else cls._of(one) for one in owned]

    @classmethod
    def _of(cls, owned: Owned) -> Tensor:
        tensor = object.__new__(cls)
        tensor._owned = owned
        tensor._info = tensor._described()
        tensor._dtype = _signatures.DTYPES[tensor._info.dtype]
        return tensor

    # -- What it is

    @property
    def dtype(self) -> str:
        """The type of an element, by name: ``"float32"``, ``"bfloat16"``, ``"int64"``, ..."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return tuple(self._info.shape[: self._info.rank])

    @property
    def strides(self) -> tuple[int, ...]:
        """For each dimension, how many elements lie between neighbours (NumPy counts bytes)."""
        return tuple(self._info.strides[: self._info.rank])

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return int(self._info.rank)

    @property
    def nbytes(self) -> int:
        """Elements times the size of one."""
        return int(self._info.byte_count)

    @property
    def is_read_only(self) -> bool:
        """True for memory that belongs to a mapped file."""
        return bool(self._described().is_read_only)

    def numel(self) -> int:
        """How many elements there are."""
        return int(self._info.element_count)

    def is_contiguous(self) -> bool:
        """True for row-major elements without gaps."""
        return bool(self._info.is_contiguous)

    def view(self, *shape: Any) -> Tensor:
        """The same memory with another shape of as many elements; one dimension may be -1. A layout that
        would need a copy is an :class:`kael.Error`.
        """
        sizes = [
            _checks.integer("a dimension", size, -1, _checks.INT64_MAX) for size in _checks.unpacked(shape)
        ]
        if len(sizes) > _signatures.MAX_RANK:
            raise Error(f"a shape of {len(sizes)} dimensions, expected at most {_signatures.MAX_RANK}")
        array = (ctypes.c_int64 * _signatures.MAX_RANK)(*sizes)
        return Tensor._filled_by(
            lambda out: native().kept.kael_tensor_view(self._owned.pointer(), array, len(sizes), out)
        )

    # -- Gradients

    @property
    def requires_grad(self) -> bool:
        """Whether operators on the tensor are recorded, so that gradients of it can be had. May be set, of
        tensors of floats; the result of a recorded operator keeps it.
        """
        return self._gradient_state()[0]

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Sets :attr:`requires_grad`."""
        wanted = _checks.flag("requires_grad", requires_grad)
        check_status(native().kept.kael_tensor_set_requires_grad(self._owned.pointer(), wanted))
        return self

    @property
    def is_leaf(self) -> bool:
        """True unless a recorded operator made the tensor. Gradients add up in the ``grad`` of leaves."""
        return self._gradient_state()[1]

    def _made_by(self) -> str:
        """The name of the recorded operator that made the tensor; empty for a leaf."""
        pointer = self._owned.pointer()
        return answered_text(lambda *out: native().kept.kael_tensor_grad_fn(pointer, *out))

    def _gradient_state(self) -> tuple[bool, bool]:
        requires_grad, is_leaf = ctypes.c_uint8(), ctypes.c_uint8()
        check_status(
            native().kept.kael_tensor_gradient_state(
                self._owned.pointer(), ctypes.byref(requires_grad), ctypes.byref(is_leaf)
            )
        )
        return bool(requires_grad), bool(is_leaf)

    @property
    def grad(self) -> Tensor | None:
        """What backward passes have added up; None before the first. May be set, to None too."""
        (gradient,) = Tensor._filled_or_none(
            1, lambda out: native().kept.kael_tensor_grad(self._owned.pointer(), out)
        )
        return gradient

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"grad must be a kael.Tensor or None, not {type(gradient).__name__}")
        pointer = None if gradient is None else gradient._owned.pointer()
        check_status(native().kept.kael_tensor_set_grad(self._owned.pointer(), pointer))

    def detach(self) -> Tensor:
        """The same memory without a record of how it was computed; in-place writes are seen on both sides."""
        return Tensor._filled_by(lambda out: native().kept.kael_tensor_detach(self._owned.pointer(), out))

    # -- As NumPy and Python see it

    def numpy(self) -> np.ndarray:
        """The same memory as a NumPy array: no copy, and the array keeps it alive. Memory of a mapped file is
        read-only. Of a tensor that requires a gradient it is an :class:`kael.Error`, since what NumPy writes
        is not recorded: use ``t.detach().numpy()``.

        NumPy has no bfloat16: such a tensor is an :class:`kael.Error`; ``t.float().numpy()`` widens it
        exactly.
        """
        if self.requires_grad:
            raise Error(
                "numpy() of a tensor that requires a gradient, expected one that does not: "
                "use t.detach().numpy()"
            )
        return self._array()

    def _array(self) -> np.ndarray:
        if self._dtype not in _NUMPY_TYPES:
            raise Error(
                f"NumPy has no {self._dtype}, expected another dtype: use t.float().numpy(), which widens it "
                "exactly",
                ErrorCode.UNSUPPORTED,
            )
        return self._view(_NUMPY_TYPES[self._dtype])

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number for a tensor without dimensions."""
        return self._readable().tolist()

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self.numel() != 1:
            raise Error(f"item() of a tensor of shape {list(self.shape)}, expected one element")
        return self._readable().item()

    def _readable(self) -> np.ndarray:
        if self._dtype == "bfloat16":
            return _widen_bfloat16(self._view(np.dtype(np.uint16)))
        return self._array()

    def _described(self) -> Any:
        """What the library says of the tensor now: its memory may have moved (:meth:`kael.GPT.train`)."""
        info = _signatures.sized(_signatures.TensorInfo)
        check_status(native().kept.kael_tensor_describe(self._owned.pointer(), ctypes.byref(info)))
        return info

    def _view(self, dtype: np.dtype[Any]) -> np.ndarray:
        info = self._described()
        if self.numel() == 0:
            empty = np.empty(self.shape, dtype)
            empty.flags.writeable = not info.is_read_only
            return empty
        return np.asarray(_Memory(self._owned, info, dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        if copy is False and wanted != array.dtype:
            raise ValueError(
                f"a tensor of {self._dtype} becomes {wanted} by a copy alone, expected copy not to be False"
            )
        return array.astype(wanted, copy=bool(copy))

    def __buffer__(self, flags: int) -> memoryview:
        """The same memory, for ``memoryview(t)`` and whatever takes buffers, from Python 3.12 on; before, as
        ``memoryview(t.numpy())``.
        """
        if flags & _WRITABLE and self.is_read_only:
            raise BufferError(
                "a buffer to write to, of a tensor in read-only memory, expected memory that may be written"
            )
        return memoryview(cast(Any, self.numpy()))

    def __bytes__(self) -> bytes:
        """The bytes of the elements in row-major order."""
        array = self._view(np.dtype(np.uint16)) if self._dtype == "bfloat16" else self._array()
        return array.tobytes()

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a tensor without dimensions, expected one or more")
        return self.shape[0]

    def __repr__(self) -> str:
        if self._dtype == "bfloat16":
            bits = self._view(np.dtype(np.uint16))
            formatter: Any = {"int": lambda value: f"{float(_widen_bfloat16(np.uint16(value))):.6g}"}
            elements = np.array2string(bits, separator=", ", prefix="tensor(", formatter=formatter)
        else:
            elements = np.array2string(self._array(), separator=", ", prefix="tensor(", precision=4)
        made_by = self._made_by()
        history = f", grad_fn={made_by}" if made_by else ", requires_grad=True" if self.requires_grad else ""
        return f"tensor({elements}, shape={list(self.shape)}, dtype={self._dtype}{history})"


class _Memory:
    """What NumPy asks for an array over foreign memory. The array keeps this object, which keeps the tensor's
    handle.
    """

    __slots__ = ("__array_interface__", "_owned")

    def __init__(self, owned: Owned, info: Any, dtype: np.dtype[Any]) -> None:
        owned.pointer()
        self._owned = owned
        self.__array_interface__ = {
            "version": 3,
            "data": (info.data, bool(info.is_read_only)),
            "typestr": dtype.str,
            "shape": tuple(info.shape[: info.rank]),
            "strides": tuple(stride * dtype.itemsize for stride in info.strides[: info.rank]),
        }


def tensor(data: Any, dtype: str | None = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of ``data``: numbers, nested lists, a NumPy array or whatever NumPy can read.
    With ``requires_grad`` operators on it are recorded (:attr:`Tensor.requires_grad`).

    Without ``dtype`` an array keeps its own, Python floats become ``float32``, ints ``int64``, bools
    ``bool``. With it the values are converted: to a float type they are rounded to the nearest, to an integer
    type or bool each must be exactly representable. Raises :class:`kael.Error` for what does not fit,
    ``TypeError`` for what is no number.
    """
    if dtype is not None:
        if not isinstance(dtype, str):
            raise TypeError(f"dtype must be a str, not {type(dtype).__name__}")
        if dtype not in _ITEM_SIZES:
            raise Error(f"dtype is {dtype!r}, expected one of {', '.join(_signatures.DTYPES)}")
    if isinstance(data, Tensor):
        data, dtype = data._readable(), dtype or data.dtype
    _refuse_too_deep(data)
    has_own_type = hasattr(data, "__array__") or hasattr(data, "__array_interface__")
    try:
        array = np.asarray(data)
    except ValueError:
        raise Error("the rows of the data have different lengths, expected equal ones") from None
    if not has_own_type and array.dtype == np.float64:
        array = _whole_numbers_kept(array, data, dtype)
    array = _checks.of_int64s("the data", array)
    if dtype is None:
        dtype = _natural_dtype(array, has_own_type)
    made = _rounded_to_bfloat16(array) if dtype == "bfloat16" else _from_array(_convert(array, dtype), dtype)
    return made.requires_grad_() if _checks.flag("requires_grad", requires_grad) else made


def _refuse_too_deep(data: Any) -> None:
    """Lists that contain themselves would keep NumPy busy for ever."""
    for _ in range(_signatures.MAX_RANK + 1):
        if not isinstance(data, (list, tuple)) or not data:
            return
        data = data[0]
    raise Error(
        f"the data has more than {_signatures.MAX_RANK} dimensions, or contains itself, expected at most "
        f"{_signatures.MAX_RANK}"
    )


def _natural_dtype(array: np.ndarray, has_own_type: bool) -> str:
    if not has_own_type and array.dtype == np.float64:
        return "float32"
    if array.dtype.name in _NUMPY_TYPES:
        return array.dtype.name
    _refuse_no_numbers(array)
    raise Error(
        f"there is no tensor of {array.dtype.name}, expected another dtype: name one of "
        f"{', '.join(_signatures.DTYPES)}"
    )


def _refuse_no_numbers(array: np.ndarray) -> None:
    if array.dtype.kind not in "biuf":
        raise TypeError(f"the data must be numbers, not {array.dtype.name}")


def _whole_numbers_kept(array: np.ndarray, data: Any, dtype: str | None) -> np.ndarray:
    """``array``, which NumPy has made float64 of lists, or what it was made of where that would lose digits
    of a whole number: it is float64 also for integers that no integer type holds together.
    """
    wanted = dtype or "int64"
    if _NUMPY_TYPES.get(wanted, array.dtype).kind == "f" or not np.any(np.abs(array) >= _EVERY_INTEGER_BELOW):
        return array
    items = np.asarray(data, dtype=object)
    whole = [isinstance(item, (int, np.integer)) for item in items.flat]
    if all(whole):
        return items
    if dtype is None:
        return array
    if not all(
        is_whole or float(item).is_integer() for item, is_whole in zip(items.flat, whole, strict=True)
    ):
        _refuse_not_representable(dtype)
    return np.array([int(item) for item in items.flat], dtype=object).reshape(items.shape)


def _refuse_not_representable(dtype: str) -> NoReturn:
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    raise Error(
        f"the data holds a value that {dtype} cannot represent, expected integers from {low} to {high}"
    )


def _convert(array: np.ndarray, dtype: str) -> np.ndarray:
    """In the NumPy type of ``dtype``."""
    _refuse_no_numbers(array)
    wanted = _NUMPY_TYPES[dtype]
    with np.errstate(all="ignore"):
        converted = array.astype(wanted)
        if wanted.kind in "biu" and not np.array_equal(converted, array):
            _refuse_not_representable(dtype)
    return converted


def _rounded_to_bfloat16(array: np.ndarray) -> Tensor:
    """NumPy lacks the type, and a way over float32 would round twice: the library converts."""
    dtype = array.dtype.name
    if dtype not in _NUMPY_TYPES:
        dtype = "int64" if np.can_cast(array.dtype, np.int64) else "float64"
    return _from_array(_convert(array, dtype), dtype).to("bfloat16")


def _from_array(array: np.ndarray, dtype: str) -> Tensor:
    rank = array.ndim
    if rank > _signatures.MAX_RANK:
        raise Error(f"the data has {rank} dimensions, expected at most {_signatures.MAX_RANK}")
    array = np.ascontiguousarray(array)
    shape = (ctypes.c_int64 * _signatures.MAX_RANK)(*array.shape)
    return Tensor._filled_by(
        lambda out: native().released.kael_tensor_from_bytes(
            _signatures.DTYPES.index(dtype), shape, rank, array.ctypes.data, array.nbytes, out
        )
    )


def _widen_bfloat16(bits: Any) -> np.ndarray:
    return (np.asarray(bits, dtype=np.uint32) << np.uint32(16)).view(np.float32)
