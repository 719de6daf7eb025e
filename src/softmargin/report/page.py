"""One self-contained HTML page: what it is made of, and how it is rendered."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from softmargin.report.figures import GREEN, GRID, INK, MUTED, PAGE_TONES, Tone


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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("softmargin.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    template = environment.get_template("page.html.j2")
    tones = dict.fromkeys((*PAGE_TONES, *page.tones))
    return template.render(page=page, tones=tones, ink=INK, muted=MUTED, rule=GRID, focus=GREEN)
