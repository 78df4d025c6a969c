"""The distribution kael-server, as pip makes it of the folder server/."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile

import pytest
import server_process

setuptools = pytest.importorskip("setuptools", reason="setuptools, which builds the wheel, is not installed")

BUILD = "import setuptools.build_meta as build; print(build.build_wheel('.'))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip(f"setuptools {setuptools.__version__} is older than pyproject.toml asks for")
    source = tmp_path_factory.mktemp("wheel") / "server"
    shutil.copytree(
        server_process.ROOT / "server", source, ignore=shutil.ignore_patterns("build", "*.egg-info")
    )
    command = [sys.executable, "-W", "ignore", "-c", BUILD]
    result = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120, check=True)
    return source / result.stdout.splitlines()[-1]


def test_it_holds_the_package_under_a_name_of_its_own(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    folder = server_process.ROOT / "server"
    sources = [*folder.rglob("*.py"), *(folder / "playground").iterdir()]
    assert names == {f"kael_server/{source.relative_to(folder)}" for source in sources}


def test_it_has_the_projects_version_and_a_command(wheel):
    version = (server_process.ROOT / "VERSION").read_text().strip()
    assert wheel.name == f"kael_server-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        entry_points = archive.read(f"kael_server-{version}.dist-info/entry_points.txt").decode()
    assert "kael-server = kael_server.__main__:main" in entry_points


def test_it_runs_where_there_is_no_checkout(wheel, tmp_path):
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    environment = server_process.environment([installed, server_process.ROOT / "py"])
    result = subprocess.run(
        [sys.executable, "-m", "kael_server", "--version"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.startswith("kael-server ")
