"""The report over all results: complete, self-contained, and safe whatever its texts hold."""

import base64
import hashlib
import html.parser
import json
import re
import shutil
from dataclasses import replace

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("altair")
pytest.importorskip("scipy")

import made_up_results as made_up

from softmargin.charts import Chart, Series
from softmargin.charts.vega import script
from softmargin.cli import main
from softmargin.papers.core import experiments, find
from softmargin.papers.outcome import Entry, Finding, Outcome, ResultTable, Verdict
from softmargin.papers.report import results_page

VOID = {"meta", "br", "img", "link", "hr", "input"}
EVIL = "</script><img src=x onerror=alert(1)>\"'& {{ 7*7 }} \u2028"


class Outline(html.parser.HTMLParser):
    """Collects tags and ids, and notices tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def values(self, name):
        return [found[name] for _, found in self.tags if name in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Real results of theory, and made-up ones with every kind of chart."""
    path = tmp_path_factory.mktemp("results")
    assert main(["reproduce", "run", "gd-fig2", "lm-fig4", "--out", str(path)]) in (0, None)
    made_up.write_made_up(path, "x-1", made_up.outcome(1))
    return path


@pytest.fixture(scope="module")
def page(folder):
    return results_page(folder)


def islands(page):
    """Return the specifications that travel with the page, by the section they are in."""
    sections = re.split(r'<section id="([^"]+)"', page)
    inside = r'(?s)<script type="application/json">(.*?)</script>'
    return {
        name: [json.loads(text) for text in re.findall(inside, section)]
        for name, section in zip(sections[1::2], sections[2::2], strict=True)
    }


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style)>.*?</\1>", "", page)))


@pytest.mark.slow
def test_it_loads_nothing_and_may_load_nothing(page):
    outline = Outline(page)
    for address in outline.values("href"):
        assert re.fullmatch(r"#[\w-]+|[\w-]+/numbers\.json", address)
    assert not outline.values("src")
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in outline.tags}
    assert not [name for _, found in outline.tags for name in found if name.startswith("on")]
    assert not outline.values("style")
    policy = next(v for v in outline.values("content") if "default-src" in v)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for tag, count in (("script", 2), ("style", 1)):
        found = re.findall(rf"(?s)<{tag}>(.*?)</{tag}>", page)
        assert len(found) == count
        for inside in found:
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    own = re.findall(r"(?s)<script>(.*?)</script>", page)[1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|http", own)


@pytest.mark.slow
def test_texts_of_results_cannot_become_markup(tmp_path):
    series = [Series(EVIL, [0, 1], [1, 2]), Series("b", [0, 1], [1, 2])]
    chart = Chart("evil", EVIL, "line", EVIL, EVIL, series, note=EVIL, categories=[EVIL, "b"])
    entries = [Entry(EVIL, EVIL, (1.0, 2.0)), Entry(EVIL, "b", (1.0, 2.0))]
    table = ResultTable(EVIL, EVIL, entries, note=EVIL, row_heading=EVIL)
    outcome = Outcome(
        Verdict(EVIL, [Finding(EVIL, True)], EVIL), [table], [chart], [EVIL], {EVIL: EVIL}
    )
    texts = {"title": EVIL, "where": EVIL, "claim": EVIL, "deviations": {"desk": EVIL}}
    made_up.write_made_up(tmp_path, "x-1", outcome, **texts)
    page = results_page(tmp_path)
    outline = Outline(page)
    assert "img" not in [tag for tag, _ in outline.tags]
    assert [tag for tag, _ in outline.tags].count("script") == 3  # one of data, two that run
    assert "{{ 7*7 }}" in page
    (island,) = islands(page)["x-1"]
    assert island["datasets"]["rows"][0]["series"] == EVIL
    assert "\u2028" not in re.search(r'(?s)application/json">(.*?)</script>', page)[1]


def test_a_specification_for_each_chart_travels_with_the_page(folder, page):
    found = islands(page)
    assert {name for name, specs in found.items() if specs} == {"gd-fig2", "lm-fig4", "x-1"}
    for name in ("gd-fig2", "lm-fig4", "x-1"):
        charts = json.loads((folder / name / "numbers.json").read_text("utf-8"))["charts"]
        for spec, chart in zip(found[name], charts, strict=True):
            names = [row["series"] for row in spec["datasets"]["rows"]]
            assert sorted(names) == sorted(each["name"] for each in chart["series"])


def test_every_colour_has_a_light_and_a_dark_value(page):
    used = set(re.findall(r"var\((--tone-[0-9a-f]{6})\)", json.dumps(islands(page))))
    assert len(used) > 8
    for name in used:
        assert re.search(rf"{name}: light-dark\(#[0-9a-f]{{6}}, #[0-9a-f]{{6}}\);", page)


def test_one_name_has_one_colour_on_the_page(page):
    colours = {}
    for spec in (spec for specs in islands(page).values() for spec in specs):
        scales = re.findall(r'"domain": (\[[^]]*\]), "range": (\["var[^]]*\])', json.dumps(spec))
        for names, tones in scales:
            for name, tone in zip(json.loads(names), json.loads(tones), strict=True):
                assert colours.setdefault(name, tone) == tone


def test_all_ids_are_in_the_overview_in_order(page):
    table = page[page.index('id="all"') : page.index("</table>")]
    rows = re.findall(r'<tr role="row" data-paper="(\w+)" data-word="([^"]+)">', table)
    ids = re.findall(r'rowheader" data-key="\d+">(?:<a href="#[^"]+">)?([a-z0-9-]+)<', table)
    assert ids == [*experiments(), "x-1"]
    assert len(rows) == len(ids)
    words = dict(zip(ids, (word for _, word in rows), strict=True))
    assert words["gd-fig2"] == "shown"
    assert words["x-1"] == "holds in part"
    assert words["gd-tab1"] == words["ag-tab1"] == "not run"
    assert '<a href="#gd-fig2">' in table
    assert '<a href="#gd-tab1">' not in table
    assert f"not run</span> <b>{len(ids) - 3}</b>" in page


def test_what_was_not_run_or_failed_is_said(folder, page, tmp_path):
    words = re.sub(r"\s+", " ", text_of(page))
    said = "No result yet; softmargin reproduce run gd-tab1 makes it."
    assert f"gd-tab1 Confidence of training samples by β. {said}" in words
    assert "No cell has failed." in words
    folder = shutil.copytree(folder, tmp_path / "results")
    experiment = find("ag-fig1")
    cell = experiment.cells(experiment.scope("smoke"))[0]
    for key, label in ((cell.key, cell.label), ("0123456789abcdef", "<b>odd</b>")):
        broken = folder / ".cells" / key
        broken.mkdir(parents=True)
        (broken / "cell.json").write_text(json.dumps({"label": label}), encoding="utf-8")
        (broken / "error.txt").write_text("ValueError: too <small>\n\nTraceback", "utf-8")
    words = re.sub(r"\s+", " ", text_of(results_page(folder)))
    assert f"{cell.label} (ag-fig1): ValueError: too <small> " in words
    assert "<b>odd</b> : ValueError" in words
    assert "Traceback" not in words


def test_begun_is_not_the_same_as_not_run(tmp_path):
    made_up.write_made_up(tmp_path, "x-1", made_up.outcome(1, charts=[]))
    experiment = find("gd-fig4")
    cells = experiment.cells(experiment.scope("smoke"))
    done = tmp_path / ".cells" / cells[0].key
    done.mkdir(parents=True)
    (done / "result.json").write_text("{}")
    words = f"Begun: 1 of {len(cells)} cells are finished at smoke scale; softmargin reproduce run "
    words += f"gd-fig4 --scale smoke --out {tmp_path} goes on."
    assert words in text_of(results_page(tmp_path))


def test_it_is_accessible(page):
    outline = Outline(page)
    tags = [tag for tag, _ in outline.tags]
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    assert tags.count("h1") == tags.count("main") == tags.count("header") == tags.count("nav") == 1
    assert tags.count("table") == tags.count("caption")
    for tag, found in outline.tags:
        if "aria-labelledby" in found:
            assert found["aria-labelledby"] in ids
        if found.get("class") == "scroll":
            assert found["tabindex"] == "0"
            assert found["aria-label"]
        if tag == "th":
            assert found["scope"] in ("col", "row")
        if tag == "button":
            assert found["type"] == "button"
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_commands_deviations_and_versions_are_there(folder, page):
    words = text_of(page)
    for name in ("gd-fig2", "x-1"):
        meta = json.loads((folder / name / "numbers.json").read_text("utf-8"))
        assert meta["command"] in words
        assert meta["deviations"] in words
        assert meta["claim"] in words
        assert meta["versions"]["torch"] in words


def test_same_results_give_the_same_page(folder, page):
    assert results_page(folder) == page


@pytest.mark.slow
def test_as_many_results_as_there_will_be_fit(tmp_path):
    made_up.many(tmp_path)
    assert len(results_page(tmp_path).encode()) - len(script().encode()) < 8e6


def test_a_claim_of_ours_and_the_parts_of_a_verdict(tmp_path):
    parts = [Finding("a is 1", True), Finding("b is 2", True), Finding("c is 3.", None)]
    verdict = Verdict("holds in part", parts, "At this scale.")
    found = replace(made_up.outcome(0), charts=[], verdict=verdict)
    made_up.write_made_up(tmp_path, "x-1", found, paper="SM", title="β beside others")
    page = results_page(tmp_path)
    assert "Our claim" in page
    assert "The paper's claim" not in page
    assert "</span> β beside others</h2>" in page
    said = re.sub(r"\s+", " ", text_of(page))
    assert "At this scale. As claimed: a is 1 b is 2 Left open: c is 3" in said
    assert "Unlike the claim" not in said
    assert Outline(page)


# ---- bad input -------------------------------------------------------------------------------


def test_a_folder_without_results_is_refused(tmp_path, capsys):
    assert main(["reproduce", "report", "--out", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_results_of_another_version_are_refused_and_the_old_page_stays(tmp_path, capsys):
    made_up.write_made_up(tmp_path, "x-1", made_up.outcome(1, charts=[]))
    assert main(["reproduce", "report", "--out", str(tmp_path)]) in (0, None)
    before = (tmp_path / "index.html").read_bytes()
    (tmp_path / "x-1" / "numbers.json").write_text('{"format": 99}')
    assert main(["reproduce", "report", "--out", str(tmp_path)]) == 2
    assert "another version of softmargin" in capsys.readouterr().err
    assert (tmp_path / "index.html").read_bytes() == before


def test_a_result_in_the_wrong_folder_is_refused(tmp_path):
    made_up.write_made_up(tmp_path, "x-1", made_up.outcome(1, charts=[]))
    (tmp_path / "x-1").rename(tmp_path / "x-2")
    with pytest.raises(ValueError, match="x-2.* is damaged: it has the results of 'x-1'"):
        results_page(tmp_path)
