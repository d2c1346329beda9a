"""What operators get in deploy/: units, a container file, a compose file; each is held to what Tidegate really has."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import defaultdict
from ipaddress import ip_network
from pathlib import Path

import pytest
import yaml

from tests.text import numbers
from tidegate.durations import seconds
from tidegate.jobs.worker import WorkerPolicy
from tidegate.web.connections import LAST_ANSWERS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMMAND = Path(sys.executable).with_name("tidegate")


def unit(path: Path) -> dict[str, list[str]]:
    """Its keys, each with all its values: a unit may say one twice, which configparser does not read."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    return subprocess.run(
        [str(each) for each in command], cwd=cwd, env=kept | variables, text=True, capture_output=True, timeout=100,
        check=False,
    )  # fmt: skip


def settings(folder: Path, text: str) -> Path:
    path = folder / "etc" / "tidegate.toml"
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o640)
    return path


def longest_stop(folder: Path) -> float:
    """Seconds that a server may take to end, whatever hangs, as long as nobody sets another grace."""
    values = json.loads(run(COMMAND, "config", "--json", cwd=folder).stdout)
    grace = seconds(next(each["value"] for each in values if each["key"] == "worker.grace"))
    return WorkerPolicy(grace=grace).longest_stop + LAST_ANSWERS


@pytest.mark.full
def test_a_service_as_the_unit_starts_it_is_green_to_the_doctor_and_stops_in_time(tmp_path: Path) -> None:
    lines = unit(DEPLOY / "systemd" / "tidegate.service")
    state = tmp_path / "state"
    state.mkdir(mode=int(lines["StateDirectoryMode"][0], 8))
    config = settings(tmp_path, f'db = "sqlite:///{state}/tidegate.db"\n[server]\nport = 0\n')
    program, *rest = shlex.split(lines["ExecStart"][0])
    assert program == "/opt/tidegate/bin/tidegate"
    service = subprocess.Popen(
        [COMMAND, *[str(config) if each == "/etc/tidegate/tidegate.toml" else each for each in rest]],
        cwd=state, umask=int(lines["UMask"][0], 8), text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    try:
        assert service.stdout is not None
        assert "http" in service.stdout.readline()
        end = time.monotonic() + 60
        while (found := run(COMMAND, "doctor", "--config", config, "--strict", cwd=state)).returncode:
            assert time.monotonic() < end, found.stdout + found.stderr
        findings = json.loads(run(COMMAND, "doctor", "--config", config, "--json", cwd=state).stdout)["findings"]
        assert [numbers(each["fact"]) for each in findings if each["id"] == "workers.there"] == [[1]]
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.iterdir() if path.is_file()}
        assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
        assert {"tidegate.db", "tidegate.key"} <= set(modes)
        service.send_signal(signal.SIGTERM)
        assert service.wait(timeout=seconds(lines["TimeoutStopSec"][0] + "s")) == 0
    finally:
        service.kill()
        service.communicate(timeout=60)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_gives_the_service_few_rights_and_time_to_end(path: Path, tmp_path: Path) -> None:
    lines = unit(path)
    assert float(lines["TimeoutStopSec"][0]) > longest_stop(tmp_path)
    assert lines["User"] == lines["Group"] == ["tidegate"]
    assert {"ProtectSystem": ["strict"], "NoNewPrivileges": ["yes"], "CapabilityBoundingSet": [""]}.items() <= dict(
        lines
    ).items()
    assert "tidegate" in (DEPLOY / "systemd" / "sysusers.conf").read_text().splitlines()[-1].split()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_takes_each_unit(path: Path, tmp_path: Path) -> None:
    # What it runs must be there to be verified.
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/opt/tidegate/bin/tidegate", str(COMMAND)))
    found = run("systemd-analyze", "verify", "--man=no", str(copy).replace("@.", "@1."), cwd=tmp_path)
    mine = [line for line in (found.stdout + found.stderr).splitlines() if path.stem.partition("@")[0] in line]
    assert mine == []


@pytest.mark.full
def test_the_commands_of_the_compose_file_and_its_settings_are_ones_that_tidegate_has(tmp_path: Path) -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    given = {"DATABASE_PASSWORD": "pass", "SECRET_KEY": "k" * 64}
    filled = re.sub(r"\$\{(\w+)(?::([-?])([^}]*))?\}", lambda m: given.get(m[1], m[3] if m[2] == "-" else ""), text)
    whole = yaml.safe_load(filled)
    services = whole["services"]
    (network,) = whole["networks"]["default"]["ipam"]["config"]
    gateway = str(next(ip_network(network["subnet"]).hosts()))
    assert services["server"]["environment"]["TIDEGATE_SERVER_TRUSTED_PROXIES"] == gateway, "a proxy on the host"
    assert set(services) == {"server", "worker", "database"}
    for name in ("server", "worker"):
        each = services[name]
        assert run(COMMAND, *each["command"], "--help", cwd=tmp_path).returncode == 0
        found = run(COMMAND, "config", cwd=tmp_path, **each["environment"])
        assert (found.returncode, found.stderr) == (0, "")
        assert each["depends_on"] == {"database": {"condition": "service_healthy"}}
        assert (DEPLOY / each["build"]["context"] / each["build"]["dockerfile"]).is_file()
        assert (each["read_only"], each["cap_drop"]) == (True, ["ALL"])
        assert seconds(each["stop_grace_period"]) > longest_stop(tmp_path)
    assert all(each.startswith("127.0.0.1:") for each in services["server"]["ports"])
    assert "ports" not in services["database"]
    # While it is made, the server answers on its socket already, and is stopped once more.
    assert "-h" in services["database"]["healthcheck"]["test"]


def test_a_container_that_is_started_by_hand_has_time_to_end(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "deploy-with-systemd-or-docker.md").read_text()
    started = [line for line in page.splitlines() if line.startswith("docker run") and " -d " in line]
    assert started
    for line in started:
        given = re.search(r"--stop-timeout (\d+)", line)
        assert given is not None, "docker kills after ten seconds"
        assert float(given[1]) > longest_stop(tmp_path)


def test_the_container_file_copies_what_is_there_and_does_not_run_as_root() -> None:
    steps = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text()).splitlines()
    words = [line.split() for line in steps if line and not line.startswith("#")]
    copied = [each for line in words if line[0] == "COPY" and "--from=build" not in line for each in line[1:-1]]
    assert copied
    assert [each for each in copied if not (ROOT / each).exists()] == []
    sent = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert {each if each in sent else each.partition("/")[0] for each in copied} == set(sent)
    last = {line[0]: line[1:] for line in words}
    assert last["USER"] == ["tidegate"]
    assert (last["ENTRYPOINT"], last["CMD"]) == (['["tidegate"]'], ['["serve"]'])
    assert any("/health/ready" in line for line in steps)


@pytest.mark.full
@pytest.mark.parametrize("by", ["variable", "file"])
def test_the_health_check_of_the_container_asks_the_port_that_is_set(by: str, tmp_path: Path) -> None:
    steps = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text()).splitlines()
    program, *rest = json.loads(next(line for line in steps if line.startswith("HEALTHCHECK")).partition(" CMD ")[2])
    assert program == "python"
    server = subprocess.Popen(
        [COMMAND, "serve", "--json", "--no-work", "--port", "0"],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    try:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["address"].rpartition(":")[2]
        if by == "file":
            (tmp_path / "tidegate.toml").write_text(f"[server]\nport = {port}\n")
        variables = {"TIDEGATE_SERVER_PORT": port} if by == "variable" else {}
        found = run(sys.executable, *rest, cwd=tmp_path, **variables)
        assert found.returncode == 0, found.stderr
    finally:
        server.kill()
        server.communicate(timeout=60)
    assert run(sys.executable, *rest, cwd=tmp_path, **variables).returncode != 0


def test_what_the_container_installs_is_what_was_tested() -> None:
    def pins(name: str) -> dict[str, str]:
        return dict(
            re.findall(r"^([\w.-]+(?:\[\S+\])?)==(\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE)
        )

    run_, build, dev = pins("run.txt"), pins("build.txt"), pins("dev.txt")
    assert {"fastapi", "apsw", "psycopg"} <= set(run_)
    assert "hatchling" in build
    assert {name: pin for name, pin in (run_ | build).items() if dev.get(name) != pin} == {}
    steps = (DEPLOY / "Containerfile").read_text()
    bare = [each for each in re.findall(r"pip install .*", steps) if not re.search("--require-hashes|--no-deps", each)]
    assert bare == []
