"""GPT-2: configuration, weights, logits and generation."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

import numpy as np

from kael import _checks, _generation, _signatures
from kael._errors import Error, ErrorCode
from kael._generation import Generation
from kael._handles import NotCopied, Owned
from kael._library import check_status, native
from kael._logprobs import Logprobs
from kael._pretrained import save_pretrained
from kael._ring import TokenRing
from kael._safetensors import map_filled_by, tensors_of
from kael._sampling import Sampling
from kael._state import copy_state
from kael._tensor import Tensor

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class GPTConfig:
    """The architecture of a model. The defaults are GPT-2 small (124M)."""

    vocab_size: int = 50257
    max_positions: int = 1024
    layers: int = 12
    heads: int = 12
    dimension: int = 768
    inner_dimension: int = 0  #: width of the MLP; 0 means 4 * dimension
    layer_norm_epsilon: float = 1e-5
    activation: str = "gelu_tanh"  #: or "gelu_erf", "relu"
    scale_attention: bool = True  #: by 1 / sqrt(dimension / heads)
    scale_attention_by_inverse_layer: bool = False  #: and by 1 / (layer + 1)
    tie_word_embeddings: bool = True  #: the head is the token embedding

    @property
    def mlp_dimension(self) -> int:
        """The width of the MLP."""
        return self.inner_dimension or 4 * self.dimension


GPTConfig.__module__ = "kael"


class GPT(NotCopied):
    """A GPT-2 model.

    One call at a time: a second thread that calls the same model waits for the first. A call from
    ``on_token`` into the model that is generating is a :class:`kael.Error`. A model cannot be used in a child
    made by ``fork``. It is a context manager; :meth:`close` frees the weights at once, else they go with the
    last reference.
    """

    __module__ = "kael"
    _instead = "; save_pretrained keeps it, kael.GPT.from_pretrained reads that"

    _lock: threading.Lock  # held by the thread that uses the handle
    _user: int | None  # that thread
    _running: _generation.Running
    _dtype: str

    def __init__(
        self,
        vocab_size: int = 50257,
        max_positions: int = 1024,
        layers: int = 12,
        heads: int = 12,
        dimension: int = 768,
        *,
        inner_dimension: int = 0,
        layer_norm_epsilon: float = 1e-5,
        activation: str = "gelu_tanh",
        scale_attention: bool = True,
        scale_attention_by_inverse_layer: bool = False,
        tie_word_embeddings: bool = True,
        dropout: float = 0.0,
    ) -> None:
        """A model with random weights (normal, 0.02; GPT-2's scheme) from the stream of
        :func:`kael.manual_seed`. In training mode.

        The arguments are those of :class:`kael.GPTConfig`, GPT-2 small by default, and :attr:`dropout`.
        """

        def size(name: str, value: Any) -> int:
            return _checks.integer(name, value, -_checks.INT64_MAX, _checks.INT64_MAX)

        config = _signatures.sized(_signatures.GptConfig)
        native().kept.kael_gpt_config_default(ctypes.byref(config))
        config.vocab_size = size("vocab_size", vocab_size)
        config.max_positions = size("max_positions", max_positions)
        config.layers = size("layers", layers)
        config.heads = size("heads", heads)
        config.dimension = size("dimension", dimension)
        config.inner_dimension = size("inner_dimension", inner_dimension)
        config.layer_norm_epsilon = _checks.number("layer_norm_epsilon", layer_norm_epsilon)
        config.activation = _signatures.ACTIVATIONS.index(
            _checks.choice("activation", activation, _signatures.ACTIVATIONS)
        )
        config.scale_attention = _checks.flag("scale_attention", scale_attention)
        config.scale_attention_by_inverse_layer = _checks.flag(
            "scale_attention_by_inverse_layer", scale_attention_by_inverse_layer
        )
        config.tie_word_embeddings = _checks.flag("tie_word_embeddings", tie_word_embeddings)
        self._fill(lambda out: native().released.kael_gpt_create(ctypes.byref(config), out))
        self.dropout = dropout

    @classmethod
    def from_pretrained(
        cls, folder: str | bytes | os.PathLike[Any], device: str = "cpu", dtype: str = "float32"
    ) -> GPT:
        """The model in ``folder``: ``model.safetensors`` (or its index and shards) and, where there is one,
        ``config.json``; GPT-2 small without it. In evaluation mode.

        ``dtype`` is what its matrices are kept and multiplied in. With "float32" float32 weights stay mapped:
        loading reads nothing, but truncating the file while the model lives ends the process; float16 and
        bfloat16 weights are widened. "bfloat16", "int8" and "int4" are for inference: loading reads and packs
        all weights, in a half, a quarter and a seventh of the memory, which generates text about twice, four
        and six times as fast; "int4" predicts text noticeably worse; parameters can be neither read, saved
        nor trained. Nothing is downloaded: ``folder`` is a path, not the name of a model. Raises
        :class:`kael.Error` that names a tensor which is missing, surplus or of another shape than the
        configuration says.
        """
        _checks.device(device)
        formats = _signatures.WEIGHT_FORMATS
        if not isinstance(dtype, str):
            raise TypeError(f"dtype must be a str, not {type(dtype).__name__}")
        if dtype not in formats:
            expected = ", ".join(map(repr, formats[:-1])) + f" or {formats[-1]!r}"
            raise Error(f"a model cannot compute in {dtype!r}, expected {expected}", ErrorCode.UNSUPPORTED)
        path = _checks.folder("folder", folder)
        self = cls.__new__(cls)
        self._fill(lambda out: native().released.kael_gpt_load(path, len(path), formats.index(dtype), out))
        self._dtype = dtype
        return self.eval()

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A closed model: what there is when a constructor fails early."""
        self = super().__new__(cls)
        self._owned = Owned.closed("model")
        self._lock = threading.Lock()
        self._user = None
        self._running = _generation.Running()
        self._dropout = 0.0
        self._training = True
        self._dtype = "float32"
        return self

    def _fill(self, call: Callable[[Any], int]) -> None:
        """Takes the handle that ``call``, a function of the library, writes to the pointer that it is
        given.
        """
        handle = ctypes.POINTER(_signatures.GptHandle)()
        self._owned = Owned(handle, native().released.kael_gpt_free, "model")
        check_status(call(ctypes.byref(handle)))
        self._known = _config_of(handle), _parameter_count_of(handle)

    def load_gpt2(self, path: str | bytes | os.PathLike[Any]) -> None:
        """Replaces the weights by those of one ``.safetensors`` file, under the configuration that the model
        has.
        """
        file = _checks.path("path", path)
        self._exclusively(
            lambda handle: check_status(native().released.kael_gpt_load_weights(handle, file, len(file)))
        )

    @property
    def config(self) -> GPTConfig:
        """The architecture, with the width of the MLP spelt out in ``inner_dimension``."""
        return self._facts()[0]

    @property
    def dtype(self) -> str:
        """What the matrices are kept and multiplied in: "float32", "bfloat16", "int8" or "int4"."""
        return self._dtype

    @property
    def parameter_count(self) -> int:
        """How many parameters there are; a tied head counts once."""
        return self._facts()[1]

    @property
    def dropout(self) -> float:
        """The probability, from 0 to below 1, at which a pass in training mode sets an element of the
        embeddings, and of what attention and MLP add to them, to 0; the others grow by 1 / (1 - dropout).
        GPT-2 calls these ``embd_pdrop`` and ``resid_pdrop``; its attention weights never drop out here. 0 for
        every model that was loaded: what a ``config.json`` says was that of another training.
        """
        return self._dropout

    @dropout.setter
    def dropout(self, share: float) -> None:
        number = float(_checks.number("dropout", share))
        self._drop(number)  # which refuses what is no share
        self._dropout = number
        if not self._training:
            self._drop(0.0)

    @property
    def training(self) -> bool:
        """Whether the model is in training mode, where :attr:`dropout` counts."""
        return self._training

    def _drop(self, share: float) -> None:
        self._exclusively(lambda model: check_status(native().kept.kael_gpt_set_dropout(model, share)))

    def _facts(self) -> tuple[GPTConfig, int]:
        """Configuration and number of parameters, which another thread may ask for during a generation, and
        in the middle of a :meth:`close`: they never touch the handle.
        """
        self._owned.refuse_after_fork()
        self._owned.pointer()
        return self._known

    def named_parameters(self) -> dict[str, Tensor]:
        """The model's own tensors under their names in GPT-2's files, a tied head once. They may require
        gradients, and what is written into them is what the model computes with; those of a mapped file are
        read-only before :meth:`train`. Where they can be written, now or later, :meth:`generate` reuses no
        prefix from now on.
        """
        parameters = native().kept.kael_gpt_parameters
        return self._exclusively(lambda model: tensors_of(map_filled_by(lambda out: parameters(model, out))))

    def parameters(self) -> list[Tensor]:
        """The tensors of :meth:`named_parameters`."""
        return list(self.named_parameters().values())

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors of :meth:`named_parameters` without their record: :func:`kael.save_safetensors` takes
        it. They share the model's memory.
        """
        return {name: tensor.detach() for name, tensor in self.named_parameters().items()}

    def load_state_dict(self, state: Mapping[str, Tensor], strict: bool = True) -> None:
        """Copies values into the parameters, which become writable as by :meth:`train`. With ``strict`` both
        must have the same names; shapes must always be the same. Nothing is changed when something does not
        fit.
        """
        self._make_writable()
        copy_state(self.named_parameters(), state, strict)

    def save_pretrained(
        self,
        folder: str | bytes | os.PathLike[Any],
        dtype: str = "float32",
        end_of_text: int | None = None,
    ) -> None:
        """Writes ``config.json`` and ``model.safetensors`` to ``folder``, which is made where it is missing:
        what :meth:`from_pretrained` and Hugging Face's ``GPT2LMHeadModel`` read. ``dtype`` is float32,
        float16 or bfloat16; ``end_of_text`` the token id that ends a text, for the configuration. The
        tokenizer's files are not written.
        """
        save_pretrained(self, folder, dtype, end_of_text)

    def train(self, mode: bool = True) -> GPT:
        """Training mode, where :attr:`dropout` counts, or evaluation mode. Training mode makes the parameters
        writable: those of a mapped file are copied to memory. Returns the model.
        """
        wanted = _checks.flag("mode", mode)
        if wanted:
            self._make_writable()
        self._drop(self._dropout if wanted else 0.0)
        self._training = bool(wanted)
        return self

    def eval(self) -> GPT:
        """Evaluation mode: nothing drops out. Returns the model."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> GPT:
        """Says of every parameter whether it needs a gradient: a new or loaded model's need none. Returns the
        model.
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def _make_writable(self) -> None:
        self._exclusively(
            lambda model: check_status(native().released.kael_gpt_make_parameters_writable(model))
        )

    def __call__(self, ids: Any) -> Tensor:
        """Logits of the next token at every position, float32. Recorded for gradients, and slower, where a
        parameter requires them. In training mode with :attr:`dropout` a pass draws from the stream of
        :func:`kael.manual_seed`; generations and :meth:`activations` drop nothing.

        ``ids`` of shape [T] (a list, an array or an int64 tensor) give [T, V], ids [B, T] give [B, T, V].
        Raises :class:`kael.Error` for an id outside the vocabulary and for T of 0 or above ``max_positions``.
        """
        array = _checks.token_ids("ids", ids, ranks=(1, 2))
        batch = array.shape[0] if array.ndim == 2 else 1
        logits = native().released.kael_gpt_logits
        result = self._exclusively(
            lambda model: Tensor._filled_by(
                lambda out: logits(model, _int64s(array), batch, array.shape[-1], out)
            )
        )
        return result if array.ndim == 2 else result.view(*result.shape[1:])

    def activations(self, ids: Any) -> dict[str, Tensor]:
        """Every intermediate result of one forward pass over ``ids`` [T], by name and in order of computation
        (docs/activations.md). The values are those that ``model(ids)`` computes with, to the bit.
        """
        array = _checks.token_ids("ids", ids)
        activations = native().released.kael_gpt_activations
        return self._exclusively(
            lambda model: tensors_of(
                map_filled_by(lambda out: activations(model, _int64s(array), len(array), out))
            )
        )

    def generate(
        self,
        ids: Any,
        max_tokens: int,
        temperature: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        stop_tokens: Iterable[int] = (),
        on_token: Callable[[int], object] | None = None,
        *,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Mapping[int, float] | None = None,
        logprobs: Logprobs | None = None,
        use_cache: bool = True,
        reuse_prefix: bool = True,
        speculate: int = 0,
    ) -> list[int]:
        """Continues the prompt ``ids`` (at least one id) by at most ``max_tokens`` tokens and returns the new
        ones.

        ``temperature`` 0 takes the most likely token, ties to the lowest id; else it is at least 0.001, and a
        token is drawn from the ``top_k`` most likely ones (0, or the vocabulary's size and more: from all),
        of those from the fewest whose probabilities sum to ``top_p``, and of those from the ones at least
        ``min_p`` times as likely as the most likely.

        Before that, with temperature 0 too, ``logit_bias`` (id to number) is added to the logits; those of
        tokens that stand in the prompt or were generated are divided by ``repetition_penalty``, or
        multiplied with it where they are negative; and from those of generated tokens ``presence_penalty``
        is taken once and ``frequency_penalty`` as often as they were generated.

        ``seed=None`` draws a seed from the stream of :func:`kael.manual_seed`; the same prompt, options and
        seed give the same tokens, for any number of threads. ``logprobs``, a :class:`kael.Logprobs`, takes
        the model's log probabilities of each token. One of ``stop_tokens`` ends the generation and is the
        last token returned; nothing else does, not even ``<|endoftext|>``. Past ``max_positions`` the window
        slides. ``use_cache=False`` gives the same tokens, slowly.

        Where the prompt begins as the ids of the last call did, its prompt and its new tokens, what was
        computed for these is kept, and the answer comes sooner, the same to the bit. ``reuse_prefix=False``
        computes everything anew: how long an answer takes tells nothing of earlier prompts then. Nothing is
        kept for :class:`kael.Logprobs` of the prompt; and nothing at all once a parameter that can be written
        was handed out (:meth:`named_parameters`, :meth:`load_state_dict`), since it may have changed.

        ``speculate``, up to 64, is how many tokens may be guessed from what followed earlier where the text
        was the same as at its end, and tried in one pass: the same tokens to the bit, sooner where the text
        repeats itself. 0 guesses none.

        ``on_token`` is called with each new token, on this thread. It continues with None or anything true,
        stops with anything false, and an exception in it, KeyboardInterrupt too, leaves ``generate``
        unchanged. The interpreter lock (GIL) is free except while ``on_token`` runs.
        """
        if on_token is not None and not callable(on_token):
            raise TypeError(f"on_token must be callable, not {type(on_token).__name__}")
        request = _generation.Request(
            ids,
            max_tokens,
            Sampling(
                logit_bias={} if logit_bias is None else logit_bias,
                repetition_penalty=repetition_penalty,
                presence_penalty=presence_penalty,
                frequency_penalty=frequency_penalty,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
            ),
            seed,
            stop_tokens,
            logprobs,
            use_cache,
            reuse_prefix,
            speculate,
        )
        return self._generate(request, on_token).tokens

    def generate_into(
        self,
        ring: TokenRing,
        ids: Any,
        max_tokens: int,
        temperature: float = 1.0,
        top_k: int = 0,
        seed: int | None = None,
        stop_tokens: Iterable[int] = (),
        *,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Mapping[int, float] | None = None,
        logprobs: Logprobs | None = None,
        use_cache: bool = True,
        reuse_prefix: bool = True,
        speculate: int = 0,
    ) -> Generation:
        """As :meth:`generate`, with each token going to ``ring``, and no Python at all on this thread until
        the end.

        Does not call ``ring.finish()``: that is the caller's, whatever happens here, when the other side may
        see the end. ``ring.stop()`` ends the generation, which then returns what it has.
        """
        if not isinstance(ring, TokenRing):
            raise TypeError(f"ring must be a kael.TokenRing, not {type(ring).__name__}")
        request = _generation.Request(
            ids,
            max_tokens,
            Sampling(
                logit_bias={} if logit_bias is None else logit_bias,
                repetition_penalty=repetition_penalty,
                presence_penalty=presence_penalty,
                frequency_penalty=frequency_penalty,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
            ),
            seed,
            stop_tokens,
            logprobs,
            use_cache,
            reuse_prefix,
            speculate,
        )
        if ring.max_tokens < request.max_tokens:
            raise Error(f"the ring has room for {ring.max_tokens} tokens, max_tokens is {request.max_tokens}")
        return self._exclusively(lambda model: _generation.into_ring(model, request, ring, self._running))

    def _generate(
        self, request: _generation.Request, on_token: Callable[[int], object] | None = None
    ) -> Generation:
        if on_token is None:
            return self._exclusively(lambda model: _generation.silently(model, request, self._running))
        return self._exclusively(
            lambda model: _generation.with_callback(model, request, on_token, self._running)
        )

    def _exclusively(self, call: Callable[[Any], _Result]) -> _Result:
        """Runs ``call(handle)`` while no other thread uses the model."""
        self._owned.refuse_after_fork()  # first: the lock may have been held when the process was forked
        thread = threading.get_ident()
        if self._user == thread:
            raise Error("the model is generating: its on_token must not call it")
        with self._lock:
            self._user = thread
            try:
                return call(self._owned.pointer())
            finally:
                self._user = None

    def close(self) -> None:
        """Frees the weights. A generation that another thread runs is stopped first and fails there with a
        :class:`kael.Error`; so does every later use. A second call does nothing."""
        if self._owned.is_from_before_fork:
            return
        if self._user == threading.get_ident():
            raise Error("the model is generating: its on_token must not close it")
        self._running.end("the model was closed")
        with self._lock:
            self._owned.free()

    def __enter__(self) -> GPT:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._owned.is_open or self._owned.is_from_before_fork:
            return "<kael.GPT, closed>"
        config, parameters = self._known
        return (
            f"<kael.GPT of {parameters:,} parameters: {config.layers} layers, "
            f"{config.heads} heads, dimension {config.dimension}, {config.vocab_size} tokens, "
            f"{config.max_positions} positions>"
        )


def _config_of(model: Any) -> GPTConfig:
    info = _signatures.sized(_signatures.GptConfig)
    check_status(native().kept.kael_gpt_get_config(model, ctypes.byref(info)))
    values = {field.name: getattr(info, field.name) for field in fields(GPTConfig)}
    values["activation"] = _signatures.ACTIVATIONS[info.activation]
    for name in ("scale_attention", "scale_attention_by_inverse_layer", "tie_word_embeddings"):
        values[name] = bool(values[name])
    config = GPTConfig(**values)
    return replace(config, inner_dimension=config.mlp_dimension)


def _parameter_count_of(model: Any) -> int:
    count = ctypes.c_int64()
    check_status(native().kept.kael_gpt_parameter_count(model, ctypes.byref(count)))
    return count.value


def sample_next(
    logits: Any,
    temperature: float = 1.0,
    top_k: int = 0,
    draw: float = 0.0,
    *,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
    logit_bias: Mapping[int, float] | None = None,
    prompt: Any = (),
    generated: Any = (),
) -> int:
    """Picks a token from ``logits`` [V] as :meth:`GPT.generate` does.

    ``draw``, a number in [0, 1), decides by the sum of the probabilities in order of id; ``prompt`` and
    ``generated`` are the ids so far, of which the penalties take notice. A token of probability 0 is never
    picked. Raises :class:`kael.Error` for logits with NaN, or with nothing finite.
    """
    values = _floats("logits", logits)
    if values.ndim != 1:
        raise Error(f"logits have {values.ndim} dimensions, expected 1")
    options = _signatures.sized(_signatures.GenerateOptions)
    native().kept.kael_generate_options_default(ctypes.byref(options))
    Sampling(
        logit_bias={} if logit_bias is None else logit_bias,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
    ).write_to(options)
    before = _checks.token_ids("prompt", prompt)
    after = _checks.token_ids("generated", generated)
    token = ctypes.c_int64()
    check_status(
        native().released.kael_sample_next(
            values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
            len(values),
            ctypes.byref(options),
            _int64s(before),
            len(before),
            _int64s(after),
            len(after),
            _checks.number("draw", draw),
            ctypes.byref(token),
        )
    )
    return token.value


def _floats(name: str, numbers: Any) -> np.ndarray:
    try:
        array = np.asarray(numbers)
    except ValueError:
        raise Error(f"{name} have rows of different lengths, expected one dimension") from None
    array = _checks.of_int64s(name, array)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, not {array.dtype.name}")
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def _int64s(array: np.ndarray) -> Any:
    return array.ctypes.data_as(_signatures.Int64Pointer)
