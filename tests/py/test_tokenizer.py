"""kael.BpeTokenizer at the border between Python and the library. What it encodes is tested beside the
library.
"""

from __future__ import annotations

import json
import shutil
import threading

import numpy as np
import pytest

import kael


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A vocabulary of all bytes, with `lo`, `ow`, a token of 40 bytes and <|endoftext|>."""
    folder = tmp_path_factory.mktemp("tokenizer")
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    vocabulary = {alphabet[byte]: byte for byte in range(256)}
    vocabulary |= {"lo": 256, "ow": 257, "low": 258, "x" * 40: 259, "<|endoftext|>": 260}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\nl o\nlo w\n")
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder):
    return kael.BpeTokenizer(folder / "vocab.json", folder / "merges.txt")


def test_text_and_bytes_give_the_same_ids(tokenizer):
    assert tokenizer.encode("low") == tokenizer.encode(b"low") == tokenizer.encode(bytearray(b"low")) == [258]
    assert tokenizer.encode("ñ") == [0xC3, 0xB1]


def test_bytes_that_are_no_text_survive(tokenizer):
    data = bytes(range(256))
    assert tokenizer.decode(tokenizer.encode(data)) == data


def test_a_nul_is_a_character_like_others(tokenizer):  # KB082, T24
    assert tokenizer.encode("ab\0cd") == [97, 98, 0, 99, 100]
    assert tokenizer.decode([97, 0, 98]) == b"a\0b"


def test_empty_text_has_no_tokens(tokenizer):
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == b""


def test_end_of_text_is_text_unless_asked_for(tokenizer):
    assert tokenizer.end_of_text == 260
    assert 260 not in tokenizer.encode("<|endoftext|>")
    assert tokenizer.encode("a<|endoftext|>", allow_special=True) == [97, 260]
    assert tokenizer.decode([260]) == b"<|endoftext|>"
    with pytest.raises(TypeError, match="allow_special must be True or False, not int"):
        tokenizer.encode("a", 1)


def test_a_vocabulary_without_end_of_text_says_so(folder, tmp_path):
    vocabulary = json.loads((folder / "vocab.json").read_text())
    del vocabulary["<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = kael.BpeTokenizer(tmp_path / "vocab.json", folder / "merges.txt")
    assert tokenizer.end_of_text is None
    assert tokenizer.vocabulary_size == 260


def test_a_lone_surrogate_is_a_clear_error(tokenizer):
    with pytest.raises(kael.Error, match=r"text holds the lone surrogate U\+D800 at character 2") as caught:
        tokenizer.encode("ab\ud800")
    assert caught.value.code is kael.ErrorCode.INVALID_ARGUMENT


def test_a_byte_that_the_vocabulary_lacks_is_named(folder, tmp_path):
    vocabulary = json.loads((folder / "vocab.json").read_text())
    del vocabulary["z"]
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = kael.BpeTokenizer(tmp_path / "vocab.json", folder / "merges.txt")
    with pytest.raises(kael.Error, match=r"(?i)0x7a.* 3|\b3\b.*0x7a"):
        tokenizer.encode("abcz")


@pytest.mark.parametrize("text", [None, 3, ["a"], np.array([1])])
def test_what_is_neither_text_nor_bytes_is_a_type_error(tokenizer, text):
    with pytest.raises(TypeError, match="text must be str or bytes"):
        tokenizer.encode(text)


def test_long_tokens_and_many_of_them_decode(tokenizer):
    assert tokenizer.decode([259] * 1000) == b"x" * 40_000
    assert tokenizer.decode(iter([108, 111])) == b"lo"
    assert tokenizer.decode(np.array([108, 111], np.uint8)) == b"lo"


@pytest.mark.parametrize("ids", [[261], [-1], [2**40]])
def test_an_id_outside_the_vocabulary_is_an_error(tokenizer, ids):
    with pytest.raises(kael.Error, match=str(ids[0])):
        tokenizer.decode(ids)


@pytest.mark.parametrize("ids", [3, "3", [1.0], [True], None])
def test_what_is_no_list_of_ids_is_a_type_error(tokenizer, ids):
    with pytest.raises(TypeError, match="ids must be"):
        tokenizer.decode(ids)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(kael.Error, match=r"vocab\.json") as caught:
        kael.BpeTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert caught.value.code is kael.ErrorCode.NOT_FOUND


@pytest.mark.parametrize("path", [None, 3, ["a"]])
def test_what_is_no_path_is_a_type_error(path):
    with pytest.raises(TypeError, match="vocab_path must be a path"):
        kael.BpeTokenizer(path, "merges.txt")


def test_paths_may_be_bytes_and_hold_any_byte(folder, tmp_path):
    name = bytes(tmp_path) + b"/vocab\xff.json"
    with open(name, "wb") as file:
        file.write((folder / "vocab.json").read_bytes())
    assert kael.BpeTokenizer(name, folder / "merges.txt").vocabulary_size == 261
    with pytest.raises(kael.Error, match="NUL"):
        kael.BpeTokenizer("a\0b", folder / "merges.txt")


def test_a_folder_is_enough(folder, tokenizer, tmp_path):
    for path in (folder, str(folder), bytes(folder)):
        assert kael.BpeTokenizer.from_pretrained(path).encode("low") == tokenizer.encode("low")
    with pytest.raises(TypeError, match="folder must be a path"):
        kael.BpeTokenizer.from_pretrained(None)
    with pytest.raises(kael.Error, match="is no folder"):
        kael.BpeTokenizer.from_pretrained(folder / "vocab.json")


def test_the_files_that_a_folder_lacks_are_named_once(folder, tmp_path):
    lacking = ["no vocab.json and no merges.txt", "no merges.txt"]
    for lacks, then_there in zip(lacking, ["vocab.json", "merges.txt"], strict=True):
        with pytest.raises(kael.Error) as caught:
            kael.BpeTokenizer.from_pretrained(tmp_path)
        assert caught.value.message == f"{tmp_path} has {lacks}, expected a model's tokenizer"
        assert caught.value.code is kael.ErrorCode.NOT_FOUND
        shutil.copy(folder / then_there, tmp_path)
    kael.BpeTokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_a_link_to_nowhere_is_not_a_file_that_is_absent(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("elsewhere")
    with pytest.raises(kael.Error) as caught:
        kael.BpeTokenizer.from_pretrained(tmp_path)
    assert f"cannot open {tmp_path / name}, a link to elsewhere" in caught.value.message


def test_many_threads_may_use_one_tokenizer(tokenizer):
    text = "low slow flow " * 200
    expected = tokenizer.encode(text)
    results = []
    threads = [threading.Thread(target=lambda: results.append(tokenizer.encode(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


def test_repr_says_what_it_is(tokenizer):
    assert repr(tokenizer) == "<kael.BpeTokenizer of 261 tokens>"
