"""The ctypes table, kael.h and the symbols of the library describe one interface: they must agree."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import c_header
import pytest

from kael import _errors, _generation, _library, _signatures

HANDLES = {
    "kael_tensor": _signatures.TensorHandle,
    "kael_memory_recording": _signatures.MemoryRecordingHandle,
    "kael_node": _signatures.NodeHandle,
    "kael_tensor_map": _signatures.TensorMapHandle,
    "kael_tokenizer": _signatures.TokenizerHandle,
    "kael_gpt": _signatures.GptHandle,
    "kael_token_ring": _signatures.TokenRingHandle,
}
STRUCTS = {
    "kael_tensor_info": _signatures.TensorInfo,
    "kael_argument": _signatures.Argument,
    "kael_gpt_config": _signatures.GptConfig,
    "kael_generate_options": _signatures.GenerateOptions,
    "kael_logit_bias": _signatures.LogitBias,
    "kael_token_logprob": _signatures.TokenLogprob,
    "kael_generate_result": _signatures.GenerateResult,
    "kael_token_record": _signatures.TokenRecord,
}
CALLBACKS = {
    "kael_token_callback": _signatures.TokenCallback,
    "kael_stop_callback": _signatures.StopCallback,
    "kael_release_callback": _signatures.ReleaseCallback,
    "kael_node_callback": _signatures.NodeCallback,
    "kael_call_site_callback": _signatures.CallSiteCallback,
    "kael_capsule_is_valid": _signatures.CapsuleIsValid,
    "kael_capsule_pointer": _signatures.CapsulePointer,
    "kael_trace_callback": _signatures.TraceCallback,
    "kael_gradient_callback": _signatures.GradientCallback,
}
NUMBERS = {
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


@pytest.fixture(scope="module")
def header(root):
    return c_header.read(root / "native" / "include" / "kael" / "kael.h")


def ctypes_of(kind, header, is_argument=False):
    """The ctypes type that stands for a type of C."""
    if kind == "void":
        return None
    if kind == "const char*" and is_argument:
        return ctypes.c_char_p  # takes bytes as they are, U+0000 included: the length travels beside them
    kind = kind.removeprefix("const ")
    if kind == "void*":
        return ctypes.c_void_p
    if kind == "char*":
        return _signatures.TextPointer
    if kind.endswith("*"):
        return ctypes.POINTER(ctypes_of(kind[:-1], header))
    if kind.endswith("]"):
        element, count = kind[:-1].split("[")
        return ctypes_of(element, header) * int(count)
    kind = header.aliases.get(kind, kind)
    for table in (NUMBERS, HANDLES, STRUCTS, CALLBACKS):
        if kind in table:
            return table[kind]
    raise AssertionError(f"the test does not know the C type {kind!r}")


def test_the_header_is_read_as_it_is_written(header):
    assert len(header.functions) > 40
    assert header.functions["kael_abi_version"] == ("int32_t", ())
    assert header.functions["kael_token_ring_push"] == ("int32_t", ("void*", "int64_t"))
    assert header.functions["kael_last_error"] == ("const char*", ("int64_t*",))
    assert header.structs["kael_token_record"] == [("token", "int64_t"), ("nanoseconds", "int64_t")]
    assert header.opaque == set(HANDLES)
    assert header.structs.keys() == STRUCTS.keys()
    assert header.callbacks.keys() == CALLBACKS.keys()


def test_every_function_of_the_header_is_in_the_table_and_no_other(header):
    assert header.functions.keys() == _signatures.FUNCTIONS.keys()


def test_result_and_argument_types_are_those_of_the_header(header):
    for name, function in header.functions.items():
        signature = _signatures.FUNCTIONS[name]
        assert signature.result == ctypes_of(function.result, header), name
        expected = tuple(ctypes_of(kind, header, is_argument=True) for kind in function.arguments)
        assert signature.arguments == expected, name


def test_structs_have_the_fields_of_the_header(header):
    for name, fields in header.structs.items():
        expected = [(field, ctypes_of(kind, header)) for field, kind in fields]
        assert STRUCTS[name]._fields_ == expected, name


def test_callbacks_have_the_types_of_the_header(header):
    for name, function in header.callbacks.items():
        callback = CALLBACKS[name]
        assert callback._restype_ == ctypes_of(function.result, header), name
        assert callback._argtypes_ == tuple(ctypes_of(kind, header) for kind in function.arguments), name


def test_constants_are_those_of_the_header(header):
    constants = dict(header.constants)

    def take(prefix, names):
        for value, name in enumerate(names):
            assert constants.pop(f"{prefix}{name.upper()}") == value

    assert constants.pop("KAEL_ABI_VERSION") == _signatures.ABI_VERSION
    assert constants.pop("KAEL_MAX_RANK") == _signatures.MAX_RANK
    assert constants.pop("KAEL_OK") == _signatures.OK
    for code in _errors.ErrorCode:
        assert constants.pop(f"KAEL_{code.name}") == code
    take("KAEL_", _signatures.DTYPES)
    take("KAEL_ARGUMENT_", _signatures.ARGUMENT_KINDS)
    take("KAEL_", _signatures.ACTIVATIONS)
    take("KAEL_MATMUL_", _signatures.MATMUL_PRECISIONS)
    take("KAEL_WEIGHTS_", _signatures.WEIGHT_FORMATS)
    take("KAEL_FINISH_", [reason.name for reason in _generation._FINISH_REASONS])
    assert constants.pop("KAEL_RETAIN_GRAPH") == _signatures.RETAIN_GRAPH
    assert constants.pop("KAEL_CREATE_GRAPH") == _signatures.CREATE_GRAPH
    assert constants.pop("KAEL_ALLOW_UNUSED") == _signatures.ALLOW_UNUSED
    assert constants.pop("KAEL_FIND_NAN") == _signatures.FIND_NAN
    assert constants.pop("KAEL_FIND_INFINITY") == _signatures.FIND_INFINITY
    assert constants.pop("KAEL_CHECK_FORWARD") == _signatures.CHECK_FORWARD
    assert constants.pop("KAEL_LOAD_COPY") == _signatures.LOAD_COPY
    assert constants.pop("KAEL_LOAD_MAPPED") == _signatures.LOAD_MAPPED
    assert constants.pop("KAEL_TOKEN_FAILED") == _signatures.TOKEN_FAILED
    assert constants.pop("KAEL_TOKEN_STOP") == _signatures.TOKEN_STOP
    assert constants.pop("KAEL_TOKEN_CONTINUE") == _signatures.TOKEN_CONTINUE
    assert constants == {}, "constants of the header that the package does not know"


def test_the_library_exports_what_the_header_declares_and_nothing_else(header):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not installed (Debian: binutils)")
    path = _library.native().path
    listing = subprocess.run(
        [nm, "-D", "--defined-only", path], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    # What a sanitizer or the coverage runtime adds is not ours.
    exported = {name for name in exported if not name.startswith(("__", "_Z", "_init", "_fini"))}
    assert exported == set(header.functions)


def test_a_handle_of_another_kind_is_refused_by_ctypes():
    tokenizer = ctypes.POINTER(_signatures.TokenizerHandle)()
    with pytest.raises(ctypes.ArgumentError):
        _library.native().released.kael_tensor_free(tokenizer)


def test_every_function_is_bound_with_its_types():
    native = _library.native()
    for name, signature in _signatures.FUNCTIONS.items():
        lock = signature.lock
        assert hasattr(native.released, name) == (lock is not _signatures.Lock.KEPT)
        assert hasattr(native.kept, name) == (lock is not _signatures.Lock.RELEASED)
        for view in (native.released, native.kept):
            if hasattr(view, name):
                bound = getattr(view, name)
                assert (list(bound.argtypes), bound.restype) == (
                    list(signature.arguments),
                    signature.result,
                ), name
