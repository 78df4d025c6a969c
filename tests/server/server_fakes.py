"""Models and tokenizers that are plain Python objects and misbehave on purpose."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

import kael
from kael import _library


class Bytes:
    """One token for each byte."""

    end_of_text = 0

    def encode(self, text):
        return list(text.encode())

    def decode(self, ids):
        return bytes(ids)


class Hanging(Bytes):
    """Never comes back with a text, for which the loop asks; says so on standard error."""

    TOLD = "decoding"

    def decode(self, ids):
        print(self.TOLD, file=sys.stderr, flush=True)
        threading.Event().wait()


class Sequence:
    """Emits the given bytes, one token each, whatever is asked for."""

    def __init__(self, text, seconds=0.0):
        self.text = text
        self.seconds = seconds

    def generate(self, prompt, max_tokens, temperature, top_k, on_token):
        for token in self.text[:max_tokens]:
            time.sleep(self.seconds)
            if not on_token(token):
                return


class Echo:
    """Repeats the prompt, which makes any text come out of it."""

    def generate(self, prompt, max_tokens, temperature, top_k, on_token):
        for index in range(max_tokens):
            if not on_token(prompt[index % len(prompt)]):
                return


class RingEcho:
    """The same through a native ring, as kael.GPT does it."""

    def generate_into(self, ring, prompt, max_tokens, **options):
        tokens = [prompt[index % len(prompt)] for index in range(max_tokens)]
        pointer = ctypes.cast(ring._producer_share().pointer(), ctypes.c_void_p)
        for token in tokens:
            assert _library.native().kept.kael_token_ring_push(pointer, token) == 1
        return kael.Generation(tokens, kael.FinishReason.LENGTH, 0.0, 0.0, options["seed"])


class EndlessModel:
    """Goes on until it is told to stop, a token every `seconds`."""

    def __init__(self, seconds=0.001):
        self.seconds = seconds
        self.started = threading.Event()
        self.tokens = 0

    def generate(self, prompt, max_tokens, temperature, top_k, on_token):
        self.started.set()
        while on_token(ord("x")):
            self.tokens += 1
            time.sleep(self.seconds)


class Telling(EndlessModel):
    """Says on standard error that it has begun: for a process that cannot be looked into."""

    TOLD = "the generation has begun"

    def generate(self, prompt, max_tokens, temperature, top_k, on_token):
        def tell(token):
            if not self.tokens:
                print(self.TOLD, file=sys.stderr, flush=True)
            return on_token(token)

        super().generate(prompt, max_tokens, temperature, top_k, tell)


class EndlessRing:
    """The same through a native ring, as kael.GPT does it."""

    def __init__(self, seconds=0.001):
        self.seconds = seconds
        self.started = threading.Event()
        self.tokens = 0

    def generate_into(self, ring, prompt, max_tokens, **options):
        self.started.set()
        library = _library.native().kept
        pointer = ctypes.cast(ring._producer_share().pointer(), ctypes.c_void_p)
        tokens = []
        while not library.kael_token_ring_stopping(pointer):
            if len(tokens) < max_tokens:
                library.kael_token_ring_push(pointer, ord("x"))
                tokens.append(ord("x"))
            self.tokens += 1
            time.sleep(self.seconds)
        return kael.Generation(tokens, kael.FinishReason.STOPPED, 0.0, 0.0, options["seed"])


class Deaf:
    """Does not come back, whatever it is told, before `released` is set."""

    def __init__(self):
        self.started = threading.Event()
        self.released = threading.Event()

    def generate(self, prompt, max_tokens, temperature, top_k, on_token):
        on_token(ord("x"))
        self.started.set()
        self.released.wait(30)


class Paced:
    """max_tokens tokens, of which each waits for its turn: `step(n)` lets n go."""

    def __init__(self):
        self._turns = threading.Semaphore(0)
        self.awaits = None  # the index of the token that waits for its turn

    def step(self, tokens=1):
        for _ in range(tokens):
            self._turns.release()

    def generate(self, prompt, max_tokens, temperature, top_k, on_token):
        for index in range(max_tokens):
            self.awaits = index
            if not self._turns.acquire(timeout=30) or not on_token(ord("a") + index % 26):
                return


class Item:
    """A token as a tensor of one element has it."""

    def __init__(self, value):
        self._value = value

    def item(self):
        return self._value


class Items:
    def generate(self, prompt, max_tokens, temperature, top_k, on_token):
        for token in b"items"[:max_tokens]:
            on_token(Item(token))


class Broken:
    """Fails after `tokens` tokens, with a text that no client may see."""

    def __init__(self, tokens=0):
        self.tokens = tokens

    def generate(self, prompt, max_tokens, temperature, top_k, on_token):
        for _ in range(self.tokens):
            on_token(ord("x"))
        raise RuntimeError("secret detail")


class Recorder:
    """Keeps the arguments that it is called with."""

    def __init__(self):
        self.calls = []

    def generate(self, prompt, max_tokens, *, on_token, **options):
        self.calls.append({"prompt": prompt, "max_tokens": max_tokens, **options})
        for _ in range(max_tokens):
            on_token(ord("x"))


class SlowTokenizer(Bytes):
    """Takes its time to encode."""

    def __init__(self, seconds=0.3):
        self.seconds = seconds
        self.started = threading.Event()
        self.released = threading.Event()

    def encode(self, text):
        self.started.set()
        self.released.wait(self.seconds)
        return super().encode(text)


class BrokenTokenizer(Bytes):
    def encode(self, text):
        raise RuntimeError("secret detail")


class BrokenDecoder(Bytes):
    def decode(self, ids):
        raise RuntimeError("secret detail")


class NoTokens(Bytes):
    def encode(self, text):
        return []


class Letters(Bytes):
    """Knows the letters alone."""

    def encode(self, text):
        if not text.isalpha():
            raise kael.Error(
                "the vocabulary lacks the byte 0x20 at offset 0", kael.ErrorCode.INVALID_ARGUMENT
            )
        return super().encode(text)


class Fat(Bytes):
    """A token of 20 KB: 512 of them do not fit into the system's buffers."""

    def decode(self, ids):
        return b"x" * (20_000 * len(ids))
