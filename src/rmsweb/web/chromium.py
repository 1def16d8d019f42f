"""Finds a Chromium and says how it is started.

Owns the launch arguments: the ones that make pages render alike everywhere, the ones that keep a browser quiet and
light, and the question whether its sandbox can run. Owns the temporary folder of one pool, and removes those that
dead runs left behind. Never starts a browser and never switches web security or certificate checks off.
"""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmsweb.errors import MissingPartError

SYSTEM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Looked up in PATH, in this order. Headless shell first: with several contexts on few cores it is 2-3 times faster."""

RENDER_ARGS = (
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--disable-gpu",
    "--disable-smooth-scrolling",
    "--disable-partial-raster",
    "--disable-skia-runtime-opts",
    "--lang=en-US",
)
"""Pixels must depend on the page alone: the tiny model reads one rendering; a scroll is over when it returns."""

FEATURES_OFF = (
    # Playwright switches these off; its own list is lost, since of two --disable-features the last counts.
    *("AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose"),
    *("HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay", "NetworkTimeServiceQuerying"),
    *("OptimizationHints", "PaintHolding", "ThirdPartyStoragePartitioning", "MediaRouter"),
    *("AutofillServerCommunication", "InterestFeedContentSuggestions", "Translate"),
    # A spare process for every context, and a new frame for every document: a third of what a small page costs.
    *("RenderDocument", "SpareRendererForSitePerProcess"),
)

QUIET_ARGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    f"--disable-features={','.join(FEATURES_OFF)}",
    "--disable-sync",
    "--no-pings",
    "--disable-extensions",
    "--mute-audio",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
"""A browser speaks with the page's hosts and nobody else; WebRTC may not go round the network rules."""

FOLDER_PREFIX = "rmsweb-browser-"


def find_executable(setting: str = "") -> Path:
    """The Chromium to start: the setting, RMSWEB_CHROMIUM, one in PATH, Playwright's own.

    Raises MissingPartError, which names what was tried and how to cure it.
    """
    for source, named in (("browser.executable", setting), ("RMSWEB_CHROMIUM", os.environ.get("RMSWEB_CHROMIUM", ""))):
        if named:
            found = shutil.which(named)
            if found is None:
                raise MissingPartError(
                    f"{source} is {named!r}, which is no program that can be started; correct or unset it"
                )
            return Path(found)
    for name in SYSTEM_NAMES:
        if found := shutil.which(name):
            return Path(found)
    for path in _playwright_browsers():
        return path
    raise MissingPartError(
        "no Chromium found: browser.executable and RMSWEB_CHROMIUM are unset, none of "
        f"{', '.join(SYSTEM_NAMES)} is in PATH, and Playwright has downloaded none. "
        "Install one ('apt-get install chromium-headless-shell' or 'playwright install chromium --only-shell'), "
        "or name one with --set browser.executable=/path/to/chromium"
    )


def _playwright_browsers() -> Iterator[Path]:
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    root = Path(named) if named and named != "0" else Path.home() / ".cache" / "ms-playwright"
    patterns = ("chromium_headless_shell-*/*/headless_shell", "chromium_headless_shell-*/*/chrome-headless-shell")
    for pattern in (*patterns, "chromium-*/*/chrome"):
        yield from sorted((path for path in root.glob(pattern) if os.access(path, os.X_OK)), reverse=True)


def require_playwright() -> None:
    """Raises MissingPartError where the Python package is not there."""
    if importlib.util.find_spec("playwright") is None:
        raise MissingPartError(
            "the package playwright is not installed; run 'pip install playwright' (or 'make setup')"
        )


def sandbox_note(wanted: bool) -> str:
    """Why Chromium's sandbox is off; empty when it is on. It is left out for root, who cannot run it."""
    if not wanted:
        return "Chromium's sandbox is off: browser.sandbox=false"
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return "Chromium's sandbox is off: it cannot run as root; start as another user to have it"
    return ""


def sweep_leftovers() -> int:
    """Removes browser folders whose process is dead (a killed run); returns how many. Others' folders stay."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        if _owner_is_dead(folder):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _owner_is_dead(folder: Path) -> bool:
    """The folder's name carries the pid and the start time of the process that made it: a pid may come again."""
    pid, _, started = folder.name.removeprefix(FOLDER_PREFIX).partition("-")
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _started(int(pid)) not in ("", started.partition("-")[0])


def _started(pid: int) -> str:
    """Start time of a process in clock ticks since boot; empty where /proc is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def make_folder() -> Path:
    """A temporary folder that says whose it is, for the profiles and downloads of one pool."""
    pid = os.getpid()
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{pid}-{_started(pid)}-"))


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """TMPDIR for the Playwright driver, which copies the environment when it is started and has no other setting."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


def environment(folder: Path) -> dict[str, str | float | bool]:
    """The browser's environment: temporary files in the pool's folder, and no secrets (keys of model endpoints)."""
    kept = (
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "DISPLAY",
        "XDG_RUNTIME_DIR",
        "LD_LIBRARY_PATH",
        "FONTCONFIG_PATH",
        "FONTCONFIG_FILE",
    )
    return {**{name: os.environ[name] for name in kept if name in os.environ}, "TMPDIR": str(folder)}


if __name__ == "__main__":  # scripts/setup.sh asks: which browser, or exit code 1
    try:
        print(find_executable())
    except MissingPartError as missing:
        raise SystemExit(f"{missing}") from None
