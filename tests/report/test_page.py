"""The page: self-contained, well-formed, readable by machines and at every width."""

import html.parser
import json
import os
import re
import shutil
import subprocess
from html import escape

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from softmargin._files import write_file
from softmargin.charts.tones import beta_tone
from softmargin.report import figures
from softmargin.report.page import (
    Bullets,
    Code,
    Download,
    Facts,
    FigureGroup,
    Page,
    Section,
    Table,
    Text,
    render_page,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VOID = {"meta", "br", "img", "link", "hr", "input"}
LONG = "a sentence that is long enough to need several lines on a telephone, and then some more"


class Outline(html.parser.HTMLParser):
    """Collects tags, ids and addresses, and notices tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.addresses = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        self.addresses += [found[k] for k in ("src", "href", "xlink:href") if k in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def panel(name):
    tones = {beta: beta_tone(beta) for beta in (5.0, 1.0, 0.1)}
    with figures.house_style():
        figure = figures.new_figure()
        axes = figure.add_subplot()
        for beta, tone in tones.items():
            look = figures.Style(f"β = {beta:g}", tone)
            figures.draw_curves(axes, look, [[beta, 2 * beta], [beta, beta]])
        axes.legend()
        return figures.to_svg(figure, name, 'Curves, "quoted" & <odd>', tones.values())


@pytest.fixture(scope="module")
def page():
    columns = ["β", *(f"a long heading, number {i}" for i in range(6))]
    sections = [
        Section("Words", [Text(f"1 < 2 & {LONG}"), Bullets(["one", LONG]), Code("x" * 200)]),
        Section("Numbers", [Table("What it shows.", columns, [["1", *["1.234 ± 0.567"] * 6]])]),
        Section("One", [FigureGroup([panel("a")], "Caption.")]),
        Section("Several", [FigureGroup([panel(n) for n in "bcd"], LONG, panel_width=290)]),
        Section("Facts", [Facts([("name", "v" * 120)]), Download("results.json", '{"a": 1}')]),
    ]
    tones = [beta_tone(beta) for beta in (5.0, 1.0, 0.1)]
    return render_page(Page("A <title>", "A lead.", sections, tones))


def test_it_loads_nothing(page):
    outline = Outline(page)
    for address in outline.addresses:
        assert address.startswith(("#", "data:")), address
    assert not [tag for tag, _ in outline.tags if tag in ("script", "link", "iframe", "img")]
    style = page[page.index("<style>") : page.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style


def test_text_is_escaped(page):
    assert "<title>A &lt;title&gt;</title>" in page
    assert "1 &lt; 2 &amp;" in page
    assert 'aria-label="Curves, &quot;quoted&quot; &amp; &lt;odd&gt;"' in page


def test_it_is_accessible(page):
    outline = Outline(page)
    tags = [tag for tag, _ in outline.tags]
    assert tags.count("h1") == 1
    assert tags.count("h2") == tags.count("section") == 5
    assert tags.count("figure") == tags.count("figcaption") == 2
    assert tags.count("table") == tags.count("caption") == 1
    for tag, found in outline.tags:
        if tag == "svg":
            assert found["role"] == "img"
            assert found["aria-label"]
        if tag == "th":
            assert found["scope"] in ("col", "row")
    assert dict(outline.tags)["html"]["lang"] == "en"


def test_ids_are_unique_and_references_resolve(page):
    outline = Outline(page)
    assert len(outline.ids) == len(set(outline.ids))
    used = {*re.findall(r"url\(#([^)]+)\)", page), *re.findall(r'href="#([^"]+)"', page)}
    assert used
    assert used <= set(outline.ids)


def test_every_tone_has_a_light_and_a_dark_colour(page):
    used = set(re.findall(r"var\((--tone-[0-9a-f]{6})\)", page))
    assert len(used) >= 5
    for name in used:
        assert re.search(rf"{name}: light-dark\(#[0-9a-f]{{6}}, #[0-9a-f]{{6}}\);", page)
    # nothing is left in a colour that only suits light paper
    body = page[page.index("<body>") :]
    assert not re.search(r"(fill|stroke): #(?!none)", body)


def test_figures_are_the_same_every_time():
    assert panel("a") == panel("a")


def test_the_file_inside_can_be_read(page):
    assert json.loads('{"a": 1}') == json.loads(_decoded(page))


def _decoded(page):
    import base64

    return base64.b64decode(re.search(r"base64,([^\"]+)\"", page)[1]).decode()


def test_writing_replaces_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "index.html"
    write_file(path, "old")
    write_file(path, "new β")
    assert path.read_text(encoding="utf-8") == "new β"
    assert os.listdir(tmp_path) == ["index.html"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_file(tmp_path / "folder", "text")
    assert sorted(os.listdir(tmp_path)) == ["folder", "index.html"]


def in_chromium(address, tmp_path):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    flags += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"]
    flags += ["--window-size=1400,900", "--virtual-time-budget=3000", "--dump-dom"]
    done = subprocess.run(
        [CHROMIUM, *flags, address], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_its_window(page, tmp_path, width):
    """Render in a frame of the given width; nothing may stick out but scrollable boxes."""
    measure = (
        "const root = this.contentDocument.documentElement;"
        "const figures = [...root.querySelectorAll('svg')];"
        "const narrow = figures.map(each => each.getBoundingClientRect().width);"
        "document.title = [root.scrollWidth, root.clientWidth, Math.min(...narrow)].join(' ')"
    )
    frame = f'<iframe style="width:{width}px;height:900px;border:0" onload="{measure}" '
    path = tmp_path / "frame.html"
    text = f'<!doctype html><title>-</title>{frame}srcdoc="{escape(page)}"></iframe>'
    path.write_text(text, encoding="utf-8")
    title = re.search(r"<title>([^<]*)</title>", in_chromium(path.as_uri(), tmp_path))[1]
    content, window, narrowest_figure = (float(x) for x in title.split())
    assert content <= window
    assert narrowest_figure >= 280
