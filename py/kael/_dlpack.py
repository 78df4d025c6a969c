"""Tensors that other libraries see without a copy, and theirs as tensors: the DLPack protocol, version 1."""

from __future__ import annotations

import ctypes
import threading
from ctypes import PYFUNCTYPE, c_char_p, c_int, c_void_p, py_object
from typing import Any

from kael import _checks, _signatures
from kael._errors import Error, ErrorCode
from kael._immortal import immortal
from kael._library import check_status, native
from kael._operators import method
from kael._tensor import Tensor

_CPU = (1, 0)
_VERSION = (1, 0)

# Objects of our own: other packages may have set the types of those of ctypes.pythonapi.
_new_capsule = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_name_of = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_rename = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_pointer_of = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))

# A capsule refers to its name, and may be the last object of the process to go.
_NAMES = {True: immortal(b"dltensor_versioned"), False: immortal(b"dltensor")}
_USED = {name: immortal(b"used_" + name) for name in _NAMES.values()}

# Held while a capsule is looked at and renamed, so that two threads cannot both consume it.
_consuming = threading.Lock()

_CapsuleType = type(_new_capsule(1, _NAMES[True], None))


def from_dlpack(x: Any) -> Tensor:
    """The memory of another library's tensor or array on the CPU as a tensor, without a copy: writes are seen
    on both sides, and the memory stays as long as a tensor uses it. Of read-only memory a read-only tensor.
    ``x`` has ``__dlpack__`` and ``__dlpack_device__``, or is a capsule that such a method has made, which is
    consumed.

    Raises :class:`kael.Error` for memory of another device, elements that tensors do not have, negative
    strides, and a capsule that was consumed before.
    """
    capsule = x if isinstance(x, _CapsuleType) else _ask(x)
    with _consuming:
        name = _name_of(capsule)
        if name not in _USED:
            said = "was consumed before" if name in _USED.values() else f"is named {name!r}"
            raise Error(f"from_dlpack: the capsule {said}, expected one named dltensor or dltensor_versioned")
        pointer = _pointer_of(capsule, name)
        # From here on the memory is ours: an interrupt may lose it, but nobody gives it back twice.
        _rename(capsule, _USED[name])
    return Tensor._filled_by(
        lambda out: native().kept.kael_tensor_from_dlpack(pointer, name == _NAMES[True], out)
    )


def _ask(x: Any) -> Any:
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack: argument 1 is {type(x).__name__}, expected an object with __dlpack__ and "
            "__dlpack_device__"
        )
    device = x.__dlpack_device__()
    if tuple(device) != _CPU:
        raise Error(
            f"from_dlpack: memory of the device {tuple(map(int, device))}, expected {_CPU}, the CPU",
            ErrorCode.UNSUPPORTED,
        )
    try:
        capsule = x.__dlpack__(max_version=_VERSION)
    except TypeError:  # from before version 1
        capsule = x.__dlpack__()
    if not isinstance(capsule, _CapsuleType):
        raise TypeError(f"from_dlpack: __dlpack__ has answered {type(capsule).__name__}, expected a capsule")
    return capsule


@method
def __dlpack__(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule with the tensor's memory for another library, which calls this: without a copy unless
    ``copy`` is true. For a consumer that knows version 1 (``max_version``) the capsule says whether the
    memory is read-only, else read-only memory is a ``BufferError``; so is a tensor that requires a gradient,
    since what others write is not recorded, and another device.
    """
    if stream is not None:
        raise Error(f"__dlpack__: stream is {stream!r}, expected None: memory of the CPU has no streams")
    if dl_device is not None and tuple(dl_device) != _CPU:
        raise BufferError(f"__dlpack__: dl_device is {tuple(dl_device)}, expected {_CPU}, the CPU")
    if self.requires_grad:
        raise BufferError(
            "__dlpack__ of a tensor that requires a gradient, expected one that does not: share t.detach()"
        )
    copies = copy is not None and _checks.flag("__dlpack__: copy", copy)
    versioned = max_version is not None and tuple(max_version) >= _VERSION
    tensor = self.clone() if copies else self
    if tensor.is_read_only and not versioned:
        raise BufferError(
            "__dlpack__ of read-only memory, for a consumer that cannot see it, expected memory that may be "
            "written: share a copy"
        )
    functions = native().kept
    functions.kael_dlpack_set_capsule_functions(_is_valid, _pointer)
    managed = c_void_p()
    handle = tensor._owned.pointer()
    check_status(functions.kael_tensor_to_dlpack(handle, versioned, copies, ctypes.byref(managed)))
    return _new_capsule(managed, _NAMES[versioned], ctypes.cast(functions.kael_dlpack_end_capsule, c_void_p))


# What the library calls when a capsule ends: no Python runs then, for the interpreter may be ending too.
_is_valid = ctypes.cast(ctypes.pythonapi.PyCapsule_IsValid, _signatures.CapsuleIsValid)
_pointer = ctypes.cast(ctypes.pythonapi.PyCapsule_GetPointer, _signatures.CapsulePointer)


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """The CPU, as DLPack counts devices."""
    return _CPU
