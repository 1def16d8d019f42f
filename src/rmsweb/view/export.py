"""The viewer as a folder of files that opens without a server: index.html, one page a trajectory, pictures once."""

from pathlib import Path

from rmsweb.errors import DataError
from rmsweb.store import write_atomic
from rmsweb.view.index import Index
from rmsweb.view.pages import ASSETS, CSP, Addresses, asset, list_page, story_page

# Where pages are files, the browser knows no `self`: the policy names the scheme as well.
POLICY = CSP.replace("'self'", "'self' file:")


def export(index: Index, out: Path) -> Path:
    """Write everything under `out` and return the path of index.html. Raises DataError when a picture is missing."""
    rows = index.rows()
    top = Addresses("index.html", "", lambda key: f"t/{key}.html", lambda sha: f"images/{sha}.png", POLICY)
    below = Addresses("../index.html", "../", lambda key: f"{key}.html", lambda sha: f"../images/{sha}.png", POLICY)
    for name in ASSETS:
        write_atomic(out / name, asset(name))
    keys = [None, *(row.key for row in rows), None]
    for place, row in enumerate(rows):
        story = index.story(row.key)
        assert story is not None
        page = story_page(index.title, story, keys[place], keys[place + 2], below)
        write_atomic(out / "t" / f"{row.key}.html", page.encode())
        for sha in {s for step in story.trajectory.steps for s in (step.before.image, step.after.image)}:
            _picture(index, out / "images" / f"{sha}.png", sha)
    write_atomic(out / "index.html", list_page(index.title, rows, top).encode())
    return out / "index.html"


def _picture(index: Index, path: Path, sha: str) -> None:
    if path.exists():
        return
    data = index.image(sha)
    if data is None:
        raise DataError(f"picture {sha} is missing; was the run copied without its images folder?", path)
    write_atomic(path, data)
