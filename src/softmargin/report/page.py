"""One self-contained HTML page: what it is made of, and how it is rendered."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, ClassVar

from softmargin.charts.tones import GREEN, GRID, INK, MUTED, ORANGES, Tone


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    kind: ClassVar = "bullets"
    items: Sequence[str]


@dataclass(frozen=True)
class FigureGroup:
    """One figure of one or more panels side by side, each from :func:`figures.to_svg`.

    ``panel_width`` is the width in pixels below which panels go under each other.
    """

    kind: ClassVar = "figure"
    panels: Sequence[str]
    caption: str
    panel_width: int = 420


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows."""

    kind: ClassVar = "table"
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Facts:
    """Names and what they are: a setting, versions."""

    kind: ClassVar = "facts"
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Code:
    """Something to copy and run."""

    kind: ClassVar = "code"
    text: str


@dataclass(frozen=True)
class Download:
    """A file that travels inside the page."""

    kind: ClassVar = "download"
    name: str
    content: str

    @property
    def address(self) -> str:
        """Return the content as a data address."""
        return "data:application/json;base64," + base64.b64encode(self.content.encode()).decode()


COLOURS = {
    "ink": INK,
    "muted": MUTED,
    "rule": GRID,
    "focus": GREEN,
    "paper": Tone("#f6f7f8", "#121417"),
    "card": Tone("#ffffff", "#1a1d21"),
    "code": Tone("#eef0f2", "#24282d"),
    "good": GREEN,
    "partly": ORANGES[0],
    "bad": Tone("#c2362b", "#f08a80"),
}
HERE = "softmargin.report"
Block = Text | Bullets | FigureGroup | Table | Facts | Code | Download


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A report: a title, a sentence or two, sections, and the tones its figures use."""

    title: str
    lead: str
    sections: Sequence[Section]
    tones: Iterable[Tone] = field(default=())


def render_page(page: Page) -> str:
    """Return the page as HTML that loads nothing from anywhere.

    Example:
        >>> html = render_page(Page("Title", "Lead.", [Section("One", [Text("a < b")])]))
        >>> "<p>a &lt; b</p>" in html
        True
    """
    style = style_of(page.tones, asset("style.css"), asset("page.css"))
    return render("page.html.j2", style, page=page)


def render(
    template: str,
    style: str,
    scripts: Sequence[str] = (),
    policy: str = "",
    package: str = HERE,
    **context: Any,
) -> str:
    """Return a page made from a template.

    Args:
        template: its file name; it extends ``base.html.j2``.
        style: the style sheet, see :func:`style_of`.
        scripts: scripts at the end of the page.
        policy: what the browser may do, see :func:`content_policy`; empty for no such limits.
        package: whose templates are looked at before those of this package.
        context: what else the template needs.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(HERE)]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found = environment.get_template(template)
    return found.render(style=style, scripts=scripts, policy=policy, **context)


def asset(name: str, package: str = HERE) -> str:
    """Return the text of a file beside the templates of a package."""
    return (files(package) / "templates" / name).read_text("utf-8")


def style_of(tones: Iterable[Tone], *sheets: str) -> str:
    """Return one style sheet, with every colour for light and for dark paper."""
    names = {f"--{name}": tone for name, tone in COLOURS.items()}
    names |= {tone.variable: tone for tone in (INK, MUTED, GRID, GREEN, *tones)}
    colours = "".join(f"  {k}: light-dark({t.light}, {t.dark});\n" for k, t in names.items())
    return f":root {{\n  color-scheme: light dark;\n{colours}}}\n" + "".join(sheets)


def content_policy(style: str, scripts: Iterable[str]) -> str:
    """Return what the browser may do: run these scripts, use this style, load nothing."""
    allowed = " ".join(map(_digest, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
