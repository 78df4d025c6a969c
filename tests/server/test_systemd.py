"""What systemd is told, and the unit that it runs."""

from __future__ import annotations

import configparser
import os
import re
import socket

import pytest
import server_checkpoint
import server_process
from server_live import SECONDS

from server import systemd
from server.options import OPTIONS
from server.serve import SHUTDOWN_SECONDS


@pytest.fixture
def unit():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string((server_process.ROOT / "packaging/systemd/kael-server.service").read_text())
    return parser


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """A socket as systemd has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(SECONDS)
        listening.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def test_systemd_hears_of_start_life_and_end(manager, monkeypatch, tmp_path):
    monkeypatch.setenv("WATCHDOG_USEC", "60000")
    with server_process.serve("--data", server_checkpoint.write(tmp_path / "model")) as server:
        assert manager.recv(100) == b"READY=1"
        assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        server.signal()
        assert server.wait() == 0
    last = manager.recv(100)
    while last == b"WATCHDOG=1":
        last = manager.recv(100)
    assert last == b"STOPPING=1"


def test_a_name_of_the_abstract_namespace_is_understood(monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(SECONDS)
        name = f"kael-test-{os.getpid()}"
        try:
            listening.bind("\0" + name)
        except OSError:
            pytest.skip("this system has no abstract names of sockets")
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        systemd.notify("READY=1")
        assert listening.recv(100) == b"READY=1"


def test_a_manager_that_is_gone_is_no_failure(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    systemd.notify("READY=1")
    assert "does not take READY=1" in caplog.text


def test_without_a_manager_nothing_is_said(monkeypatch, caplog):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    systemd.notify("READY=1")
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_it_is_watched_where_systemd_says_so(variables, seconds, monkeypatch):
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert systemd.watchdog_seconds() == seconds


def test_the_unit_grants_more_time_than_a_shutdown_takes(unit):  # B070
    assert int(unit["Service"]["TimeoutStopSec"]) > SHUTDOWN_SECONDS


def test_the_unit_waits_for_what_the_server_says(unit):
    assert unit["Service"]["Type"] == "notify"
    assert int(unit["Service"]["WatchdogSec"]) >= 30


def test_the_units_example_names_settings_that_there_are():
    text = (server_process.ROOT / "packaging/systemd/kael-server.service").read_text()
    named = set(re.findall(r"\bKAEL_SERVE_\w+", text))
    assert named
    assert named <= {option.variable for option in OPTIONS}
