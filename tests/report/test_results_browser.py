"""The report in a real browser: quiet, alone, usable by mouse and keyboard, at every width."""

import json
import re
import time
from dataclasses import replace

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

import made_up_results as made_up
from chromium_page import CHROMIUM, browser

from softmargin.cli import main
from softmargin.report.results import write_results_page

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
    evil = replace(found.charts[0], name="evil", title=EVIL, note=EVIL)
    made_up.write_made_up(folder, "x-1", replace(found, charts=[*found.charts, evil]), title=EVIL)
    made_up.write_made_up(folder, "x-2", made_up.outcome(2), paper="LM")
    write_results_page(folder, folder / "index.html")
    return folder / "index.html"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def draw_all(tab):
    tab.run("dispatchEvent(new Event('beforeprint'))")


def texts(tab, selector):
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return tab.run(f"{found}.map(e => (e.innerText || e.textContent).trim())")


def chart(kind):
    return f'#x-1 .chart[data-chart="{PLACES[kind]}"]'


def show(tab, selector):
    """Scroll to a figure and wait until it is drawn."""
    tab.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
    tab.until(f"document.querySelector({json.dumps(selector + ' .plot > svg')}) !== null")


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
    assert chromium.run("document.querySelector('#x-2 .plot > svg')") is None
    for kind in KINDS:
        show(chromium, chart(kind))
        name = chromium.run(f"document.querySelector('{chart(kind)} svg[role=img]').ariaLabel")
        assert "Series: " in name
    assert chromium.run("document.querySelectorAll('#x-1 .plot > svg').length") >= len(KINDS)


def test_printing_draws_all(chromium, page):
    chromium.open(page)
    drawn = "document.querySelectorAll('.plot > svg').length"
    assert chromium.run(drawn) < chromium.run("document.querySelectorAll('.chart').length")
    pdf = chromium.call("Page.printToPDF")["data"]
    assert len(pdf) > 100_000
    assert chromium.run(drawn) == chromium.run("document.querySelectorAll('.chart').length")
    widths = chromium.run("[...document.querySelectorAll('.plot > svg')].map(e => e.clientWidth)")
    assert min(widths) > 280


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
    place = 1 + texts(chromium, f"{DETAILS} thead th").index("ours − baseline")
    chromium.run(f"document.querySelector('{heading(DETAILS, place - 1)} button').focus()")
    chromium.press("Tab")
    chromium.press("Enter")
    chromium.press("Enter")
    assert sorted_by(chromium, DETAILS, place) == "descending"
    cells = texts(chromium, f"{DETAILS} tbody tr > :nth-child({place})")
    filled = [float(cell.replace("−", "-")) for cell in cells if cell != "–"]
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


@pytest.mark.parametrize("kind", ["line", "points", "bars", "histogram", "reliability"])
def test_a_button_of_the_legend_hides_its_series(chromium, page, kind):
    chromium.open(page)
    show(chromium, chart(kind))
    drawn = (
        f"[...document.querySelectorAll('{chart(kind)} .plot .series')].map(e => e.dataset.series)"
    )
    button = f"{chart(kind)} .legend button:nth-child(2)"
    pressed = f"document.querySelector('{button}').ariaPressed"
    before = chromium.run(drawn)
    assert "1" in before
    assert chromium.run(pressed) == "true"
    chromium.click(button)
    assert chromium.run(drawn) == [name for name in before if name != "1"]
    assert chromium.run(pressed) == "false"
    chromium.run(f"document.querySelector('{button}').focus()")
    chromium.press("Enter")
    assert chromium.run(drawn) == before
    for place in range(len(before)):
        chromium.click(f"{chart(kind)} .legend button:nth-child({place + 1})")
    assert "All series are hidden." in texts(chromium, f"{chart(kind)} .plot")[0]
    assert chromium.complaints() == []


def test_hovering_shows_values(chromium, page):
    chromium.open(page)
    show(chromium, chart("line"))
    chromium.hover(f"{chart('line')} .plot > svg")
    shown = texts(chromium, f"{chart('line')} .reading")[0]
    assert re.match(r"epoch: \d+\n", shown)
    assert re.search(r"β = 0.1\s+[\d.]+ \[[\d.]+, [\d.]+\]", shown)
    assert re.search(r"paper, β = 1\s+95.2", shown)  # a reference of two points, read in between


@pytest.mark.parametrize("kind", KINDS)
def test_arrow_keys_read_values_aloud(chromium, page, kind):
    chromium.open(page)
    show(chromium, chart(kind))
    chromium.run(f"document.querySelector('{chart(kind)} .plot').focus()")
    said = []
    for key in ("ArrowRight", "ArrowRight", "End"):
        chromium.press(key)
        said += texts(chromium, "#reading")
    assert len(set(said)) == 3
    assert all(re.search(r"\d", each) for each in said)
    assert chromium.run(f"document.querySelector('{chart(kind)} .reading').hidden") is False
    chromium.press("Escape")
    assert chromium.run(f"document.querySelector('{chart(kind)} .reading').hidden") is True


def test_logarithmic_axes_have_powers_of_ten(chromium, page):
    chromium.open(page)
    show(chromium, chart("log"))
    ticks = texts(chromium, f"{chart('log')} .plot .tick")
    assert {"1", "10", "100", "1000", "0.1"} <= set(ticks)


def test_values_are_there_as_a_table(chromium, page):
    chromium.open(page)
    show(chromium, chart("histogram"))
    details = f"{chart('histogram')} .values"
    chromium.click(f"{details} summary")
    chromium.until(f"document.querySelector('{details} table') !== null")
    heads = texts(chromium, f"{details} thead th")
    assert heads == ["series", "angle to its class weight (degrees), from", "to", "samples"]
    assert chromium.run(f"document.querySelectorAll('{details} tbody tr').length") == 3 * 36


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


def test_light_and_dark_follow_the_system_and_the_button(chromium, page):
    paper = "getComputedStyle(document.body).backgroundColor"
    line = "getComputedStyle(document.querySelector('#x-1 .series')).color"
    pressed = "document.getElementById('theme').ariaPressed"
    seen = {}
    for dark in (False, True):
        chromium.open(page, dark=dark)
        chromium.run("localStorage.clear()")
        chromium.open(page, dark=dark)
        show(chromium, chart("line"))
        seen[dark] = chromium.run(paper), chromium.run(line)
        assert chromium.run(pressed) == str(dark).lower()
    assert seen[False][0] == "rgb(246, 247, 248)"
    assert seen[True][0] == "rgb(18, 20, 23)"
    assert seen[False][1] != seen[True][1]
    chromium.click("#theme")  # from dark to light
    assert (chromium.run(paper), chromium.run(line)) == seen[False]
    assert chromium.run(pressed) == "false"
    chromium.open(page, dark=True)  # it is remembered
    assert chromium.run(paper) == seen[False][0]
    chromium.run("localStorage.clear()")


def test_files_can_be_saved(chromium, page, tmp_path):
    chromium.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    chromium.open(page)
    for name, kind in (("x-1.json", "json"), ("x-1.csv", "csv")):
        chromium.click(f'#x-1 [data-download="{kind}"]')
        for _ in range(200):
            if (tmp_path / name).exists():
                break
            time.sleep(0.05)
    numbers = json.loads((page.parent / "x-1" / "numbers.json").read_text("utf-8"))
    assert json.loads((tmp_path / "x-1.json").read_text("utf-8")) == numbers
    rows = (tmp_path / "x-1.csv").read_text("utf-8").splitlines()
    assert rows[0].startswith("table,unit,row,column,n,mean,sd,paper")
    assert len(rows) == 1 + sum(len(table["entries"]) for table in numbers["tables"])


def test_how_long_it_takes_to_open(chromium, tmp_path, capsys):
    """Print, not assert: a clock on a busy machine says little."""
    made_up.many(tmp_path)
    write_results_page(tmp_path, tmp_path / "index.html")
    seconds = min(chromium.open(tmp_path / "index.html") for _ in range(3))
    size = (tmp_path / "index.html").stat().st_size / 1e6
    with capsys.disabled():
        print(f"\nreport of 45 results, {size:.1f} MB: opened in {seconds:.2f} s")
    assert chromium.complaints() == []
