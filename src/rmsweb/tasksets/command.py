"""What `rmsweb tasks` prints: text of what is known, of what was fetched, and of what a file is.

Owns the wording of these listings. Prints nothing itself and changes nothing but the file it is asked to fetch or make.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from rmsweb.errors import ConfigError, RmswebError
from rmsweb.tasksets import fetch, load, only, save, together
from rmsweb.tasksets.dates import dated, moving
from rmsweb.tasksets.known import COMMON, common, versions
from rmsweb.tasksets.patches import apply_patches
from rmsweb.tasksets.references import beside, described
from rmsweb.tasksets.taskset import TaskSet, counted, goal_hash, named

ENDINGS = (".jsonl", ".json", ".tsv")


def command_list(path: Path | None = None, *, search_url: str = "") -> str:
    """The known task sets and id lists; with a folder or file, what each task file in it is."""
    if path is not None:
        return _listing(path, search_url)
    rows = [("name", "tasks", "licence", "sha256", "fetched by rmsweb", "note")]
    for version in versions():
        how = "no" if not version.fetch else "yes, where the gate lets it" if version.gated else "yes"
        tasks = str(version.rows) if version.rows else "?"
        rows.append((version.key, tasks, version.licence or "none", version.sha256 or "-", how, version.note))
    lists = [
        f"  {name}: {len(common(name))} ids with one text in {', '.join(among)}" for name, (_, among) in COMMON.items()
    ]
    return "\n".join([*_columns(rows), "", "Lists of ids whose text is the same in several versions:", *lists])


def command_get(name: str, folder: Path, *, base_url: str = "") -> str:
    """Fetch a set and say where it lies. Raises as `fetch.get`."""
    found = fetch.get(name, folder, base_url=base_url)
    return "\n".join([str(found.path), *(f"  {note}" for note in found.notes)])


def command_check(
    paths: Sequence[Path], *, today: date | None = None, search_url: str = "", references: Path | None = None
) -> str:
    """What each task file is: version, hashes, counts, what was assumed or left out, which dates have passed, and how
    many reference answers are stale (`references`: their file; else the one beside the task file).

    Several files have to make one set: raises ConfigError where they mix versions or benchmarks or repeat a task.
    """
    sets = [load(path, search_url=search_url) for path in paths]
    said = []
    for path, taskset in zip(paths, sets, strict=True):
        lines = [f"{path}:"] if len(paths) > 1 else []
        lines.append(describe(taskset, today or date.today()))
        answers = references or (beside(path) if taskset.name == "webvoyager" else None)
        if answers is not None:
            lines.append(f"  {described(taskset, answers)}; no judge here is shown one")
        said.append("\n".join(lines))
    if len(sets) > 1:
        one = together(sets)
        said.append("\n".join([f"together: {one.label}", *(f"  note: {note}" for note in one.notes)]))
    return "\n".join(said)


def command_make(
    path: Path,
    out: Path,
    *,
    patches: Path | None = None,
    ids: str = "",
    today: date | None = None,
    search_url: str = "",
) -> str:
    """Write a patched set or the tasks of a list (`COMMON`) as rmsweb's JSON lines, and say what the new file is (its
    own hashes and version), what it was made of and what was left out."""
    taskset = load(path, search_url=search_url)
    if patches is not None:
        taskset = apply_patches(taskset, patches)
    if ids:
        if COMMON.get(ids, ("", ()))[0] not in ("", taskset.name):
            raise ConfigError(f"{ids} is a list of {COMMON[ids][0]}, {path} is {taskset.name}")
        taskset = only(taskset, common(ids), ids)
    save(taskset, out)
    made = load(out, search_url=search_url)
    notes = dict.fromkeys((f"made of {path}: {taskset.label}", *made.notes, *taskset.notes))
    said = replace(made, notes=tuple(notes), excluded=taskset.excluded)
    return f"{out}\n{describe(said, today or date.today())}"


def describe(taskset: TaskSet, today: date) -> str:
    """A set in words, one fact a line."""
    lines = [
        f"{taskset.name} {taskset.version}",
        f"  {counted(len(taskset.tasks))}; sha256 {taskset.sha256[:16]}",
        f"  hash of the ids {taskset.ids_hash}, of the texts {taskset.text_hash}",
    ]
    if groups := Counter(task.template for task in taskset.tasks):
        lines.append("  " + ", ".join(f"{name} {n}" for name, n in sorted(groups.items())))
    lines += [f"  note: {note}" for note in taskset.notes]
    if taskset.excluded:
        reasons = Counter(taskset.excluded.values())
        lines.append(f"  excluded: {counted(len(taskset.excluded))}")
        lines += [f"    {why}: {named(i for i, other in taskset.excluded.items() if other == why)}" for why in reasons]
    flagged = dated(taskset.tasks, today)
    if flagged:
        lines.append(f"  dates before {today} in {counted(len(flagged))}: {named(task.id for task in flagged)}")
        first, goals = flagged[0], {task.id: task.goal for task in taskset.tasks}
        lines.append(
            f"    {first.id}: {first.found!r}; a date patch for it needs prev_sha {goal_hash(goals[first.id])[:16]}"
        )
    else:
        lines.append(f"  dates before {today} in no task")
    if again := moving(taskset.tasks):
        what = "a day without a year or a relative one, another date at each run,"
        lines.append(f"  {what} in {counted(len(again))}: {named(again)}")
    return "\n".join(lines)


def _listing(path: Path, search_url: str) -> str:
    files = sorted(p for p in path.iterdir() if p.suffix in ENDINGS and p.is_file()) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{path} has no file that ends in {', '.join(ENDINGS)}")
    rows = []
    for file in files:
        try:
            taskset = load(file, search_url=search_url or "https://search.invalid/")
            rows.append((file.name, str(len(taskset.tasks)), f"{taskset.name} {taskset.version}"))
        except RmswebError as error:
            if not path.is_dir():
                raise
            rows.append((file.name, "-", str(error).removeprefix(f"{file}: ")))
    return "\n".join(_columns(rows))


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
