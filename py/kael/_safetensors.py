"""safetensors files (docs/formats/safetensors.md)."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from kael import _checks, _signatures, _tensor
from kael._handles import Owned
from kael._library import check_status, native, text_of
from kael._tensor import Tensor

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
    owned = map_filled_by(
        lambda out: native().released.kael_safetensors_load(file, len(file), _MODES[mode], out)
    )
    return SafeTensors(tensors_of(owned), _metadata_of(owned))


def save_safetensors(
    path: str | bytes | os.PathLike[Any],
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes ``tensors`` (values: :class:`kael.Tensor`, NumPy arrays or nested lists) to one ``.safetensors``
    file.

    The file is written beside ``path`` and renamed over it, so that a reader, or a mapping of the old file,
    never sees half of it. The new file has the permissions of the old one. A symbolic link at ``path`` is
    itself replaced: what it pointed to stays as it was.
    """
    file = _checks.path("path", path)
    kept = native().kept
    owned = map_filled_by(kept.kael_tensor_map_create)
    handle = owned.pointer()
    for name, value in _checks.mapping("tensors", tensors).items():
        key = _checks.text("the name of a tensor", name)
        element = value if isinstance(value, Tensor) else _tensor.tensor(value)
        check_status(kept.kael_tensor_map_add(handle, key, len(key), element._owned.pointer()))
    fields = {} if metadata is None else _checks.mapping("metadata", metadata)
    for name, value in fields.items():
        key = _checks.text("a key of the metadata", name)
        text = _checks.text(f"the metadata {name!r}", value)
        check_status(kept.kael_tensor_map_add_metadata(handle, key, len(key), text, len(text)))
    check_status(native().released.kael_safetensors_save(handle, file, len(file)))


def map_filled_by(call: Callable[[Any], int]) -> Owned:
    """The collection of named tensors whose handle ``call``, a function of the library, writes to the pointer
    that it is given.
    """
    handle = ctypes.POINTER(_signatures.TensorMapHandle)()
    owned = Owned(handle, native().released.kael_tensor_map_free, "collection of tensors")
    check_status(call(ctypes.byref(handle)))
    return owned


def tensors_of(owned: Owned) -> dict[str, Tensor]:
    """The tensors of a collection, by name and in its order. They outlive it."""
    kept = native().kept
    count = ctypes.c_int64()
    check_status(kept.kael_tensor_map_size(owned.pointer(), ctypes.byref(count)))
    get = kept.kael_tensor_map_get
    name, length = _signatures.TextPointer(), ctypes.c_int64()
    where = ctypes.byref(name), ctypes.byref(length)
    tensors = {}
    for index in range(count.value):
        tensor = Tensor._filled_by(functools.partial(get, owned.pointer(), index, *where))
        tensors[text_of(name, length.value)] = tensor
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
