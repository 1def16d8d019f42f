"""The published files: rows, counts, versions, and what they share, recounted. Facts only, no texts."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rmsweb.errors import ConfigError, DataError
from rmsweb.records import Task
from rmsweb.tasksets import (
    TaskSet,
    common,
    load,
    only,
    save,
    text_host_overlap,
    together,
)
from rmsweb.tasksets.command import command_make
from rmsweb.tasksets.known import COMMON, facts_of, ids_of, versions
from rmsweb.tasksets.references import reference_answers, stale_references

DATA = (Path(__file__).parents[2] / ".." / "shared" / "data").resolve()
SEARCH = "https://duckduckgo.com/?q={query}"
ORIGINAL, FARA, MOLMO = (f"webvoyager/{n}.jsonl" for n in ("original-643", "fara-595", "molmoweb-595"))
JANUARY, JUNE_IDS = "online_mind2web/2026-01.json", "online_mind2web/2025-06.ids.tsv"
V1, MOLMO_WTB = "webtailbench/v1-rubrics.jsonl", "webtailbench/molmoweb-609.json"


def real(name: str) -> Path:
    if not DATA.is_dir():
        pytest.skip(f"../shared/data is absent: {DATA}")
    return DATA / name


def loaded(name: str) -> TaskSet:
    return load(real(name), search_url=SEARCH)


def goals(taskset: TaskSet) -> dict[str, str]:
    return {task.id: task.goal for task in taskset.tasks}


def june_rows() -> list[dict[str, Any]]:
    """June 2025 as its ids and levels say; the texts are ours."""
    lines = real(JUNE_IDS).read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [
        {
            "task_id": ident,
            "confirmed_task": f"look at page {ident}",
            "website": "https://www.example.com/",
            "reference_length": int(length),
            "level": level,
        }
        for ident, level, length in rows
    ]


def write(path: Path, rows: list[dict[str, Any]], *, lines: bool = True) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) if lines else json.dumps(rows, indent=1))
    return path


@pytest.mark.parametrize(
    ("name", "version", "rows", "dropped"),
    [
        (ORIGINAL, "original", 643, {}),
        (FARA, "fara-2025-08", 595, {"Apple": 11, "BBC News": 10, "ESPN": 7, "Huggingface": 6, "Allrecipes": 5}),
        (MOLMO, "molmoweb-2026-04", 595, {"Amazon": 3, "Coursera": 2, "Google Flights": 1, "Booking": 1, "ArXiv": 1}),
    ],
)
def test_webvoyager_files(name: str, version: str, rows: int, dropped: dict[str, int]) -> None:
    taskset = loaded(name)
    assert (taskset.name, taskset.version, len(taskset.tasks)) == ("webvoyager", version, rows)
    sites = Counter(task.site for task in taskset.tasks)
    full = {"Wolfram Alpha": 46, "Allrecipes": 45, "Booking": 44, "ESPN": 44, "Amazon": 41, "GitHub": 41}
    full |= {"Google Map": 41, "BBC News": 42, "Coursera": 42, "Google Flights": 42} | dict.fromkeys(
        ("Apple", "ArXiv", "Cambridge Dictionary", "Google Search", "Huggingface"), 43
    )
    assert sum(full.values()) == 643 and len(full) == 15
    assert {site: full[site] - sites[site] for site in dropped} == dropped
    assert rows < 643 or sites == full
    task = taskset.tasks[0]
    assert (task.suite, task.split, task.template) == ("webvoyager", "exam", task.site)
    assert task.goal == task.goal.strip() and task.start_url.startswith("https://")


def test_what_fara_drops_and_rewords() -> None:
    original, fara, molmo = goals(loaded(ORIGINAL)), goals(loaded(FARA)), goals(loaded(MOLMO))
    assert len(original.keys() - fara.keys()) == 48 and fara.keys() < original.keys() and molmo.keys() == fara.keys()
    reworded = {i for i in fara if fara[i] != original[i]}
    assert len(reworded) == 86 and len([i for i in fara if fara[i] != molmo[i]]) == 82
    by_site = Counter(i.partition("--")[0] for i in reworded)
    assert (by_site["Booking"], by_site["Google Flights"], by_site["ESPN"]) == (36, 34, 7)
    assert set(stale_references(loaded(FARA))) == reworded and stale_references(loaded(ORIGINAL)) == ()


def test_the_common_lists_are_recounted() -> None:
    original, fara, molmo = goals(loaded(ORIGINAL)), goals(loaded(FARA)), goals(loaded(MOLMO))
    pair = [i for i in original if original[i] == fara.get(i)]
    three = [i for i in pair if molmo[i] == original[i]]
    assert list(common("webvoyager-common-509")) == pair and len(pair) == 509
    assert list(common("webvoyager-common-498")) == three and len(three) == 498
    with_magnitude = set(common("webvoyager-common-496"))
    assert len(with_magnitude) == 496 and with_magnitude < set(pair)
    assert set(common("webvoyager-common-487")) == with_magnitude & set(three)
    assert all(name.endswith(f"-{len(common(name))}") for name in COMMON)


def test_what_is_known_of_magnitude_fits_the_published_counts() -> None:
    magnitude, fara, original = (set(ids_of("webvoyager", v)) for v in ("magnitude", "fara-2025-08", "original"))
    assert (len(magnitude), len(magnitude & fara), len(original - magnitude)) == (590, 576, 53)
    assert len(original - magnitude - fara) == 34


def test_a_file_written_anew_is_recognised_by_ids_and_texts(tmp_path: Path) -> None:
    for name, version in ((FARA, "fara-2025-08"), (JANUARY, "2026-01"), (V1, "v1"), (MOLMO_WTB, "molmoweb-2026-04")):
        before = loaded(name)
        raw = real(name).read_text(encoding="utf-8")
        rows = json.loads(raw) if raw[0] == "[" else [json.loads(line) for line in raw.split("\n") if line]
        again = load(write(tmp_path / "new.json", rows[::-1], lines=raw[0] == "["), search_url=SEARCH)
        assert again.version == version and again.sha256 != before.sha256
        assert (again.ids_hash, again.text_hash) == (before.ids_hash, before.text_hash)
        assert "not the published one" in again.notes[0] and "published file itself" in before.notes[0]


def test_a_part_is_called_a_part(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in real(FARA).read_text(encoding="utf-8").split("\n") if line]
    reworded = set(stale_references(loaded(FARA)))
    part = load(write(tmp_path / "part.jsonl", [row for row in rows if row["id"] in reworded][:20]))
    assert part.version == "subset of fara-2025-08 (20 of 595)"
    shared = load(write(tmp_path / "shared.jsonl", [r for r in rows if r["id"] in common("webvoyager-common-487")]))
    assert shared.version == "webvoyager-common-487"
    assert all(name in " ".join(shared.notes) for name in ("fara-2025-08", "molmoweb-2026-04", "magnitude"))
    both = together([shared, only(loaded(ORIGINAL), ["Apple--1"], "one")])
    assert both.version == "subset of original (488 of 643)" and len(both.tasks) == 488
    with pytest.raises(ConfigError, match="mixes versions of webvoyager"):
        together([part, only(loaded(ORIGINAL), sorted(reworded - {t.id for t in part.tasks}), "rest")])


def test_a_part_of_several_versions_names_all_of_them(tmp_path: Path) -> None:
    parts = []
    for name in (ORIGINAL, FARA, MOLMO):
        rows = {json.loads(line)["id"]: line for line in real(name).read_text(encoding="utf-8").split("\n") if line}
        some = [json.loads(rows[ident]) for ident in common("webvoyager-common-498")[:50]]
        parts.append(load(write(tmp_path / f"{len(parts)}.jsonl", some)))
    assert {one.version for one in parts} == {"subset of original, fara-2025-08 and molmoweb-2026-04 (50 tasks)"}
    assert len({(one.ids_hash, one.text_hash) for one in parts}) == 1, "one exam, whichever file it was cut from"
    left = {ident: "for a test" for ident in set(ids_of("webvoyager", "fara-2025-08")) - {t.id for t in parts[0].tasks}}
    assert load(real(FARA), skip=left).version == parts[0].version


@pytest.mark.parametrize("name", [name for name in COMMON if name.startswith("webvoyager")])
def test_a_file_made_of_a_list_of_ids_is_called_by_its_name(name: str, tmp_path: Path) -> None:
    said = command_make(real(FARA), tmp_path / "made.jsonl", ids=name)
    assert f"\nwebvoyager {name}\n" in said
    made = load(tmp_path / "made.jsonl")
    assert made.version == name and len(made.tasks) == int(name.rpartition("-")[2])
    assert load(write(tmp_path / "less.jsonl", [t.model_dump() for t in made.tasks[1:]])).version.startswith("subset")


def test_tasks_with_rubrics_are_of_the_version_whose_rubrics_they_are(tmp_path: Path) -> None:
    ids = set(common("webtailbench-common-486"))
    rows = [json.loads(line) for line in real(V1).read_text(encoding="utf-8").split("\n") if line]
    shared = [row for row in rows if row["id"].strip() in ids]
    assert load(write(tmp_path / "a.jsonl", shared[:40]), search_url=SEARCH).version == "subset of v1 (40 of 609)"
    whole = load(write(tmp_path / "b.jsonl", shared), search_url=SEARCH)
    assert whole.version == "webtailbench-common-486" and "with rubrics of v1" in " ".join(whole.notes)


def test_the_original_without_magnitudes_removals_is_not_magnitude(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in real(ORIGINAL).read_text(encoding="utf-8").split("\n") if line]
    kept = [row for row in rows if row["id"] in ids_of("webvoyager", "magnitude")]
    assert load(write(tmp_path / "a.jsonl", kept)).version == "subset of original (590 of 643)"
    reworded = {"Apple": (4, 22, 32), "Booking": (5, 8, 10, 12, *range(15, 33), 34, *range(36, 41), 42)}
    reworded |= {"Google Flights": (1, *range(10, 20), *range(21, 40), 41), "ESPN": (17, 30, 31, 33)}
    new = {f"{site}--{n}" for site, numbers in reworded.items() for n in numbers} | {"Google Search--39"}
    own = [{**row, "ques": row["ques"] + " (new date)"} if row["id"] in new else row for row in kept]
    magnitude = load(write(tmp_path / "b.jsonl", own))
    assert magnitude.version == "ids of magnitude; 68 of 590 texts not verified"
    assert (
        "68 texts are not verified: Apple--4, " in magnitude.notes[0] and "not those of original" in magnitude.notes[1]
    )
    alone = load(write(tmp_path / "c.jsonl", [row for row in own if row["id"] in new]))
    assert alone.version == "ids of magnitude (68 of 590); texts not verified"
    one = load(write(tmp_path / "d.jsonl", [{**r, "ques": "x"} if r["id"] == "Allrecipes--0" else r for r in kept]))
    assert one.version == "unknown (1 task unlike original)" and one.notes[0].endswith(": Allrecipes--0")


def test_texts_of_two_versions_in_one_file_are_refused(tmp_path: Path) -> None:
    original = [json.loads(line) for line in real(ORIGINAL).read_text(encoding="utf-8").split("\n") if line]
    fara = {row["id"]: row for row in map(json.loads, filter(None, real(FARA).read_text().split("\n")))}
    mixed = [fara.get(row["id"], row) if row["web_name"] == "Booking" else row for row in original]
    with pytest.raises(DataError, match=r"mixes versions of webvoyager: \d+ only in original .*only in fara"):
        load(write(tmp_path / "mixed.jsonl", mixed))
    mine = [{**row, "ques": row["ques"] + " Please."} if row["id"] == "Apple--1" else row for row in original]
    taskset = load(write(tmp_path / "mine.jsonl", mine))
    assert taskset.version == "unknown (1 task unlike original)" and "Apple--1" in taskset.notes[0]


def halves(edit: str = "") -> list[dict[str, Any]]:
    """Every second task of Fara's file in MolmoWeb's words. `edit`: what else was done to the texts."""
    fara, molmo = (real(n).read_text(encoding="utf-8").split("\n") for n in (FARA, MOLMO))
    other = {row["id"]: row for row in map(json.loads, filter(None, molmo))}
    rows = [json.loads(line) for line in fara if line]
    mixed = [row if n % 2 else other[row["id"]] for n, row in enumerate(rows)]
    same = {row["id"] for row in rows if row["ques"] == other[row["id"]]["ques"]}
    if edit == "one":
        mixed[0] = {**mixed[0], "ques": mixed[0]["ques"] + " please"}
    elif edit == "all that they share":
        mixed = [{**row, "ques": "own text"} if row["id"] in same else row for row in mixed]
    elif edit == "quotes and blanks":
        mixed = [{**row, "ques": row["ques"].replace("'", "\u2019").replace(" ", "  ")} for row in mixed]
    elif edit == "an own task":
        mixed.append({**mixed[0], "id": "X--1"})
    elif edit == "where Magnitude's texts are not known":
        facts = facts_of("webvoyager").versions["magnitude"]
        mixed = [row for row in mixed if facts.get(row["id"], "").startswith("~")]
    return mixed


@pytest.mark.parametrize(
    "edit",
    ["", "one", "all that they share", "quotes and blanks", "an own task", "where Magnitude's texts are not known"],
)
def test_a_mixture_is_refused_whatever_else_was_edited(tmp_path: Path, edit: str) -> None:
    with pytest.raises(DataError, match=r"mixes versions of webvoyager: .*only in (fara|molmo).*only in (fara|molmo)"):
        load(write(tmp_path / "mixed.jsonl", halves(edit)))


@pytest.mark.parametrize("more", [5, 6])
def test_up_to_a_hundredth_is_a_correction_and_named(tmp_path: Path, more: int) -> None:
    fara = [json.loads(line) for line in real(FARA).read_text(encoding="utf-8").split("\n") if line]
    molmo = goals(loaded(MOLMO))
    unlike = [row["id"] for row in fara if molmo[row["id"]] != row["ques"].strip()][:more]
    path = write(tmp_path / "a.jsonl", [{**r, "ques": molmo[r["id"]]} if r["id"] in unlike else r for r in fara])
    if more == 6:
        with pytest.raises(DataError, match="6 only in molmoweb"):
            load(path)
    else:
        taskset = load(path)
        assert taskset.version == "unknown (5 tasks unlike fara-2025-08)"
        assert f"5 of them are as in molmoweb-2026-04: {', '.join(unlike)}" in taskset.notes


def test_rubrics_of_v1_under_the_texts_of_another_version_are_a_mixture(tmp_path: Path) -> None:
    molmo = goals(loaded(MOLMO_WTB))
    rows = [json.loads(line) for line in real(V1).read_text(encoding="utf-8").split("\n") if line]
    with pytest.raises(DataError, match=r"only in molmoweb-2026-04 .* with rubrics of v1"):
        mixed = [{**row, "ques": molmo[row["id"].strip()]} for row in rows]
        load(write(tmp_path / "mixed.jsonl", mixed), search_url=SEARCH)


def test_what_only_looks_like_a_version(tmp_path: Path) -> None:
    fara = [json.loads(line) for line in real(FARA).read_text(encoding="utf-8").split("\n") if line]
    curly = load(write(tmp_path / "curly.jsonl", [{**r, "ques": r["ques"].replace("'", "\u2019")} for r in fara]))
    assert curly.version == "unknown (130 tasks unlike fara-2025-08)"
    assert "130 of them differ only in quotes, dashes, blanks or Unicode form" in " ".join(curly.notes)
    lower = load(write(tmp_path / "lower.jsonl", [{**row, "id": row["id"].lower()} for row in fara]))
    assert lower.version == "unknown" and "595 of these ids are known but for case" in " ".join(lower.notes)
    own = load(write(tmp_path / "own.jsonl", [*fara, {**fara[0], "id": "X--1"}]))
    assert own.version == "unknown (1 id not in fara-2025-08)"
    shared = [row for row in json.loads(real(JANUARY).read_text(encoding="utf-8")) if "_" not in row["task_id"]]
    shared[0] = {**shared[0], "confirmed_task": "own text"}
    one = load(write(tmp_path / "one.json", shared))
    assert one.version == "unknown (1 task unlike 2026-01)" and shared[0]["task_id"] in one.notes[0]
    for row in shared:
        row["confirmed_task"] = "own text"
    every = load(write(tmp_path / "every.json", shared))
    assert every.version == "ids of 2025-06 (254 of 300); texts not verified"


def test_online_mind2web_january() -> None:
    taskset = loaded(JANUARY)
    assert (taskset.version, Counter(t.template for t in taskset.tasks)) == (
        "2026-01",
        {"easy": 80, "medium": 143, "hard": 77},
    )
    assert len({task.start_url for task in taskset.tasks}) == 147
    assert all(task.meta["level"] == task.template and task.meta["reference_length"] for task in taskset.tasks)
    suffixes = Counter(task.id.partition("_")[2] for task in taskset.tasks)
    assert suffixes == {"": 254, "110325": 36, "121125": 5, "112325": 2, "121425": 2, "010226": 1}


def test_online_mind2web_june_by_its_ids(tmp_path: Path) -> None:
    taskset = load(write(tmp_path / "june.json", june_rows(), lines=False))
    assert taskset.version == "ids of 2025-06; texts not verified"
    assert "300 texts are not verified" in taskset.notes[0] and "254 of these texts are not those" in taskset.notes[1]
    easy = load(write(tmp_path / "easy.json", [{**row, "level": "easy"} for row in june_rows()], lines=False))
    assert "levels or segments are not those of 2025-06: easy 300, not 83" in " ".join(easy.notes)
    assert Counter(task.template for task in taskset.tasks) == {"easy": 83, "medium": 143, "hard": 74}
    january = loaded(JANUARY)
    assert len({t.id for t in taskset.tasks} & {t.id for t in january.tasks}) == 254
    with pytest.raises(ConfigError, match="two versions of online_mind2web"):
        together([taskset, january])


def test_online_mind2web_mixed_and_later(tmp_path: Path) -> None:
    june, january = june_rows(), json.loads(real(JANUARY).read_text(encoding="utf-8"))
    new = [row for row in january if "_" in row["task_id"]]
    bases = {row["task_id"].partition("_")[0] for row in new}
    assert len(new) == len(bases & {row["task_id"] for row in june}) == 46
    replaced = [row for row in june if row["task_id"] in bases]
    with pytest.raises(DataError, match=r"10 ids are of 2025-06 only.*5 came with 2026-01 or later"):
        load(write(tmp_path / "mixed.jsonl", [*replaced[:10], *new[20:25]]))
    with pytest.raises(DataError, match="tasks with their replacement"):
        twice = [new[0], {**new[0], "task_id": new[0]["task_id"].partition("_")[0] + "_051526"}]
        load(write(tmp_path / "twice.jsonl", twice))
    later = [{**r, "task_id": r["task_id"] + "_051526"} if "_" not in r["task_id"] and i < 40 else r
             for i, r in enumerate(january)]  # fmt: skip
    changed = sum(row["task_id"].endswith("_051526") for row in later)
    taskset = load(write(tmp_path / "later.json", later, lines=False))
    assert taskset.version == f"unknown ({changed} ids not in 2026-01)" and "_051526" in taskset.notes[0]


def test_webtailbench_v1() -> None:
    taskset = loaded(V1)
    assert (taskset.version, len(taskset.tasks)) == ("v1", 609)
    known = next(v for v in versions() if v.key == "webtailbench/v1")
    assert Counter(task.template for task in taskset.tasks) == known.groups and len(known.groups or ()) == 11
    rubrics: list[Any] = [task.meta["rubric"] for task in taskset.tasks]
    sizes = [len(rubric["items"]) for rubric in rubrics]
    points = [sum(item["max_points"] for item in rubric["items"]) for rubric in rubrics]
    assert (sum(sizes), min(sizes), max(sizes)) == (2629, 2, 9)
    assert (min(points), max(points), round(sum(points) / 609, 1)) == (8, 40, 14.9)
    assert sum("condition" in item for rubric in rubrics for item in rubric["items"]) == 90
    assert not any("\r" in task.goal for task in taskset.tasks)
    assert {task.start_url for task in taskset.tasks} == {"https://duckduckgo.com/"}
    assert any("609 tasks had no start address" in note for note in taskset.notes)
    odd = [task for task in taskset.tasks if "id_in_file" in task.meta]
    assert len(odd) == 1 and odd[0].id == str(odd[0].meta["id_in_file"]).strip() != odd[0].meta["id_in_file"]


def test_webtailbench_molmoweb_is_neither_v1_nor_v2() -> None:
    v1, molmo = loaded(V1), loaded(MOLMO_WTB)
    assert molmo.version == "molmoweb-2026-04" and v1.ids_hash == molmo.ids_hash
    assert sum(goals(v1)[i] != goals(molmo)[i] for i in goals(v1)) == 123
    assert not any("rubric" in task.meta for task in molmo.tasks)
    with pytest.raises(ConfigError, match="two versions of webtailbench"):
        together([v1, molmo])
    found = text_host_overlap(v1.tasks, molmo.tasks)
    assert len(found.same) >= 486 and found.elsewhere == () and found.exam == 609


def test_v2_as_its_schema_says(tmp_path: Path) -> None:
    """The official V2 is not here: V1's ids with other dates and rubrics stand in for it."""
    import csv

    path = tmp_path / "WebTailBench-v2-rubrics.tsv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter="\t")
        table.writerow(["benchmark", "id", "task_summary", "init_url", "precomputed_rubric"])
        for task in loaded(V1).tasks:
            rubric = json.dumps(task.meta["rubric"])
            table.writerow([task.template, task.id, task.goal.replace("2025", "2026"), "", rubric])
    taskset = load(path, search_url=SEARCH)
    assert len(taskset.tasks) == 609 and taskset.version != "v1" and "texts differ from v1" in " ".join(taskset.notes)
    path.write_text(path.read_text(encoding="utf-8").replace("the ", "this "), encoding="utf-8")
    again = load(path, search_url=SEARCH)
    assert again.version.startswith("ids of v1, perhaps v2 (") and again.version.endswith("; texts not verified")
    assert any("V2" in note for note in again.notes)
    with pytest.raises(ConfigError, match="two versions"):
        together([again, loaded(V1)])


def test_a_revised_rubric_is_another_version(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in real(V1).read_text(encoding="utf-8").split("\n") if line]
    for row in rows[:60]:
        row["precomputed_rubric"]["items"][0]["max_points"] += 1
    many = load(write(tmp_path / "many.jsonl", rows), search_url=SEARCH)
    assert (
        many.version == "ids of v1, perhaps v2 (60 tasks unlike v1); texts not verified"
        and "60 rubrics differ from v1" in many.notes[0]
    )
    one = load(write(tmp_path / "one.jsonl", rows[59:200]), search_url=SEARCH)
    assert one.version == "unknown (1 task unlike v1)"
    same = load(write(tmp_path / "same.jsonl", rows[60:]), search_url=SEARCH)
    assert same.version == "subset of v1 (549 of 609)"


def test_reference_answers_stay_apart() -> None:
    answers = reference_answers(real("webvoyager/reference_answer.json"))
    assert Counter(a.kind for a in answers.values()) == {"golden": 143, "possible": 500}
    taskset = loaded(ORIGINAL)
    assert answers.keys() == {task.id for task in taskset.tasks}
    told = [t for t in taskset.tasks if len(answers[t.id].answer) > 20 and answers[t.id].answer in t.model_dump_json()]
    assert told == []
    with pytest.raises(DataError, match="one JSON object"):
        load(real("webvoyager/reference_answer.json"))
    with pytest.raises(DataError, match="human labels"):
        load(real("online_mind2web/human_label.json"))
    with pytest.raises(DataError, match="none with the task text"):
        load(real(JUNE_IDS))


def test_a_saved_set_keeps_its_version(tmp_path: Path) -> None:
    for name in (MOLMO, V1):
        before = loaded(name)
        save(before, tmp_path / f"{before.name}.jsonl")
        again = load(tmp_path / f"{before.name}.jsonl")
        assert again.tasks == before.tasks and (again.name, again.version) == (before.name, before.version)
    with pytest.raises(ConfigError, match="exists already"):
        save(before, tmp_path / f"{before.name}.jsonl")


def test_every_hash_on_record_is_that_of_its_file() -> None:
    files = {ORIGINAL: "webvoyager/original", FARA: "webvoyager/fara-2025-08", MOLMO: "webvoyager/molmoweb-2026-04"}
    files |= {JANUARY: "online_mind2web/2026-01", V1: "webtailbench/v1", MOLMO_WTB: "webtailbench/molmoweb-2026-04"}
    by_key = {version.key: version for version in versions()}
    for name, key in files.items():
        data, version = real(name).read_bytes(), by_key[key]
        assert (hashlib.sha256(data).hexdigest()[:16], len(data)) == (version.sha256, version.bytes)
        assert len(loaded(name).tasks) == version.rows


def test_overlap_of_the_webvoyager_versions() -> None:
    original, fara = loaded(ORIGINAL), loaded(FARA)
    found = text_host_overlap(fara.tasks, original.tasks)
    assert len(found.same) == 509 and found.elsewhere == () and (found.exam, found.training) == (595, 643)
    moved: list[Task] = [t.model_copy(update={"start_url": "https://mirror.example/"}) for t in original.tasks]
    assert len(text_host_overlap(fara.tasks, moved).elsewhere) == 509
