"""Fetches a task file from its public source, where its licence allows it and the network lets it.

Promises that a file is complete and has the hash on record, or is not kept at all; that a set without a licence is
never fetched; that whatever cannot be fetched is named with the way to get it by hand. Sends no credentials.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rmsweb.errors import ConfigError, DataError, EndpointError
from rmsweb.tasksets.known import Version, version_named, versions
from rmsweb.tasksets.reading import parse

TIMEOUT_S = 60.0
LARGEST = 64 << 20
"""Bytes taken from a source at most."""
Opener = Callable[..., Any]
"""`urllib.request.urlopen`, or the `open` of an opener with other handlers."""


class Fetched(NamedTuple):
    """Where the file lies and what is to be known about it."""

    path: Path
    notes: tuple[str, ...]


def get(
    name: str,
    folder: Path | str,
    *,
    opener: Opener = urllib.request.urlopen,
    base_url: str = "",
    timeout_s: float = TIMEOUT_S,
) -> Fetched:
    """Fetch the set `benchmark/version` into a folder; a file that is there with the right hash is kept.

    `base_url` takes the place of the source's scheme and host (a mirror). Raises ConfigError for a set that may not
    be fetched, EndpointError when the source does not give it, DataError when what it gives is not the set.
    """
    version = version_named(name)
    if not version.fetch or not version.licence:
        raise ConfigError(
            f"{name} is not fetched: {version.note}. Source: {version.repository}; name the file in suite.path, and "
            "'rmsweb tasks check FILE' says whether it is the set"
        )
    path = Path(folder) / file_name(version)
    if path.exists():
        return _kept(version, path)
    url = _address(version, base_url)
    data = _download(version, url, opener, timeout_s)
    _check(version, data, url, path)
    try:
        _write(path, data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from None
    return Fetched(path, (f"{len(data)} bytes from {url}", f"licence {version.licence}", *_remarks(version, data)))


def file_name(version: Version) -> str:
    """`benchmark-version` with the source's ending."""
    return f"{version.benchmark}-{version.name}{Path(urlsplit(version.url).path).suffix}"


def how_to_get(path: Path) -> str:
    """The command that brings a task file which is not there: exactly, where `path` has the name that `get` gives."""
    for version in versions():
        if version.fetch and path.name == file_name(version):
            return f"'rmsweb tasks get {version.key} -o {path.parent}' downloads it"
    return "'rmsweb tasks get NAME -o data' downloads a public one, 'rmsweb tasks list' names them"


def by_hand(version: Version) -> str:
    """How a user gets the file without rmsweb."""
    gate = "log in there, accept its conditions, " if version.gated else ""
    source = f"(source {version.repository})"
    return f"to get {version.key} by hand: {gate}save {version.url} and name the file in suite.path {source}"


def _kept(version: Version, path: Path) -> Fetched:
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
    if not version.sha256:
        return Fetched(
            path, ("is there already and was left alone; its hash is not on record, remove it to fetch anew",)
        )
    if not digest.startswith(version.sha256):
        raise DataError(f"is there already and is not {version.key} (sha256 {digest[:16]}); move it away first", path)
    return Fetched(path, ("is there already, with the hash on record",))


def _address(version: Version, base_url: str) -> str:
    if not base_url:
        return version.url
    parts = urlsplit(version.url)
    return base_url.rstrip("/") + parts.path


def _download(version: Version, url: str, opener: Opener, timeout_s: float) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "rmsweb"})
    try:
        with opener(request, timeout=timeout_s) as response:
            data: bytes = response.read(LARGEST + 1)
            promised = response.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        error.close()
        why = "it is gated" if error.code in (401, 403) and version.gated else error.reason
        raise EndpointError(f"{url} answers {error.code} ({why}); {by_hand(version)}", "http") from None
    except http.client.IncompleteRead as error:
        raise EndpointError(
            f"{url} broke off after {len(error.partial)} bytes; {_again(version)}", "truncated"
        ) from None
    except TimeoutError:
        raise EndpointError(f"{url} gave nothing for {timeout_s:g} s; {by_hand(version)}", "timeout") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise EndpointError(f"{url} cannot be reached ({reason}); {by_hand(version)}") from None
    if len(data) > LARGEST:
        raise EndpointError(f"{url} gives more than {LARGEST >> 20} MiB; that is no task file", "http")
    if promised is not None and promised.isdigit() and int(promised) > len(data):
        raise EndpointError(f"{url} broke off after {len(data)} of {promised} bytes; {_again(version)}", "truncated")
    if promised is None and not version.sha256 and response.headers.get("Transfer-Encoding", "").lower() != "chunked":
        raise EndpointError(
            f"{url} names no length and no hash of {version.key} is on record, so that nobody can say whether the "
            f"{len(data)} bytes are all; {_again(version)}", "truncated",
        )  # fmt: skip
    return data


def _again(version: Version) -> str:
    return f"nothing is kept: try again; {by_hand(version)}"


def _check(version: Version, data: bytes, url: str, path: Path) -> None:
    """Raises DataError for bytes that are not the set; without a hash on record, that are no file of its layout."""
    digest = hashlib.sha256(data).hexdigest()
    if version.sha256 and not digest.startswith(version.sha256):
        raise DataError(
            f"{url} gives a file of {len(data)} bytes with sha256 {digest[:16]}, not {version.key} "
            f"({version.bytes} bytes, {version.sha256}): the source has changed. Nothing is kept; "
            f"look for the file in the history of {version.repository} and name it in suite.path"
        )
    if data.lstrip()[:1] == b"<" or not data.strip():
        raise DataError(f"{url} gives a web page or nothing in place of the task file; {_again(version)}")
    if not version.sha256:
        try:
            file = parse(data, path)
        except DataError as error:
            raise DataError(f"{url} gives no task file ({error}); {_again(version)}") from None
        if file.layout != version.benchmark.removesuffix("_refusals"):
            raise DataError(f"{url} gives a task file of {file.layout}, not {version.key}; {_again(version)}")
        if version.rows not in (0, len(file.rows)):
            raise DataError(f"{url} gives {len(file.rows)} tasks, {version.key} has {version.rows}; {_again(version)}")


def _remarks(version: Version, data: bytes) -> tuple[str, ...]:
    if version.sha256:
        return (version.note,)
    digest = hashlib.sha256(data).hexdigest()
    return (f"sha256 {digest[:16]}: not checked, no hash of this set is on record", version.note)


def _write(path: Path, data: bytes) -> None:
    """All of it or nothing: written beside, flushed, renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
