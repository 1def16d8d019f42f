"""The viewer: rows, escaping, addresses, live runs, exports; the server through its own application."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from specimens import collect_run, demo_folder, eval_run, sft_run, task, trajectory, verdict
from starlette.testclient import TestClient

from rmsweb.config import Config
from rmsweb.errors import RunError
from rmsweb.records import Stop
from rmsweb.store import Run
from rmsweb.view import show
from rmsweb.view.app import application
from rmsweb.view.export import export
from rmsweb.view.index import Index, headline
from rmsweb.view.terminal import listing

HOSTILE = "<img src=x onerror=alert(1)> \"quoted\" 'single' </script><script>alert(2)</script> \x1b[31mred"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run in which every text that a page or a model can set tries to break out."""
    with Run.open(tmp_path / "hostile", "eval", Config()) as run:
        t = trajectory(run.images, task(0).model_copy(update={"goal": HOSTILE}), 3, success=False, stop=Stop.STEP_LIMIT)
        steps = []
        for step in t.steps:
            seen = step.before.model_copy(update={"url": HOSTILE, "title": HOSTILE, "messages": (HOSTILE,)})
            decision = step.decision.model_copy(update={"thought": HOSTILE, "intent": HOSTILE, "raw": HOSTILE})
            if step.effect.hit:
                hit = step.effect.hit.model_copy(update={"name": HOSTILE, "frame": HOSTILE})
                step = step.model_copy(update={"effect": step.effect.model_copy(update={"hit": hit, "error": HOSTILE})})
            if decision.action is not None and decision.action.action == "type":
                action = decision.action.model_copy(update={"text": HOSTILE})
                decision = decision.model_copy(update={"action": action})
            steps.append(step.model_copy(update={"before": seen, "after": seen, "decision": decision}))
        t = t.model_copy(update={"steps": tuple(steps), "answer": HOSTILE, "detail": HOSTILE, "advice": HOSTILE})
        run.append("trajectory", t)
        run.append("verdict", verdict(t, False, HOSTILE))
    return tmp_path / "hostile"


def client(index: Index) -> TestClient:
    return TestClient(application(index), base_url="http://127.0.0.1")


def test_page_text_never_becomes_markup(hostile: Path) -> None:
    index = Index.open(hostile)
    web = client(index)
    for path in ("/", f"/t/{index.rows()[0].key}"):
        page = web.get(path).text
        assert "<img src=x" not in page and "<script>alert" not in page and "onerror=alert(1)&gt;" in page
        assert len(re.findall("<script", page)) == 1
        # No tag carries an attribute that came out of the text.
        assert not re.search(r"<[a-z]+ [^>]*onerror", re.sub(r'"[^"]*"', '""', page))


def test_what_an_import_does_not_say_is_shown_as_unknown(tmp_path: Path) -> None:
    with Run.open(tmp_path / "import", "import", Config()) as run:
        facts = {"format": "om2w", "acts_listed": False, "viewport_recorded": False}
        t = trajectory(run.images, task(0), 1).model_copy(update={"evidence": {"imported": facts}, "wall_s": 0.0})
        run.append("trajectory", t)
    index = Index.open(tmp_path / "import")
    (row,) = index.rows()
    page = client(index).get(f"/t/{row.key}").text
    assert row.steps is None and "steps not recorded" in page and ">None<" not in client(index).get("/").text
    assert page.count("not recorded&#34;") == 2, "neither a viewport nor seconds"


def test_answers_carry_a_policy_that_forbids_foreign_scripts(hostile: Path) -> None:
    index = Index.open(hostile)
    for path in ("/", f"/t/{index.rows()[0].key}", "/assets/view.js"):
        header = client(index).get(path).headers
        assert "default-src 'none'" in header["content-security-policy"]
        assert "unsafe" not in header["content-security-policy"] and header["x-content-type-options"] == "nosniff"


def test_only_loopback_names_and_known_files_are_answered(hostile: Path) -> None:
    index = Index.open(hostile)
    assert client(index).get("/", headers={"host": "evil.test"}).status_code == 400
    for path in (
        "/t/nothing",
        "/image/" + "0" * 64 + ".png",
        "/image/../../run.json.png",
        "/assets/..%2fapp.py",
        "/run.json",
    ):
        assert client(index).get(path).status_code == 404
    assert client(index).post("/").status_code == 405


def test_a_story_shows_everything(tmp_path: Path) -> None:
    index = Index.open(collect_run(tmp_path / "r", "reflect", (0.3, 0.5)))
    failed = next(row for row in index.rows() if row.verdict == "not solved" and row.attempt == 0)
    page = client(index).get(f"/t/{failed.key}").text
    for part in (failed.goal, "click (24, 77)", "link “red &lt;mug&gt;”", "cart empty", "rules/sites", "navigation",
                 "the &lt;b&gt;wrong&lt;/b&gt; link was opened", "look at the second page", "unchanged",
                 "the step limit was reached", "left_click", "<circle", "<rect", "100 tokens read"):  # fmt: skip
        assert part in page, part
    retried = next(row for row in index.rows() if row.attempt == 1)
    assert "open search first" in client(index).get(f"/t/{retried.key}").text
    picture = re.search(r"/image/[0-9a-f]{64}\.png", page)
    assert picture and client(index).get(picture.group()).content.startswith(b"\x89PNG")


def test_neighbours_follow_the_list(tmp_path: Path) -> None:
    index = Index.open(collect_run(tmp_path / "r", "plain", (0.5,), count=3))
    first, second, third = (row.key for row in index.rows())
    page = client(index).get(f"/t/{second}").text
    assert f'rel="prev" href="/t/{first}"' in page and f'rel="next" href="/t/{third}"' in page
    assert 'rel="prev"' not in client(index).get(f"/t/{first}").text


def test_a_running_run_can_be_watched_and_a_redone_episode_counts_once(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "eval", Config()) as run:
        broken = trajectory(run.images, task(0), 2, stop=Stop.BROWSER_ERROR)
        run.append("trajectory", broken)
        index = Index.open(tmp_path / "r")
        assert [row.outcome for row in index.rows()] == ["infra_error"]
        again = trajectory(run.images, task(0), 3)
        run.append("trajectory", again)
        index.refresh()
        assert [(row.steps, row.verdict) for row in index.rows()] == [(3, "no verdict")]
        run.append("verdict", verdict(again, True))
        index.refresh()
        assert [(row.steps, row.verdict, row.outcome) for row in index.rows()] == [(3, "solved", "success")]
        with (tmp_path / "r/trajectories.jsonl").open("ab") as file:
            file.write(b'{"id": "torn')
        index.refresh()
        assert len(index.rows()) == 1
        story = index.story(index.rows()[0].key)
        assert story is not None and story.trajectory == again and story.mode == ""


def test_a_folder_of_runs_is_one_list(tmp_path: Path) -> None:
    index = Index.open(demo_folder(tmp_path / "demo"))
    assert {row.run for row in index.rows()} == {"collect", "collect-plain", "eval-sft", "eval-rl"}
    assert {row.arm for row in index.rows()} >= {"reflect", "plain", "base", "sft", "rl", "rl+blank"}
    assert len({row.key for row in index.rows()}) == len(index.rows())


def test_what_cannot_be_viewed_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds none"):
        Index.open(tmp_path)
    with pytest.raises(RunError, match=r"no trajectories yet \(verb: sft\)"):
        Index.open(sft_run(tmp_path / "sft"))


def test_an_export_is_whole_and_the_same_every_time(tmp_path: Path, hostile: Path) -> None:
    out = tmp_path / "out"
    show(hostile, out)
    files = {path.relative_to(out): path.read_bytes() for path in out.rglob("*.*")}
    assert export(Index.open(hostile), out) == out / "index.html"
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*.*")} == files
    for name, data in files.items():
        if name.suffix == ".html":
            for link in re.findall(r'(?:src|href)="([^"#]+)"', data.decode()):
                assert (out / name.parent / link).resolve().exists() or "KEY" in link, (name, link)
            assert b"Content-Security-Policy" in data


def test_every_model_is_counted_by_itself_and_controls_apart(tmp_path: Path) -> None:
    index = Index.open(eval_run(tmp_path / "e", {"rl": 0.6, "sft": 0.3}, 24, controls="sft"))
    rows = index.rows()
    models = {arm: [r.verdict for r in rows if r.arm == arm] for arm in ("rl", "sft", "sft+blank", "sft+swapped")}
    said = {a: f"{a} {v.count('solved')} of {len(v) - v.count('no verdict')}" for a, v in models.items()}
    lines = headline(rows)
    assert lines == [
        "60 trajectories",
        f"solved of judged ones: {said['rl']}, {said['sft']}",
        f"controls: {said['sft+blank']}, {said['sft+swapped']}",
    ]
    assert "; ".join(lines) in client(index).get("/").text
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(listing(rows, most=20))
    shown = console.export_text()
    assert "(the last 20, without controls)" in shown and lines[1] in shown and lines[2] in shown
    assert not re.search(r"sft\+(blank|swapped) +0 +\d", shown), "a control stands among the last rows"
    only = [row for row in rows if row.control]
    assert headline(only)[0] == "12 trajectories" and headline(only)[1].startswith("controls: ")
    console.print(listing(only, most=5))
    assert "(the last 5)" in console.export_text()


def test_a_folder_of_runs_is_counted_by_run_and_continuations_together(tmp_path: Path) -> None:
    collect_run(tmp_path / "demo/collect", "reflect", (1.0,), 3)
    with Run.open(tmp_path / "demo/mine", "mine", Config()) as run:
        for i, arm in enumerate(("", "fix-0-1", "fix-0-12")):
            t = trajectory(run.images, task(i), 2, model="runs/sft/checkpoint", arm=arm)
            run.append("trajectory", t)
            run.append("verdict", verdict(t, i > 0))
    lines = headline(Index.open(tmp_path / "demo").rows())
    assert lines[1:] == ["solved of judged ones: collect/reflect 3 of 3, mine/sft 0 of 1, mine/fix 2 of 2"]


def test_the_terminal_gets_no_control_characters(hostile: Path) -> None:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(listing(Index.open(hostile).rows()))
    said = console.export_text()
    assert "\x1b" not in said and "<img src=x" in said and "0 of 1 judged ones solved" in said
