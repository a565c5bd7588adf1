"""The commands: dehydrator-server, dehydrator-cli and dehydrator-top."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dehydrator_queue_server.temporary import free_port

SERVER, CLI, TOP = (
    Path(sys.executable).with_name(name) for name in ("dehydrator-server", "dehydrator-cli", "dehydrator-top")
)


def cli(port: int, *words: str) -> str:
    ended = subprocess.run([CLI, "-p", str(port), *words], capture_output=True, text=True)
    return ended.stdout.strip()


@contextmanager
def running(folder: Path, port: int, *words: str, **options: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a server, waits until it answers, and ends it as Ctrl-C does."""
    with (
        open(folder / "output", "w") as output,
        subprocess.Popen(
            [SERVER, "--port", str(port), *words], cwd=folder, text=True, stdout=output, stderr=output, **options
        ) as process,
    ):
        begun = time.monotonic()
        while cli(port, "PING") != "PONG":
            assert process.poll() is None, (folder / "output").read_text()
            # Only a failing test waits that long.
            assert time.monotonic() - begun < 240
            time.sleep(0.01)
        print(f"PONG after {time.monotonic() - begun:.3f} s")
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=240) == 0


def test_ctrl_c_stops_it_and_what_it_had_is_there_at_the_next_start(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port):
        assert cli(port, "DEHYDRATOR.PUSH", "jobs", "600000", "element", "id") == "OK"
        second = subprocess.run(
            [SERVER, "--port", str(free_port())], cwd=tmp_path, capture_output=True, text=True, timeout=240
        )
        assert (second.returncode, "A server is using" in second.stderr) == (1, True)
        third = subprocess.run(
            [SERVER, "--port", str(port), "--dir", "other"], cwd=tmp_path, capture_output=True, text=True
        )
        assert (third.returncode, f"Port {port} is in use" in third.stderr) == (1, True)
    assert f"dehydrator-cli -p {port}" in (tmp_path / "output").read_text()
    assert (tmp_path / "data" / "appendonlydir").is_dir()
    with running(tmp_path, port):
        assert cli(port, "DEHYDRATOR.LOOK", "jobs", "id") == "element"


def test_a_page_shows_it(tmp_path: Path) -> None:
    port = free_port()
    with (
        running(tmp_path, port),
        subprocess.Popen(
            [TOP, "--web", "127.0.0.1:0", f"redis://127.0.0.1:{port}"], text=True, stdout=subprocess.PIPE
        ) as page,
    ):
        try:
            assert page.stdout is not None
            url = page.stdout.readline().split()[-1]
            with urllib.request.urlopen(url, timeout=240) as answer:
                assert b"<title>Dehydrator" in answer.read()
        finally:
            page.terminate()


def test_other_options_are_the_servers(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port, "--hz", "17", "--dir", "elsewhere"):
        assert cli(port, "CONFIG", "GET", "hz") == "hz\n17"
        assert cli(port, "CONFIG", "GET", "dir") == f"dir\n{tmp_path}/elsewhere"
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="it is not root who runs it")
def test_it_needs_no_root(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    os.chown(tmp_path, 65534, 65534)
    port = free_port()
    with running(tmp_path, port, user=65534, group=65534):
        assert cli(port, "DEHYDRATOR.PUSH", "jobs", "1", "element", "id") == "OK"
    assert (tmp_path / "data").stat().st_uid == 65534
