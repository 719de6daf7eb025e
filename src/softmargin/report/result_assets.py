"""The style and the script that travel inside the report, and what a browser may do with it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files

from softmargin.report.figures import GREEN, GRID, INK, MUTED, ORANGES, PAGE_TONES, Tone

# in the order in which each uses what comes before it
SCRIPTS = (
    "dom.js",
    "scales.js",
    "marks.js",
    "curves.js",
    "bars.js",
    "panel.js",
    "reliability.js",
    "ranks.js",
    "chart.js",
    "values.js",
    "tables.js",
    "page.js",
)
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


def style_of_page(tones: Iterable[Tone]) -> str:
    """Return the style sheet, with every colour for light and for dark paper."""
    names = {f"--{name}": tone for name, tone in COLOURS.items()}
    names |= {tone.variable: tone for tone in (*PAGE_TONES, *tones)}
    light = " ".join(f"{name}: {tone.light};" for name, tone in names.items())
    dark = " ".join(f"{name}: {tone.dark};" for name, tone in names.items())
    themes = (
        f":root {{ color-scheme: light; {light} }}\n"
        "@media screen and (prefers-color-scheme: dark) {\n"
        f':root:not([data-theme="light"]) {{ color-scheme: dark; {dark} }}\n}}\n'
        f'@media screen {{ :root[data-theme="dark"] {{ color-scheme: dark; {dark} }} }}\n'
    )
    return themes + _asset("style.css")


def script_of_page() -> str:
    """Return the script: all its files as one, with no name left outside."""
    body = "\n".join(_asset(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}\n}})();\n'


def _asset(name: str) -> str:
    return (files("softmargin.report") / "templates" / "results" / name).read_text("utf-8")


def content_policy(style: str, script: str) -> str:
    """Return what the browser may do: run this script, use this style, load nothing."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
