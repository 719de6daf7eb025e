"""The report in a real browser: quiet, alone, usable by mouse and keyboard, at every width."""

import json
import re
from dataclasses import replace

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("altair")
pytest.importorskip("scipy")

import made_up_results as made_up

from chromium_page import CHROMIUM, browser
from softmargin.cli import main
from softmargin.papers.report import results_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
# where the first chart of each kind is among those of a made-up outcome
PLACES = {"line": 0, "bars": 1, "reliability": 2, "points": 3, "histogram": 4, "ranks": 5, "log": 6}
KINDS = tuple(PLACES)[:-1]
EVIL = "</script><img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Write real results of theory, and made-up ones with every kind of chart."""
    folder = tmp_path_factory.mktemp("results")
    assert main(["reproduce", "run", "gd-fig2", "lm-fig1", "--out", str(folder)]) in (0, None)
    found = made_up.outcome(1)
    evil = replace(
        found.charts[-1],
        name="evil",
        title=EVIL,
        note=EVIL,
        x_label=EVIL,
        categories=[EVIL, "'];document.title='taken'//", *found.charts[-1].categories[2:]],
    )
    made_up.write_made_up(folder, "x-1", replace(found, charts=[*found.charts, evil]), title=EVIL)
    made_up.write_made_up(folder, "x-2", made_up.outcome(2), paper="LM")
    (folder / "index.html").write_text(results_page(folder), encoding="utf-8")
    return folder / "index.html"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def draw_all(tab):
    tab.run("dispatchEvent(new Event('beforeprint'))")
    tab.until("document.querySelectorAll('.chart:not(.drawn)').length === 0", 60)


def texts(tab, selector):
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return tab.run(f"{found}.map(e => (e.innerText || e.textContent).trim())")


def chart(kind):
    return f"#x-1 .chart:nth-of-type({PLACES[kind] + 1})"


def show(tab, selector):
    """Scroll to a figure and wait until it is drawn."""
    tab.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
    tab.until(f"document.querySelector({json.dumps(selector + '.drawn .plot svg')}) !== null")


@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_quiet_and_asks_nobody(chromium, page, width):
    chromium.open(page, width)
    draw_all(chromium)
    chromium.run("[...document.querySelectorAll('.values')].forEach(e => { e.open = true; })")
    chromium.until("document.querySelectorAll('.values table').length > 15")
    assert chromium.complaints() == []
    assert chromium.requests() == [page.as_uri()]
    assert chromium.run("document.querySelectorAll('img').length") == 0
    assert "taken" not in chromium.run("document.title")


def test_figures_are_drawn_when_they_come_into_view(chromium, page):
    chromium.open(page)
    assert chromium.run("document.querySelector('#x-2 .plot svg')") is None
    for kind in KINDS:
        show(chromium, chart(kind))
        drawn = f"document.querySelector('{chart(kind)} [role=graphics-document]')"
        assert "Series: " in chromium.run(f"{drawn}.ariaLabel")
    assert chromium.run("document.querySelectorAll('#x-1 .plot svg').length") >= len(KINDS)


def test_printing_draws_all(chromium, page):
    chromium.open(page)
    drawn = "document.querySelectorAll('.plot svg').length"
    assert chromium.run(drawn) < chromium.run("document.querySelectorAll('.chart').length")
    pdf = chromium.call("Page.printToPDF")["data"]
    assert len(pdf) > 100_000
    assert chromium.run(drawn) == chromium.run("document.querySelectorAll('.chart').length")


def test_links_lead_to_their_sections(chromium, page):
    chromium.open(page)
    for name in ("x-2", "gd-fig2"):
        chromium.click(f'#all a[href="#{name}"]')
        chromium.until(
            f"Math.abs(document.getElementById('{name}').getBoundingClientRect().top - 64) < 40"
        )


# ---- tables ----------------------------------------------------------------------------------

PIVOT = "#x-1 .table > .scroll table"
DETAILS = "#x-1 .table details table"


def column(tab, table, place):
    """Return the numbers that a column begins with, from top to bottom."""
    cells = texts(tab, f"{table} tbody tr > :nth-child({place})")
    return [float(re.match(r"−?[\d.]+", cell)[0].replace("−", "-")) for cell in cells]


def heading(table, place):
    return f"{table} thead th:nth-child({place})"


def sorted_by(tab, table, place):
    return tab.run(f"document.querySelector('{heading(table, place)}').ariaSort")


def test_tables_sort_by_click(chromium, page):
    chromium.open(page)
    before = column(chromium, PIVOT, 3)
    assert before != sorted(before)
    for direction, expected in (
        ("ascending", sorted(before)),
        ("descending", sorted(before, reverse=True)),
        ("none", before),
    ):
        chromium.click(f"{heading(PIVOT, 3)} button")
        assert sorted_by(chromium, PIVOT, 3) == direction
        assert column(chromium, PIVOT, 3) == expected


def test_tables_sort_by_keyboard_and_empty_cells_stay_last(chromium, page):
    chromium.open(page)
    chromium.run("document.querySelector('#x-1 .table details').open = true")
    place = 1 + texts(chromium, f"{DETAILS} thead th").index("ours − baseline [interval]")
    chromium.run(f"document.querySelector('{heading(DETAILS, place - 1)} button').focus()")
    chromium.press("Tab")
    chromium.press("Enter")
    chromium.press("Enter")
    assert sorted_by(chromium, DETAILS, place) == "descending"
    cells = texts(chromium, f"{DETAILS} tbody tr > :nth-child({place})")
    filled = [float(cell.split()[0].replace("−", "-")) for cell in cells if cell != "–"]
    assert filled == sorted(filled, reverse=True)
    assert len(filled) < len(cells)
    assert cells[len(filled) :] == ["–"] * (len(cells) - len(filled))


def test_overview_filters_by_paper_and_verdict(chromium, page):
    chromium.open(page)
    rows = "[...document.querySelectorAll('#all tbody tr')].filter(e => !e.hidden)"
    everything = chromium.run(f"{rows}.length")
    chromium.click('[data-filter="paper"] [data-value="LM"]')
    assert set(chromium.run(f"{rows}.map(e => e.dataset.paper)")) == {"LM"}
    chromium.click('[data-filter="word"] [data-value="shown"]')
    assert chromium.run(f"{rows}.map(e => e.cells[0].innerText)") == ["lm-fig1"]
    assert texts(chromium, "#shown") == [f"1 of {everything} shown"]
    chromium.click('[data-filter="paper"] [data-value=""]')
    chromium.click('[data-filter="word"] [data-value=""]')
    assert chromium.run(f"{rows}.length") == everything


# ---- charts ----------------------------------------------------------------------------------


def shapes(kind):
    """Return the opacities of what is drawn of series, and how many there are."""
    marks = f"{chart(kind)} .plot g[class*=mark-] path[aria-roledescription]"
    found = f"[...document.querySelectorAll({json.dumps(marks)})]"
    return f"{found}.map(e => Number(e.getAttribute('opacity') ?? 1))"


@pytest.mark.parametrize("kind", ["line", "points", "bars", "histogram"])
def test_a_name_in_the_legend_fades_the_others(chromium, page, kind):
    chromium.open(page)
    show(chromium, chart(kind))
    faded = f"{shapes(kind)}.filter(x => x > 0 && x < 0.1).length"
    assert chromium.run(faded) == 0
    name = f"{chart(kind)} .role-legend-label text"
    chromium.click(name)
    first = chromium.run(faded)
    assert first > 0
    chromium.click(name)
    assert chromium.run(faded) == 0
    assert chromium.complaints() == []


@pytest.mark.parametrize("kind", KINDS)
def test_pointing_at_a_mark_shows_its_values(chromium, page, kind):
    chromium.open(page)
    show(chromium, chart(kind))
    tip = "document.querySelector('.tip')"
    assert chromium.run(f"{tip}.hidden")
    marks = "path[aria-roledescription=point], path[aria-roledescription=rect]"
    marks += ", path[aria-roledescription='rect mark'], path[aria-roledescription=symbol]"
    place = f"[...document.querySelectorAll(`{chart(kind)} .plot :is({marks})`)]"
    chromium.run(f"{place}.at(-1).id = 'pointed'")
    chromium.hover("#pointed")
    chromium.until(f"!{tip}.hidden")
    names = texts(chromium, ".tip dt")
    assert names[0] in ("series", "method", "bin, from")
    assert re.search(r"\d", " ".join(texts(chromium, ".tip dd")))
    box = chromium.run(f"(b => [b.left, b.top, b.right, b.bottom])({tip}.getBoundingClientRect())")
    assert min(box) >= 0
    assert box[2] <= 1280
    assert box[3] <= 900
    assert chromium.complaints() == []


def test_logarithmic_axes_have_powers_of_ten(chromium, page):
    chromium.open(page)
    show(chromium, chart("log"))
    ticks = texts(chromium, f"{chart('log')} .role-axis-label text")
    assert {"1", "10", "100", "1,000", "0.1"} <= set(ticks)


def test_values_are_there_as_a_table(chromium, page):
    chromium.open(page)
    show(chromium, chart("histogram"))
    details = f"{chart('histogram')} .values"
    chromium.click(f"{details} summary")
    chromium.until(f"document.querySelector('{details} table') !== null")
    heads = texts(chromium, f"{details} thead th")
    name = "angle to its class weight (degrees)"
    assert heads == ["series", f"{name}, from", f"{name}, to", "samples"]
    assert chromium.run(f"document.querySelectorAll('{details} tbody tr').length") == 3 * 36
    chromium.click(f"{details} thead th:nth-child(4) button")
    chromium.click(f"{details} thead th:nth-child(4) button")
    counts = [float(text) for text in texts(chromium, f"{details} tbody td:nth-child(4)")]
    assert counts == sorted(counts, reverse=True)


# ---- looks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_no_width_scrolls_sideways(chromium, page, width):
    chromium.open(page, width)
    draw_all(chromium)
    # what is out of sight is measured too
    visible = "e.style.contentVisibility = 'visible'"
    chromium.run(f"[...document.querySelectorAll('.result')].forEach(e => {{ {visible}; }})")
    chromium.run("[...document.querySelectorAll('details')].forEach(e => { e.open = true; })")
    sizes = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    content, window = chromium.run(sizes)
    assert content <= window == width
    # nothing sticks out but what scrolls in a box of its own
    beyond = "e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1"
    inside = "e.closest('.scroll, pre, svg')"
    found = f"[...document.querySelectorAll('main *')].filter(e => !{inside} && {beyond})"
    assert chromium.run(f"{found}.map(e => e.outerHTML.slice(0, 80))") == []


@pytest.mark.parametrize("width", [1280, 390])
def test_no_text_of_a_chart_is_clipped_or_lies_on_another(chromium, page, width):
    chromium.open(page, width)
    draw_all(chromium)
    chromium.run(
        "[...document.querySelectorAll('.result')].forEach("
        "e => { e.style.contentVisibility = 'visible'; })"
    )
    found = chromium.run(OVERLAPS)
    assert found == []


OVERLAPS = """[...document.querySelectorAll('.chart .plot svg')].flatMap(svg => {
  const card = svg.closest('.chart').getBoundingClientRect();
  const top = svg.closest('.chart').querySelector('h4').getBoundingClientRect().bottom - 1;
  const isSeen = e => e.textContent.trim() && e.getAttribute('opacity') !== '0';
  const boxes = [...svg.querySelectorAll('text')].filter(isSeen).map(e => ({
    text: e.textContent, box: e.getBoundingClientRect(),
    turned: /rotate/.test(e.getAttribute('transform')),
  }));
  const isOut = ({ box }) => box.left < card.left - 1 || box.right > card.right + 1
    || box.top < top || box.bottom > card.bottom;
  const touch = (p, q) => p.left < q.right - 1 && q.left < p.right - 1
    && p.top < q.bottom - 3 && q.top < p.bottom - 3;
  const upright = boxes.filter(({ turned }) => !turned);
  const clashes = upright.flatMap((a, i) => upright.slice(i + 1)
    .filter(b => touch(a.box, b.box)).map(b => `${a.text} on ${b.text}`));
  return [...boxes.filter(isOut).map(({ text }) => `${text} is outside`), ...clashes];
})"""


def test_light_and_dark_follow_the_system(chromium, page):
    paper = "getComputedStyle(document.body).backgroundColor"
    line = f"getComputedStyle(document.querySelector('{chart('line')} .mark-line path')).stroke"
    seen = {}
    for dark in (False, True):
        chromium.open(page, dark=dark)
        show(chromium, chart("line"))
        seen[dark] = chromium.run(paper), chromium.run(line)
    assert seen[False][0] == "rgb(246, 247, 248)"
    assert seen[True][0] == "rgb(18, 20, 23)"
    assert seen[False][1] != seen[True][1]


def test_a_narrower_window_has_fewer_panels_side_by_side(chromium, page):
    chromium.open(page)
    show(chromium, chart("reliability"))
    drawn = f"document.querySelector('{chart('reliability')} .plot svg').clientHeight"
    before = chromium.run(drawn)
    chromium.size(390, 900)
    chromium.until(f"{drawn} > 2 * {before}")


def test_how_long_it_takes_to_open(chromium, tmp_path, capsys):
    """Print, not assert: a clock on a busy machine says little."""
    made_up.many(tmp_path)
    (tmp_path / "index.html").write_text(results_page(tmp_path), encoding="utf-8")
    seconds = min(chromium.open(tmp_path / "index.html") for _ in range(3))
    size = (tmp_path / "index.html").stat().st_size / 1e6
    with capsys.disabled():
        print(f"\nreport of 45 results, {size:.1f} MB: opened in {seconds:.2f} s")
    assert chromium.complaints() == []
