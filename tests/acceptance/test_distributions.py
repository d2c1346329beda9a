"""What is released: an sdist, and a wheel made from it, which works in an empty environment with each of its extras.

Nothing is downloaded: beside the wheel there is only what an extra asks for, linked from the environment of the tests.
So a package that we import and do not ask for is not there.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import textwrap
import venv
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import release

ROOT = Path(__file__).parents[2]
PATIENCE = 110  # seconds
SERVED = """
import json, signal, subprocess, sys, urllib.request
from pathlib import Path
Path("tidegate.toml").write_text("apps = [{apps}]")
command = [Path(sys.executable).with_name("tidegate"), "serve", "--port", "0", "--json", "--simulators"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    address = json.loads(server.stdout.readline())["address"]
    for path in [{paths}]:
        assert urllib.request.urlopen(address + path).status == 200, path
finally:
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
"""

# What each extra is for, in a program that does it.
USES = {
    "": """
        from tidegate import Queue, Target, classify
        assert classify(TimeoutError()).retriable
        assert Target("a").guard()(lambda: 7)() == 7
        with Queue("sqlite:///a.db") as queue:
            queue.job(queue="a", name="a")(lambda n: None).enqueue(1)
            assert queue.drain().done == 1
        import subprocess, sys
        from pathlib import Path
        said = subprocess.run([Path(sys.executable).with_name("tidegate")], capture_output=True, text=True)
        assert "pip install 'tidegate[cli]'" in said.stderr, said
    """,
    "http": """
        import httpx2
        from tidegate import Target, net
        transport = Target("a").transport(httpx2.MockTransport(lambda request: httpx2.Response(200)))
        assert httpx2.Client(transport=transport, base_url="http://a.test").get("/").status_code == 200
        net.Client(user_agent="test")
    """,
    "cli": """
        import subprocess, sys
        from pathlib import Path
        command = [Path(sys.executable).with_name("tidegate"), "classify", "--status", "503"]
        said = subprocess.run(command, capture_output=True, text=True)
        assert "retriable" in said.stdout, said
    """,
    "metrics": """
        import prometheus_client, tidegate
        registry = prometheus_client.CollectorRegistry()
        tidegate.sinks(metrics=registry)
        breaker = tidegate.Breaker("a")
        breaker.call(len, ())
        assert b'name="a"' in prometheus_client.generate_latest(registry)
    """,
    "queue": """
        import apsw
        from tidegate import Queue
        from tidegate.apps import ScheduledJob
        with Queue("sqlite:///a.db", driver="apsw") as queue:
            ScheduledJob(cron="*/5 * * * *", job=queue.job(queue="a", name="a")(lambda n: None), args=(1,), name="a")
            assert queue.drain().done == 0
    """,
    "postgres": "import psycopg, psycopg_pool, tidegate.store.postgres",
    "s3": "import obstore, tidegate",
    "apprise": "import apprise, tidegate",
    "server": SERVED.format(apps="'music', 'lidarr', 'tautulli'", paths="'/', '/music', '/lidarr', '/tautulli'"),
    "feeds": SERVED.format(apps="'feeds'", paths="'/feeds'"),
    "pdf": SERVED.format(apps="'convert'", paths="'/convert'"),
    "all": SERVED.format(apps="'convert', 'feeds', 'music', 'lidarr', 'tautulli'", paths="'/', '/convert', '/feeds'"),
}


@dataclass(frozen=True)
class Released:
    sdist: Path
    source: Path  # the sdist, unpacked
    wheel: Path
    python: Path  # of an environment with nothing but the wheel

    @property
    def inside(self) -> set[str]:
        return set(zipfile.ZipFile(self.wheel).namelist())

    def about(self, name: str) -> str:
        (found,) = [each for each in self.inside if each.endswith(f".dist-info/{name}")]
        return zipfile.ZipFile(self.wheel).read(found).decode()


def run(*command: str | Path, folder: Path, **more: str) -> None:
    done = subprocess.run(
        command, cwd=folder, env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **more}, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Released:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, folder=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, folder=source)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "empty", with_pip=False, symlinks=True)
    python = folder / "empty" / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        wheel,
        folder=folder,
    )
    return Released(sdist, source, wheel, python)


def test_the_wheel_has_every_file_of_the_packages_and_nothing_else(released: Released) -> None:
    packages = {
        str(each.relative_to(released.source / "src")) for each in released.source.glob("src/**/*") if each.is_file()
    }
    about = {each for each in released.inside if ".dist-info/" in each}

    assert released.inside - about == packages
    assert {each.partition("/")[2] for each in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "sboms/tidegate.cdx.json",
    }
    assert "tidegate/py.typed" in packages
    assert not [each for each in packages if "__pycache__" in each or each.endswith((".db", ".orig", ".rej"))]


def test_the_wheel_says_what_it_is_and_asks_for_nothing_by_itself(released: Released) -> None:
    about = Parser().parsestr(released.about("METADATA"))
    asked = [Requirement(each) for each in about.get_all("Requires-Dist", [])]

    assert (about["Name"], about["Version"]) == ("tidegate", metadata.version("tidegate"))
    assert about["Description-Content-Type"] == "text/markdown"
    release.check_metadata(released.wheel, about["Version"])
    assert [each.name for each in asked if each.marker is None] == []
    assert set(about.get_all("Provides-Extra", [])) == set(USES) - {""}
    entries = released.about("entry_points.txt")
    assert "tidegate = " in entries
    assert [each for each in ("convert", "feeds", "music", "lidarr", "tautulli") if f"{each} = " not in entries] == []


def test_the_sdist_has_what_it_takes_to_test_it(released: Released) -> None:
    for each in (
        "Makefile",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "requirements/dev.txt",
        "tests/conftest.py",
        "bench",
    ):
        assert (released.source / each).exists(), each


def asked_for(wheel: Path, extra: str) -> set[str]:
    """The names of all packages that an extra leads to."""
    names = next(each for each in zipfile.ZipFile(wheel).namelist() if each.endswith(".dist-info/METADATA"))
    own = Parser().parsestr(zipfile.ZipFile(wheel).read(names).decode()).get_all("Requires-Dist", [])
    found: set[str] = set()
    todo = [("tidegate", extra)]
    seen = set()
    while todo:
        name, wanted = todo.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        if name != "tidegate":
            found.add(name)
        for each in own if name == "tidegate" else metadata.requires(name) or ():
            needed = Requirement(each)
            if needed.marker is None or needed.marker.evaluate({"extra": wanted}):
                todo += [(needed.name, ""), *((needed.name, one) for one in needed.extras)]
    return found


def beside(folder: Path, names: set[str]) -> Path:
    """A folder with these packages, as they are installed here."""
    folder.mkdir()
    for name in names:
        there = metadata.distribution(name)
        for top in {each.parts[0] for each in there.files or ()} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(there.locate_file(top))).resolve())
    return folder


@pytest.mark.parametrize("extra", [
    pytest.param(each, marks=pytest.mark.long if "serve" in use else ()) for each, use in USES.items()
])  # fmt: skip
def test_an_extra_brings_all_that_its_use_needs(released: Released, tmp_path: Path, extra: str) -> None:
    path = beside(tmp_path / "beside", asked_for(released.wheel, extra))
    program = textwrap.dedent(USES[extra])

    run(released.python, "-s", "-c", program, folder=tmp_path, PYTHONPATH=str(path))
