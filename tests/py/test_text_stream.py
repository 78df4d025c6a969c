"""kael.TextStream: characters and stop strings across tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kael


class Pieces:
    """A tokenizer of the given pieces of bytes."""

    def __init__(self, *pieces):
        self._pieces = pieces

    def decode(self, ids):
        return b"".join(self._pieces[id] for id in ids)


def run(pieces, stop=()):
    """The text of each token and of the end."""
    stream = kael.TextStream(Pieces(*pieces), stop)
    return [*(stream.feed(index) for index in range(len(pieces))), stream.end()], stream


def texts(pieces, stop=()):
    return run(pieces, stop)[0]


def test_a_character_comes_with_the_token_that_completes_it():  # B014
    assert texts([b"\xc3", b"\xb1", b"\xe2", b"\x82", b"\xac"]) == ["", "ñ", "", "", "€", ""]


def test_bytes_that_become_no_character_are_replaced_at_once():  # B017
    assert texts([b"a\xff", b"b", b"\xe2\x82", b"x", b"\xf0\x9f"]) == [
        "a\ufffd",
        "b",
        "",
        "\ufffdx",
        "",
        "\ufffd",
    ]


def test_an_id_that_the_vocabulary_lacks_is_a_replacement():
    class Padded:
        def decode(self, ids):
            raise kael.Error("no such id", kael.ErrorCode.INVALID_ARGUMENT)

    assert kael.TextStream(Padded()).feed(7) == "\ufffd"


def test_other_failures_come_through():
    class Broken:
        def decode(self, ids):
            raise kael.Error("broken", kael.ErrorCode.INTERNAL)

    with pytest.raises(kael.Error, match="broken"):
        kael.TextStream(Broken()).feed(7)


@pytest.mark.parametrize(
    ("pieces", "stop", "expected"),
    [
        ([b"ABC", b"DE", b"F", b"GHIJ", b"K"], ["DEFGHIJ"], ["ABC", "", "", "", "", ""]),  # B023
        ([b"x\nUser", b":", b"y"], ["\nUser:"], ["x", "", "", ""]),  # B025
        ([b"al", b"pha beta gamma de"], ["beta gamma"], ["al", "pha ", ""]),  # B026
        ([b"b,", b"d", b"b,c"], ["b,c"], ["", "b,d", "", ""]),  # B028
        ([b"ab", b"a", b"b", b"c"], ["abc"], ["", "ab", "", "", ""]),
        ([b"aab", b"c"], ["abc"], ["a", "", ""]),
        ([b"\xe2\x82", b"\xac!"], ["€"], ["", "", ""]),
        ([b"ab\xe2"], ["b\ufffd"], ["a", ""]),
        ([b"abc", b"d"], "bc", ["a", "", ""]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_the_text_ends_before_a_stop_string(pieces, stop, expected):
    found, stream = run(pieces, stop)
    assert found == expected
    assert stream.stopped
    assert stream.released == stream.known == len("".join(expected))


def test_what_was_held_back_comes_at_the_end():  # B013
    found, stream = run([b"one ", b"<en"], ["<end>"])
    assert found == ["one ", "", "<en"]
    assert not stream.stopped


def test_no_more_is_held_back_than_a_stop_string_could_begin_with():  # B028
    assert texts([b"stop sto", b"st"], ["stopped"]) == ["stop ", "sto", "st"]


@pytest.mark.parametrize("stop", ["", ["a", ""]])
def test_an_empty_stop_string_is_refused(stop):
    with pytest.raises(kael.Error, match="a stop string is empty"):
        kael.TextStream(Pieces(), stop)


def test_a_stop_string_that_no_text_holds_is_refused():
    with pytest.raises(kael.Error, match=r"a stop string holds the lone surrogate U\+D800 at character 1"):
        kael.TextStream(Pieces(), "a\ud800")


def test_a_stop_string_that_is_no_text_is_a_type_error():
    with pytest.raises(TypeError, match="a stop string must be a str, not bytes"):
        kael.TextStream(Pieces(), [b"a"])


letters = st.text("ab\N{EURO SIGN}", max_size=12)


@given(letters, st.lists(st.text("ab\N{EURO SIGN}", min_size=1, max_size=4), max_size=3), st.data())
def test_the_text_does_not_depend_on_the_tokens(text, stop, data):
    encoded = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=6)))
    pieces = [encoded[a:b] for a, b in zip([0, *cuts], [*cuts, len(encoded)], strict=True)]
    found, stream = run(pieces, stop)
    complete = [end for end in range(len(text) + 1) if any(text[:end].endswith(word) for word in stop)]
    if complete:
        longest = max(len(word) for word in stop if text[: complete[0]].endswith(word))
        assert "".join(found) == text[: complete[0] - longest]
    else:
        assert "".join(found) == text
    assert stream.stopped == bool(complete)


@given(letters, st.text("ab", min_size=1, max_size=4))
def test_where_a_token_begins_is_known(text, stop):
    stream = kael.TextStream(Pieces(*(letter.encode() for letter in text)), stop)
    for index in range(len(text)):
        if stream.stopped:
            break
        assert stream.known == index
        assert stream.released <= index
        stream.feed(index)
