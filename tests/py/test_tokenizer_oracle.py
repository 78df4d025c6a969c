"""GPT-2's ids compared with three implementations that are not ours: tiktoken, tokenizers, and the algorithm
of openai/gpt-2 over the package regex, which, unlike the others, can be asked about invalid UTF-8.

Their Unicode versions differ, so texts are made of characters that Python's own Unicode version has.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kael

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
END_OF_TEXT = "<|endoftext|>"
UNICODE_VERSION = (16, 0)  # of native/src/text/unicode_tables.h

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
SYMBOLS = {byte: chr(byte) for byte in _PRINTABLE} | {byte: chr(256 + n) for n, byte in enumerate(_OTHERS)}
BYTES = {symbol: byte for byte, symbol in SYMBOLS.items()}


def in_symbols(token: bytes) -> str:
    return "".join(SYMBOLS[byte] for byte in token)


def tokenizer_of_merges(folder: Path, merges: list[tuple[bytes, bytes]]) -> kael.BpeTokenizer:
    """The bytes are ids 0 to 255, the merges 256 and up."""
    tokens = [*(bytes([byte]) for byte in range(256)), *(left + right for left, right in merges)]
    vocab = {in_symbols(token): number for number, token in enumerate(tokens)}
    lines = (f"{in_symbols(left)} {in_symbols(right)}\n" for left, right in merges)
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (folder / "merges.txt").write_text("".join(lines), encoding="utf-8")
    return kael.BpeTokenizer(folder / "vocab.json", folder / "merges.txt")


@pytest.fixture(scope="module")
def files(shared: Path) -> tuple[Path, Path]:
    folder = shared / "data" / "tokenizer-gpt2"
    return folder / "vocab.json", folder / "merges.txt"


@pytest.fixture(scope="module")
def gpt2(files) -> kael.BpeTokenizer:
    return kael.BpeTokenizer(*files)


@pytest.fixture(scope="module")
def ranks(files) -> dict[bytes, int]:
    """Token bytes to id. In GPT-2's vocabulary a merged token's id grows with its merge's rank."""
    vocab = json.loads(files[0].read_text(encoding="utf-8"))
    del vocab[END_OF_TEXT]
    return {bytes(BYTES[symbol] for symbol in token): rank for token, rank in vocab.items()}


@pytest.fixture(scope="module")
def tiktoken_gpt2(ranks):
    tiktoken = pytest.importorskip("tiktoken", reason="the oracle tiktoken is not installed")
    return tiktoken.Encoding(
        "gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END_OF_TEXT: len(ranks)}
    )


@pytest.fixture(scope="module")
def tokenizers_gpt2(files):
    tokenizers = pytest.importorskip("tokenizers", reason="the oracle tokenizers is not installed")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*map(str, files)))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


@pytest.fixture(scope="module")
def openai_gpt2(ranks):
    regex = pytest.importorskip("regex", reason="the oracle regex is not installed")
    pattern = regex.compile(PATTERN)

    @functools.cache
    def encode_piece(piece: bytes) -> list[int]:
        parts = [piece[i : i + 1] for i in range(len(piece))]
        while len(parts) > 1:
            pairs = [ranks.get(left + right, len(ranks)) for left, right in itertools.pairwise(parts)]
            lowest = min(pairs)
            if lowest == len(ranks):
                break
            place = pairs.index(lowest)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return [ranks[part] for part in parts]

    def encode(data: bytes) -> list[int]:
        # An invalid byte becomes a lone surrogate, which is neither letter, number nor space.
        text = data.decode("utf-8", "surrogateescape")
        pieces = (piece.encode("utf-8", "surrogateescape") for piece in pattern.findall(text))
        return [token for piece in pieces for token in encode_piece(piece)]

    return encode


# Planes 4 to 16 are private or unassigned but for tags and variation selectors at the start of plane 14.
CHARACTERS = [chr(point) for point in [*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE0400)]]


@functools.cache
def assigned() -> list[str]:
    return [character for character in CHARACTERS if unicodedata.category(character) != "Cn"]


def random_text(draw: random.Random) -> str:
    """Characters of all kinds, more of those that the pattern names than their share."""
    kinds = [
        lambda: draw.choice(assigned()),
        lambda: chr(draw.randrange(128)),
        lambda: draw.choice(["'s", "'T", "'re", "'ll", "'", "\u2019s", END_OF_TEXT]),
        lambda: draw.choice([" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\x85", "\x1c"]),
        lambda: draw.choice(
            ["a", "the", " and", "ing", "1", "23", "\u00bd", "\u00e9", "e\u0301", "\u4f60", "\u0661"]
        ),
    ]
    return "".join(draw.choice(kinds)() for _ in range(draw.randrange(1, 40)))


def random_texts(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return [random_text(draw) for _ in range(count)]


def test_ids_of_tiktoken(gpt2, tiktoken_gpt2):
    for text in random_texts(1, 4000):
        assert gpt2.encode(text) == tiktoken_gpt2.encode_ordinary(text), ascii(text)


def test_ids_of_tokenizers(gpt2, tokenizers_gpt2):
    for text in random_texts(2, 4000):
        assert gpt2.encode(text) == tokenizers_gpt2.encode(text).ids, ascii(text)


def test_ids_of_openai_also_for_invalid_utf8(gpt2, openai_gpt2):
    draw = random.Random(3)
    for text in random_texts(4, 3000):
        data = bytearray(text.encode())
        for _ in range(draw.randrange(4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if any(unicodedata.category(character) == "Cn" for character in data.decode(errors="ignore")):
            continue  # a change made a character of which the versions may differ
        assert gpt2.encode(bytes(data)) == openai_gpt2(bytes(data)), bytes(data)


def test_special_token_as_in_tiktoken(gpt2, tiktoken_gpt2):
    for text in random_texts(5, 500):
        text += END_OF_TEXT + text
        assert gpt2.encode(text, allow_special=True) == tiktoken_gpt2.encode(text, allowed_special="all")
        assert gpt2.encode(text) == tiktoken_gpt2.encode(text, disallowed_special=())


def test_decode_as_in_tiktoken(gpt2, tiktoken_gpt2):
    draw = random.Random(6)
    for _ in range(500):
        ids = [draw.randrange(gpt2.vocabulary_size) for _ in range(draw.randrange(40))]
        assert gpt2.decode(ids) == tiktoken_gpt2.decode_bytes(ids)


def test_one_long_word_as_in_tiktoken(gpt2, tiktoken_gpt2):
    """KB089"""
    for text in (
        "a" * 100_000,
        "_" * 50_000,
        " " * 50_000,
        "0" * 50_001,
        "\u4f60" * 20_000,
        "ab" * 50_000 + "c",
    ):
        assert gpt2.encode(text) == tiktoken_gpt2.encode_ordinary(text), text[:3]


def test_a_whole_book_as_in_tiktoken_and_tokenizers(gpt2, tiktoken_gpt2, tokenizers_gpt2, shared):
    book = shared / "data" / "corpora" / "standardebooks" / "jane-austen_pride-and-prejudice.txt"
    text = book.read_text(encoding="utf-8")
    ids = gpt2.encode(text)
    assert ids == tiktoken_gpt2.encode_ordinary(text)
    assert ids == tokenizers_gpt2.encode(text).ids


@pytest.fixture(scope="module")
def classes_of_kael(tmp_path_factory) -> dict[str, set[str]]:
    """The characters beyond ASCII that the pattern takes for letters, numbers and spaces.

    The pieces show through merges of "a", "1" and a line feed with every first byte of a character: such a
    merge happens where the character belongs to the same piece. A run of spaces leaves its last one out.
    """
    pairs = [(left, bytes([byte])) for left in (b"a", b"1", b"\n") for byte in range(0xC2, 0xF5)]
    tokenizer = tokenizer_of_merges(tmp_path_factory.mktemp("classes"), pairs)
    characters = CHARACTERS[0x80:]

    def same_piece(before: str, behind: str, end: str) -> set[str]:
        ids = np.array(
            tokenizer.encode("".join(before + character + behind + end for character in characters))
        )
        place_of = np.cumsum(ids == ord(end))
        return {characters[place] for place in place_of[ids >= 256]}

    return {
        "letter": same_piece("a", "", "\n"),
        "number": same_piece("1", "", "\n"),
        "space": same_piece("\n", "\n", "a"),
    }


def test_classes_of_every_character_as_in_python(classes_of_kael):
    known = [character for character in assigned() if ord(character) >= 0x80]
    if tuple(map(int, unicodedata.unidata_version.split(".")))[:2] > UNICODE_VERSION:
        known = [
            character for character in known if any(character in same for same in classes_of_kael.values())
        ]
    categories = {"letter": "L", "number": "N", "space": "Z"}
    for name, category in categories.items():
        expected = {character for character in known if unicodedata.category(character)[0] == category}
        if name == "space":
            expected.add("\x85")  # a control, and white space
        assert classes_of_kael[name] & set(known) == expected, name


@pytest.mark.parametrize(("name", "pattern"), [("letter", r"\p{L}"), ("number", r"\p{N}"), ("space", r"\s")])
def test_classes_of_every_character_as_in_tiktoken(classes_of_kael, name, pattern):
    tiktoken = pytest.importorskip("tiktoken", reason="the oracle tiktoken is not installed")
    single_bytes = {bytes([byte]): byte for byte in range(256)}
    # What the pattern does not match is left out of the ids.
    matches = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=single_bytes, special_tokens={})
    known = {character for character in assigned() if ord(character) >= 0x80}
    found = bytes(matches.encode_ordinary("".join(sorted(known)))).decode()
    assert classes_of_kael[name] & known == set(found)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> kael.BpeTokenizer:
    merges = [(b"a", b"b"), (b"ab", b"ab"), (b"\xc3", b"\xa9"), (b" ", b"a"), (b"\xff", b"\x00")]
    return tokenizer_of_merges(tmp_path_factory.mktemp("small"), merges)


@given(st.one_of(st.binary(), st.text(st.sampled_from("ab \xe9\n'\0"), max_size=200).map(str.encode)))
def test_any_bytes_come_back(small, data):
    ids = small.encode(data)
    assert len(ids) <= len(data)
    assert small.decode(ids) == data


def test_recorded_ids_are_those_of_the_references(root, tiktoken_gpt2, tokenizers_gpt2, openai_gpt2):
    """The table that the C++ tests compare with."""
    rows = json.loads((root / "tests" / "data" / "gpt2_ids.json").read_text(encoding="utf-8"))
    for row in rows:
        text, ids = row["text"], row["ids"]
        assert tiktoken_gpt2.encode_ordinary(text) == ids, ascii(text)
        assert tokenizers_gpt2.encode(text).ids == ids, ascii(text)
        assert openai_gpt2(text.encode()) == ids, ascii(text)
