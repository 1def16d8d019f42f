"""Fetching from a real server on loopback: good file, wrong file, missing, gated, broken off, nobody there."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rmsweb.errors import ConfigError, DataError, EndpointError
from rmsweb.tasksets import get, load
from rmsweb.tasksets.command import command_get
from rmsweb.tasksets.known import version_named, versions

DATA = (Path(__file__).parents[2] / ".." / "shared" / "data").resolve()
TABLE = b"benchmark\tid\ttask_summary\tinit_url\tprecomputed_rubric\nflights\tf_1\tFly.\t\t\n"
ROW = b'{"task_id": "0123", "confirmed_task": "Look.", "website": "https://a.example/", "level": "easy"}\n'


@contextmanager
def served(
    body: bytes, *, status: int = 200, promised: int | None = None, length: bool = True
) -> Iterator[tuple[str, list[str]]]:
    """(base URL, paths asked for) of a server that gives everybody the same answer."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            if length:
                self.send_header("Content-Length", str(len(body) if promised is None else promised))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def test_a_good_file_is_checked_and_kept(tmp_path: Path) -> None:
    if not DATA.is_dir():
        pytest.skip(f"../shared/data is absent: {DATA}")
    body = (DATA / "webvoyager" / "original-643.jsonl").read_bytes()
    with served(body) as (base, asked):
        found = get("webvoyager/original", tmp_path / "new", base_url=base)
        assert found.path == tmp_path / "new" / "webvoyager-original.jsonl" and found.path.read_bytes() == body
        assert asked == ["/MinorJerry/WebVoyager/main/data/WebVoyager_data.jsonl"]
        assert load(found.path).version == "original" and "licence Apache-2.0" in found.notes
        again = get("webvoyager/original", tmp_path / "new", base_url=base)
        assert again.notes == ("is there already, with the hash on record",) and len(asked) == 1
        found.path.write_bytes(body[:-1])
        with pytest.raises(DataError, match="is there already and is not webvoyager/original"):
            get("webvoyager/original", tmp_path / "new", base_url=base)


def test_a_changed_file_is_not_kept(tmp_path: Path) -> None:
    with served(ROW) as (base, _), pytest.raises(DataError, match=r"the source has changed\. Nothing is kept"):
        get("webvoyager/fara-2025-08", tmp_path, base_url=base)
    assert list(tmp_path.iterdir()) == []


def test_a_set_without_a_hash_on_record_is_taken_and_says_so(tmp_path: Path) -> None:
    with served(ROW) as (base, _):
        said = command_get("online_mind2web/current", tmp_path, base_url=base)
        assert said.startswith(str(tmp_path / "online_mind2web-current.json"))
        digest = hashlib.sha256(ROW).hexdigest()[:16]
        assert f"sha256 {digest}: not checked, no hash of this set is on record" in said
        again = get("online_mind2web/current", tmp_path, base_url=base)
        assert "was left alone" in again.notes[0]
    with served(b"<html>log in</html>") as (base, _), pytest.raises(DataError, match="gives a web page"):
        get("webtailbench/v2", tmp_path, base_url=base)
    with served(b" ") as (base, _), pytest.raises(DataError, match="or nothing"):
        get("webtailbench/v2", tmp_path, base_url=base)


@pytest.mark.parametrize(
    ("status", "message"), [(404, "answers 404"), (401, "it is gated.*log in there"), (500, "500")]
)
def test_what_the_server_says_is_passed_on(tmp_path: Path, status: int, message: str) -> None:
    with served(b"no", status=status) as (base, _), pytest.raises(EndpointError, match=message) as caught:
        get("online_mind2web/current", tmp_path, base_url=base)
    assert caught.value.reason == "http" and "to get online_mind2web/current by hand" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_body_that_breaks_off_is_not_kept(tmp_path: Path) -> None:
    with served(ROW, promised=5000) as (base, _), pytest.raises(EndpointError, match="broke off after") as caught:
        get("webtailbench/v2", tmp_path, base_url=base)
    assert caught.value.reason == "truncated" and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("online_mind2web/current", b"[" + ROW, "gives no task file .*a comma or ] is missing"),
        ("online_mind2web/current", b'{"error": "try later"}', "gives no task file .*rows have error"),
        ("webtailbench/v2", ROW, "gives a task file of online_mind2web, not webtailbench/v2"),
        ("webtailbench_refusals/refusals", TABLE, "gives 1 tasks, webtailbench_refusals/refusals has 111"),
    ],
)
def test_without_a_hash_the_content_has_to_be_the_sets(tmp_path: Path, name: str, body: bytes, message: str) -> None:
    with served(body) as (base, _), pytest.raises(DataError, match=rf"{message}.*nothing is kept: try again; to get"):
        get(name, tmp_path, base_url=base)
    assert list(tmp_path.iterdir()) == []


def test_without_a_hash_and_a_length_nothing_is_taken(tmp_path: Path) -> None:
    with served(TABLE, length=False) as (base, _):
        with pytest.raises(
            EndpointError, match="names no length and no hash of webtailbench/v2 is on record"
        ) as caught:
            get("webtailbench/v2", tmp_path, base_url=base)
        with pytest.raises(DataError, match="the source has changed"):
            get("webtailbench/v1", tmp_path, base_url=base)
    assert caught.value.reason == "truncated" and list(tmp_path.iterdir()) == []


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(
        EndpointError, match=r"cannot be reached .*to get webtailbench/v1 by hand: save https.*suite\.path"
    ):
        get("webtailbench/v1", tmp_path, base_url="http://127.0.0.1:9")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(EndpointError, match=r"gave nothing for 0\.2 s") as caught:
            get("webtailbench/v1", tmp_path, base_url=base, timeout_s=0.2)
        assert caught.value.reason == "timeout"


def test_without_a_licence_nothing_is_fetched(tmp_path: Path) -> None:
    with served(ROW) as (base, asked):
        with pytest.raises(
            ConfigError, match=r"webvoyager/magnitude is not fetched: .*no licence file.*Source: https.*suite\.path"
        ):
            get("webvoyager/magnitude", tmp_path, base_url=base)
        assert asked == []
    with pytest.raises(ConfigError, match="no task set is called 'x'; there are webvoyager/original"):
        get("x", tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with served(TABLE) as (base, _), pytest.raises(ConfigError, match="cannot be written"):
        get("webtailbench/v2", tmp_path / "file", base_url=base)


def test_every_set_that_is_fetched_has_a_licence_and_an_address() -> None:
    for version in versions():
        assert bool(version.licence and version.url) == version.fetch, version.key
        assert version.url.startswith("https://") or not version.fetch
        assert version_named(version.key) is version
