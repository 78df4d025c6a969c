"""Checkpoints of a training: all that it needs to go on, in one safetensors file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Protocol

from kael import _checks
from kael._errors import Error, ErrorCode
from kael._safetensors import SafeTensors, load_safetensors, save_safetensors
from kael._settings import RandomState, random_state, set_random_state
from kael._tensor import Tensor

Path = str | bytes | os.PathLike[Any]

# Of the tensors' names and the metadata's keys.
_VERSION_KEY, _VERSION = "kael.checkpoint", "1"
_MODEL, _OPTIMIZER = "model.", "optimizer."
_STATE_KEYS = ("optimizer", "schedule", "random_state", "progress")


class Model(Protocol):
    """What has parameters by name: a :class:`kael.GPT`, a :class:`kael.nn.Module`."""

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...


class Stateful(Protocol):
    """An optimizer or a schedule of :mod:`kael.optim`."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def save_checkpoint(
    path: Path,
    model: Model,
    optimizer: Stateful | None = None,
    schedule: Stateful | None = None,
    progress: Mapping[str, Any] | None = None,
) -> None:
    """Writes the model's parameters, what the optimizer and the schedule remember, the state of the random
    stream of :func:`kael.manual_seed`, and ``progress`` (whatever else there is to know, as JSON: the step,
    the seed of the batches) to one safetensors file. A training that goes on from it computes the same bits
    as one that was never interrupted.

    The file is written beside ``path`` and renamed over it: after an interruption or on a full disk the last
    one is whole.
    """
    tensors = {_MODEL + name: tensor for name, tensor in model.state_dict().items()}
    state: dict[str, Any] = {"random_state": random_state(), "progress": dict(progress or {})}
    if schedule is not None:
        state["schedule"] = schedule.state_dict()
    if optimizer is not None:
        remembered = optimizer.state_dict()
        state["optimizer"] = {"param_groups": remembered["param_groups"], "state": []}
        for index, parameter in enumerate(remembered["state"]):
            plain = {}
            for name, value in parameter.items():
                if isinstance(value, Tensor):
                    tensors[f"{_OPTIMIZER}{index}.{name}"] = value
                else:
                    plain[name] = value
            state["optimizer"]["state"].append(plain)
    try:
        metadata = {key: json.dumps(value, allow_nan=False) for key, value in state.items()}
    except (TypeError, ValueError) as error:
        raise Error(f"progress cannot be written as JSON: {error}") from None
    save_safetensors(path, tensors, {_VERSION_KEY: _VERSION, **metadata})


def load_checkpoint(
    path: Path,
    model: Model,
    optimizer: Stateful | None = None,
    schedule: Stateful | None = None,
) -> dict[str, Any]:
    """Sets model, optimizer, schedule and the random stream to what :func:`save_checkpoint` wrote, and
    returns ``progress``. The objects must be made like those that were saved.

    Raises :class:`kael.Error` for a file that is no checkpoint, is damaged, or does not fit; then everything
    is as it was.
    """
    name = os.fsdecode(_checks.path("path", path))
    file = load_safetensors(path)
    if file.metadata.get(_VERSION_KEY) != _VERSION:
        raise Error(
            f"{name} is no checkpoint of a training: its metadata {_VERSION_KEY!r} is not {_VERSION!r}"
        )
    try:
        return _restore(file, model, optimizer, schedule)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Error(
            f"{name} is a damaged checkpoint: {type(error).__name__}: {error}", ErrorCode.INVALID_FILE
        ) from None
    except Error as error:
        raise Error(f"{name} does not fit: {error.message}", error.code) from None


def _restore(
    file: SafeTensors, model: Model, optimizer: Stateful | None, schedule: Stateful | None
) -> dict[str, Any]:
    state = {key: json.loads(file.metadata[key]) for key in _STATE_KEYS if key in file.metadata}
    progress = _checks.mapping("progress", state["progress"])
    seed, position = state["random_state"]
    random = RandomState(
        *(_checks.integer("random_state", word, 0, _checks.UINT64_MAX) for word in (seed, position))
    )
    parts: list[tuple[Any, Any]] = []
    for key, part in (("optimizer", optimizer), ("schedule", schedule)):
        if part is not None and key not in state:
            raise Error(f"it was saved without {key}")
    if optimizer is not None:
        remembered = state["optimizer"]
        for tensor_name, tensor in file.items():
            if tensor_name.startswith(_OPTIMIZER):
                index, name = tensor_name.removeprefix(_OPTIMIZER).split(".", 1)
                remembered["state"][int(index)][name] = tensor
        parts.append((optimizer, remembered))
    if schedule is not None:
        parts.append((schedule, state["schedule"]))
    weights = {name.removeprefix(_MODEL): tensor for name, tensor in file.items() if name.startswith(_MODEL)}
    parts.append((model, weights))
    # The model comes last, for it alone has no copy to go back to: its own loading is all or nothing.
    before = [(part, part.state_dict()) for part, _ in parts[:-1]]
    try:
        for part, saved in parts:
            part.load_state_dict(saved)
    except BaseException:
        for part, former in before:
            part.load_state_dict(former)
        raise
    set_random_state(random)
    return dict(progress)
