"""Settings from the command line, the environment and a file."""

from __future__ import annotations

import dataclasses
import tomllib

import pytest
import server_checkpoint
import server_process

from server import Settings
from server.arguments import parse
from server.configuration import settings_of
from server.options import OPTIONS

# A value for each option that is not its default: as a text, and as the program holds it.
VALUES = {
    "data": (".", "."),
    "device": ("cpu", "cpu"),
    "dtype": ("int8", "int8"),
    "threads": ("3", 3),
    "host": ("::1", "::1"),
    "port": ("9001", 9001),
    "api-key": ("secret", ("secret",)),
    "api-key-file": ("keys", "keys"),
    "tls-certificate": ("c.pem", "c.pem"),
    "tls-key": ("k.pem", "k.pem"),
    "allowed-host": ("Example.org", ("example.org",)),
    "cors-origin": ("https://Example.org:8080", ("https://example.org:8080",)),
    "busy-status": ("503", 503),
    "queue": ("3", 3),
    "no-prefix-cache": ("true", True),
    "speculate": ("8", 8),
    "log-format": ("json", "json"),
    "max-body-bytes": ("100000", 100_000),
    "ping-seconds": ("2.5", 2.5),
    "stall-seconds": ("3", 3.0),
    "idle-seconds": ("4", 4.0),
    "body-seconds": ("5", 5.0),
}


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch):
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)


def write_file(tmp_path, text):
    path = tmp_path / "kael.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(capsys, code, *arguments):
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    output = capsys.readouterr()
    assert (ended.value.code, output.out, output.err.count("\n")) == (code, "", 1)
    return output.err


def test_every_option_is_tried_here():
    assert set(VALUES) == {option.name for option in OPTIONS}


def test_help_lists_every_option_with_its_default(capsys):
    with pytest.raises(SystemExit):
        parse(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        assert f"--{option.name} {option.metavar}".rstrip() in text
        default = f"{option.default:g}" if isinstance(option.default, float) else option.default
        assert default is None or option.is_flag or f"(default: {default})" in text
    assert "--config FILE" in text


def test_the_defaults_are_those_of_an_embedded_server():
    options = parse(["--host", "0.0.0.0"])
    assert settings_of(options) == Settings()
    assert set(options.sources.values()) == {"default", "flag"}
    assert dataclasses.replace(Settings(), allowed_hosts=()) == settings_of(parse([]))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_option_is_taken_from_flag_environment_and_file_in_this_order(option, tmp_path, monkeypatch):
    text, value = VALUES[option.name]
    file = write_file(tmp_path, f"{option.name} = {text}" if option.is_flag else f'{option.name} = "{text}"')

    def read(*arguments):
        options = parse([*arguments, "--config", file])
        return getattr(options, option.attribute), options.sources[option.name]

    default = option.default if option.default is not None else text
    default = str(default).lower() if option.is_flag else default
    monkeypatch.setattr("server.arguments._lacking", lambda options: None)
    assert read() == (value, "file")
    monkeypatch.setenv(option.variable, str(default))
    assert read() == (getattr(parse([]), option.attribute), "environment")
    assert read(f"--{option.name}", *([] if option.is_flag else [text])) == (value, "flag")


def test_a_flag_is_true_or_false(tmp_path, monkeypatch, capsys):
    assert not parse(["--config", write_file(tmp_path, "no-prefix-cache = false")]).no_prefix_cache
    for text in ("1", '"true"', "[true]"):
        error = refusal(capsys, 2, "--config", write_file(tmp_path, f"no-prefix-cache = {text}"))
        assert "no-prefix-cache: expected true or false" in error
    monkeypatch.setenv("KAEL_SERVE_NO_PREFIX_CACHE", "yes")
    assert "KAEL_SERVE_NO_PREFIX_CACHE: 'yes' is unknown, expected true or false" in refusal(capsys, 2)
    assert "port: expected a text or a number" in refusal(
        capsys, 2, "--config", write_file(tmp_path, "port = true")
    )


def test_an_option_may_hold_several_values(tmp_path, monkeypatch):
    names = ("a.org", "b.org")
    assert parse(["--allowed-host", "a.org", "--allowed-host", "b.org"]).allowed_hosts == names
    file = write_file(tmp_path, 'allowed-host = ["a.org", "b.org"]')
    assert parse(["--config", file]).allowed_hosts == names
    monkeypatch.setenv("KAEL_SERVE_ALLOWED_HOST", "a.org,b.org")
    assert parse([]).allowed_hosts == names


def test_names_are_compared_as_browsers_send_them():
    hosts = ["--allowed-host", "A.org.", "--allowed-host", "m\u00fcnchen.de"]
    origins = ["--cors-origin", "HTTPS://a.org:443", "--cors-origin", "http://m\u00fcnchen.de:80"]
    more = ["--cors-origin", "http://[::1]:8080", "--cors-origin", "http://localhost:443"]
    options = parse([*hosts, *origins, *more])
    assert options.allowed_hosts == ("a.org", "xn--mnchen-3ya.de")
    assert options.cors_origins == (
        "https://a.org",
        "http://xn--mnchen-3ya.de",
        "http://[::1]:8080",
        "http://localhost:443",
    )


def test_a_name_does_not_command_the_terminal(tmp_path, capsys):
    (tmp_path / "\x1b[31m.toml").write_text("prot = 1")
    assert "\x1b" not in refusal(capsys, 2, "--config", str(tmp_path / "\x1b[31m.toml"))


def test_a_key_in_the_environment_is_one_key_whatever_it_holds(monkeypatch):
    monkeypatch.setenv("KAEL_SERVE_API_KEY", "long-and-strong,x")
    assert parse([]).api_keys == ("long-and-strong,x",)


def test_numbers_in_the_file_are_numbers(tmp_path):
    options = parse(["--config", write_file(tmp_path, "port = 9000\nping-seconds = 0.5\n")])
    assert (options.port, options.ping_seconds) == (9000, 0.5)


def test_the_file_may_be_named_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("KAEL_SERVE_CONFIG", write_file(tmp_path, "port = 9000"))
    assert parse([]).port == 9000


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("port = 70000", "port: '70000' is no port"),
        ("port = true", "port: expected a text or a number"),
        ("port = [1]", "port: expected a text or a number"),
        ("data = {}", "data: expected a text or a number"),
        ("api-key = [1]", "api-key: expected a text, in quotes"),
        ("ping-seconds = nan", "ping-seconds: 'nan' is no time"),
        ("ping-seconds = -1", "ping-seconds: '-1' is no time"),
        ("ping-seconds = 1e-9", "ping-seconds: '1e-09' is no time in seconds, expected 0 or 0.1 to 86400"),
        ("idle-seconds = 0", "idle-seconds: '0' is no time"),
        ("max-body-bytes = 5", "max-body-bytes: '5' is no number of bytes, expected 1024 to"),
        ("host = ''", "host: the address is empty"),
        ("api-key = ''", "api-key: the key is not 1 to"),
        ("api-key = 'two words'", "api-key: the key is not 1 to"),
        ("allowed-host = 'https://a.org'", "allowed-host: 'https://a.org' is no host name"),
        ("cors-origin = 'a.org'", "cors-origin: 'a.org' is no origin"),
        ("cors-origin = 'https://a.org/x'", "is no origin"),
        ("busy-status = 500", "busy-status: '500' is unknown, expected 429 or 503"),
        ("prot = 9000", "'prot' is no setting"),
        ("config = 'x'", "'config' is no setting"),
        ("port 9000", "is not TOML"),
        ("port = " + 5000 * "9", "is not TOML"),
        ("port = " + 3000 * "[" + 3000 * "]", "is nested too deeply"),
        ('api-key-file = "a\\u0000b"', "api-key-file: the name of the file holds a NUL character"),
        ("allowed-host = '*.a.org'", "allowed-host: '*.a.org' is no host name"),
        ('allowed-host = "a\\nb"', "is no host name"),
        ("cors-origin = 'https://['", "is no origin"),
        ('cors-origin = "http://a\\nb"', "is no origin"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_with_its_place(text, named, tmp_path, capsys):
    file = write_file(tmp_path, text)
    line = refusal(capsys, 2, "--config", file)
    assert named in line
    assert file in line


def test_bytes_that_are_no_text_are_not_toml(tmp_path, capsys):
    (tmp_path / "kael.toml").write_bytes(b"\xff\xfe")
    assert "is not TOML" in refusal(capsys, 2, "--config", str(tmp_path / "kael.toml"))


@pytest.mark.parametrize("name", ["absent.toml", "."])
def test_a_file_that_cannot_be_read_is_named(name, tmp_path, capsys):
    assert "cannot read" in refusal(capsys, 1, "--config", str(tmp_path / name))


def test_a_mistake_in_the_environment_names_its_variable(monkeypatch, capsys):
    monkeypatch.setenv("KAEL_SERVE_PORT", "http")
    assert "KAEL_SERVE_PORT: 'http' is no port" in refusal(capsys, 2)


def test_the_settings_that_a_check_prints_are_a_file_of_settings(tmp_path):
    folder = server_checkpoint.write(tmp_path / "m\U0001f600\x7fdel")
    arguments = ["--data", folder, "--max-body-bytes", 70_000, "--ping-seconds", 0.25]
    result = server_process.run("--check", *arguments)
    assert result.returncode == 0, result.stderr
    printed = result.stdout.rsplit("\n", 2)[0]
    assert tomllib.loads(printed)["max-body-bytes"] == 70_000
    assert "max-body-bytes = 70000  # flag" in printed
    again = vars(parse(["--config", write_file(tmp_path, printed)]))
    given = vars(parse([*map(str, arguments)]))
    ignored = {"sources", "config"}
    assert {k: v for k, v in again.items() if k not in ignored} == {
        k: v for k, v in given.items() if k not in ignored
    }


def test_the_program_serves_by_its_settings(tmp_path):
    folder = server_checkpoint.write(tmp_path / "model")
    with server_process.serve("--data", folder, "--max-body-bytes", 2000) as server:
        assert "2000 bytes" in server.post(b"x" * 2001).json["error"]
        assert server.post(b"x" * 2000).status == 422
