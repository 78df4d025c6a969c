"""safetensors files (docs/formats/safetensors.md)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

from kael import _checks, _signatures
from kael._handles import Owned
from kael._library import check_status, native, text_of
from kael._tensor import Tensor, tensor

_MODES = {"copy": _signatures.LOAD_COPY, "mapped": _signatures.LOAD_MAPPED}


class SafeTensors(dict[str, Tensor]):
    """The tensors of a file by name, in the order of their data, with the file's ``metadata``."""

    __module__ = "kael"

    #: The file's own text fields.
    metadata: dict[str, str]

    def __init__(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        super().__init__(tensors)
        self.metadata = dict(metadata)


def load_safetensors(path: str | bytes | os.PathLike[Any], mode: str = "copy") -> SafeTensors:
    """The tensors of one ``.safetensors`` file, as a dict with the file's ``metadata`` as an attribute.

    ``mode="copy"`` reads the file: safe whatever happens to it later. ``mode="mapped"`` maps it read-only:
    nothing is copied, but truncating the file while a tensor lives ends the process. Raises
    :class:`kael.Error`, with code ``INVALID_FILE`` and a message that names the rule and the tensor, for a
    file that breaks the format.
    """
    _checks.choice("mode", mode, _MODES)
    file = _checks.path("path", path)
    handle = ctypes.POINTER(_signatures.TensorMapHandle)()
    check_status(native().released.kael_safetensors_load(file, len(file), _MODES[mode], ctypes.byref(handle)))
    owned = own_map(handle)
    return SafeTensors(tensors_of(owned), _metadata_of(owned))


def save_safetensors(
    path: str | bytes | os.PathLike[Any],
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes ``tensors`` (values: :class:`kael.Tensor`, NumPy arrays or nested lists) to one ``.safetensors``
    file.

    The file is written beside ``path`` and renamed over it, so that a reader, or a mapping of the old file,
    never sees half of it.
    """
    file = _checks.path("path", path)
    kept = native().kept
    handle = ctypes.POINTER(_signatures.TensorMapHandle)()
    check_status(kept.kael_tensor_map_create(ctypes.byref(handle)))
    owned = own_map(handle)
    for name, value in tensors.items():
        key = _checks.text("the name of a tensor", name)
        element = value if isinstance(value, Tensor) else tensor(value)
        check_status(kept.kael_tensor_map_add(handle, key, len(key), element._owned.pointer()))
    for name, value in (metadata or {}).items():
        key = _checks.text("a key of the metadata", name)
        text = _checks.text(f"the metadata {name!r}", value)
        check_status(kept.kael_tensor_map_add_metadata(handle, key, len(key), text, len(text)))
    check_status(native().released.kael_safetensors_save(owned.pointer(), file, len(file)))


def own_map(handle: Any) -> Owned:
    """Takes over a handle of the library to a collection of named tensors."""
    return Owned(handle, native().released.kael_tensor_map_free, "collection of tensors")


def tensors_of(owned: Owned) -> dict[str, Tensor]:
    """The tensors of a collection, by name and in its order. They outlive it."""
    kept = native().kept
    count = ctypes.c_int64()
    check_status(kept.kael_tensor_map_size(owned.pointer(), ctypes.byref(count)))
    tensors = {}
    for index in range(count.value):
        name = _signatures.TextPointer()
        length = ctypes.c_int64()
        handle = ctypes.POINTER(_signatures.TensorHandle)()
        check_status(
            kept.kael_tensor_map_get(
                owned.pointer(), index, ctypes.byref(name), ctypes.byref(length), ctypes.byref(handle)
            )
        )
        tensors[text_of(name, length.value)] = Tensor._adopt(handle)
    return tensors


def _metadata_of(owned: Owned) -> dict[str, str]:
    kept = native().kept
    count = ctypes.c_int64()
    check_status(kept.kael_tensor_map_metadata_size(owned.pointer(), ctypes.byref(count)))
    metadata = {}
    for index in range(count.value):
        key, value = _signatures.TextPointer(), _signatures.TextPointer()
        key_length, value_length = ctypes.c_int64(), ctypes.c_int64()
        check_status(
            kept.kael_tensor_map_get_metadata(
                owned.pointer(),
                index,
                ctypes.byref(key),
                ctypes.byref(key_length),
                ctypes.byref(value),
                ctypes.byref(value_length),
            )
        )
        metadata[text_of(key, key_length.value)] = text_of(value, value_length.value)
    return metadata
