"""The package as a whole: public names, settings, and how it finds the library."""

from __future__ import annotations

import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
import threading
import types

import pytest
import sanitizer

import kael
from kael import _library, _settings, _signatures

PROMISED = {
    "BpeTokenizer",
    "Error",
    "ErrorCode",
    "GPT",
    "Tensor",
    "TokenRing",
    "default_model_path",
    "get_num_threads",
    "load_safetensors",
    "manual_seed",
    "save_safetensors",
    "set_num_threads",
    "tensor",
}
MODULES = [module.name for module in pkgutil.walk_packages(kael.__path__, "kael.")]


def test_the_public_list_is_what_is_there():
    public = {
        name
        for name, value in vars(kael).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(kael.__all__)
    assert kael.__all__ == sorted(
        kael.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    )
    assert public >= PROMISED


def test_a_package_without_its_model_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("kael._models.__file__", str(tmp_path / "kael" / "_models.py"))
    with pytest.raises(kael.Error, match=r"the package ships no model: .*starter has no model\.safetensors"):
        kael.default_model_path()


def test_everything_public_is_documented_and_typed():
    for name in kael.__all__:
        thing = getattr(kael, name)
        assert thing.__module__.startswith("kael")
        assert inspect.getdoc(thing), name
        members = [(name, thing)]
        if inspect.isclass(thing):
            members = [
                (f"{name}.{key}", value) for key, value in vars(thing).items() if not key.startswith("_")
            ]
        for path, member in members:
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(function):
                assert function.__doc__, path
                assert "return" in function.__annotations__, path


def test_classes_call_themselves_by_their_public_name():
    for name in (
        "GPT",
        "BpeTokenizer",
        "Error",
        "ErrorCode",
        "Tensor",
        "TokenRing",
        "Generation",
        "FinishReason",
    ):
        assert getattr(kael, name).__module__ == "kael"


@pytest.mark.parametrize("name", MODULES)
def test_every_module_can_be_imported_alone(name):
    assert run(f"import {name}; print('done')") == "done\n"


def test_only_one_module_loads_libraries(root):
    loads = [
        path.name
        for path in (root / "py" / "kael").rglob("*.py")
        if any(word in path.read_text() for word in ("CDLL(", "PyDLL(", "LoadLibrary"))
    ]
    assert loads == ["_library.py"]


def test_the_version_is_that_of_the_library(root):
    assert kael.__version__ == (root / "VERSION").read_text().strip()
    assert kael.__version__ == _settings.library_version()


def test_the_library_describes_its_build():
    assert len(kael.build_info()) > 0
    assert "\n" not in kael.build_info()


# ---- Settings


def test_the_number_of_threads_can_be_set(threads_restored):
    kael.set_num_threads(3)
    assert kael.get_num_threads() == 3
    for count in (0, -1, 257, 2**31 - 1):
        with pytest.raises(kael.Error, match=str(count)):
            kael.set_num_threads(count)
    for count in (2**32 + 3, 2**70):  # T22: not 3
        with pytest.raises(kael.Error, match="count is"):
            kael.set_num_threads(count)
    for count in (True, 2.0, "2", None):
        with pytest.raises(TypeError, match="count must be an integer"):
            kael.set_num_threads(count)
    assert kael.get_num_threads() == 3


def test_a_seed_has_64_bits():
    kael.manual_seed(2**64 - 1)
    for seed in (-1, 2**64):
        with pytest.raises(kael.Error, match="seed is"):
            kael.manual_seed(seed)


def run(code, **environment):
    """What a fresh interpreter prints, with this environment."""
    environment = {key: value for key, value in {**os.environ, **environment}.items() if value is not None}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), *sys.path]))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


CAUGHT = """
import kael
try:
    print(kael.{call})
except kael.Error as error:
    print(error.code.name, error.message)
"""


def test_the_environment_sets_the_threads():
    assert run("import kael; print(kael.get_num_threads())", KAEL_NUM_THREADS="5") == "5\n"
    for bad in ("0", "two", "257", ""):
        answer = run(CAUGHT.format(call="get_num_threads()"), KAEL_NUM_THREADS=bad)
        if bad:
            assert answer.startswith("INVALID_ARGUMENT")
            assert "KAEL_NUM_THREADS" in answer
            assert bad in answer


def test_the_environment_turns_the_allocator_off():
    assert (
        run("import kael; print(kael.caching_allocator_enabled())", KAEL_NO_CACHING_ALLOCATOR="1")
        == "False\n"
    )


# ---- Finding the library


def test_importing_needs_no_library():
    assert run("import kael; print(kael.__version__)", KAEL_LIBRARY="/nowhere").strip() == kael.__version__


def test_a_missing_library_is_one_helpful_error():
    answer = run(CAUGHT.format(call="tensor([1])"), KAEL_LIBRARY="/nowhere/libkael.so")
    assert answer.startswith("NOT_FOUND the library was not found")
    assert "/nowhere/libkael.so: no such file" in answer
    for word in ("scripts/serve", "cmake --preset cpu", "KAEL_LIBRARY"):
        assert word in answer
    assert answer.count("\n") == 1


def test_what_is_no_regular_file_is_not_called_absent(tmp_path):
    for path in (tmp_path, os.devnull):
        answer = run(CAUGHT.format(call="tensor([1])"), KAEL_LIBRARY=str(path))
        assert f"({path}: not a regular file)" in answer


def test_a_file_that_is_no_library_is_named_with_the_reason(tmp_path):
    path = tmp_path / "libkael.so"
    path.write_text("not a library")
    answer = run(CAUGHT.format(call="tensor([1])"), KAEL_LIBRARY=str(path))
    assert answer.startswith(f"NOT_FOUND the library was not found ({path}: ")
    assert answer.count("\n") == 1


@pytest.fixture
def compiler(tmp_path):
    """Makes a shared library of a line of C."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler is installed")

    def compile_line(line):
        source, library = tmp_path / "library.c", tmp_path / "libkael.so"
        source.write_text(line + "\n")
        plain = sanitizer.environment_of_others()
        subprocess.run([found, "-shared", "-fPIC", "-o", library, source], check=True, env=plain)
        return library

    return compile_line


def test_another_version_of_the_interface_is_an_error_before_any_other_call(compiler):
    path = compiler("int kael_abi_version(void) { return 999; }")
    answer = run(CAUGHT.format(call="tensor([1])"), KAEL_LIBRARY=str(path))
    assert answer.startswith("UNSUPPORTED")
    assert "version 999" in answer
    assert str(path) in answer


def test_a_foreign_library_is_named_as_such(compiler):
    path = compiler("int something(void) { return 1; }")
    assert "it is not a kael library" in run(CAUGHT.format(call="tensor([1])"), KAEL_LIBRARY=str(path))


def test_a_library_that_lacks_a_function_is_named_with_it(compiler):
    path = compiler(f"int kael_abi_version(void) {{ return {_signatures.ABI_VERSION}; }}")
    answer = run(CAUGHT.format(call="tensor([1])"), KAEL_LIBRARY=str(path))
    assert answer.startswith(f"UNSUPPORTED {path} has no function kael_")


def test_the_checkout_is_found_without_the_environment(root):
    if not (root / "build" / "cpu" / "libkael.so").is_file():
        pytest.skip("this checkout has no build/cpu")
    code = "from kael import _library; print(_library.native().path)"
    assert run(code, KAEL_LIBRARY=None).strip() == str(root / "build" / "cpu" / "libkael.so")


def test_many_threads_load_the_library_once():
    code = """
import threading
from kael import _library
barrier = threading.Barrier(8)
found = []
def load():
    barrier.wait()
    found.append(_library.native())
threads = [threading.Thread(target=load) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(set(map(id, found))))
"""
    assert run(code) == "1\n"


def test_the_last_error_belongs_to_its_thread():
    """Two threads that fail at the same time each get their own message."""
    mixed = []

    def fail(size):
        for _ in range(200):
            try:
                kael.tensor([1.0]).view(size)
            except kael.Error as error:
                if str(size) not in error.message:
                    mixed.append(error.message)

    threads = [threading.Thread(target=fail, args=(size,)) for size in (111, 222, 333)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mixed == []


def test_an_unknown_status_is_an_internal_error():
    assert _library.last_error(12345).code is kael.ErrorCode.INTERNAL


def test_a_bare_name_of_a_library_is_a_file_here(tmp_path):
    script = f"import os; os.chdir({str(tmp_path)!r}); import kael; print(kael.tensor([1]).item())"
    os.symlink(os.environ["KAEL_LIBRARY"], tmp_path / "libelsewhere.so")
    assert run(script, KAEL_LIBRARY="libelsewhere.so").strip() == "1"
