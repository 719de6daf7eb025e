"""How Sphinx builds the site: ``make docs``, from the root of the repository, without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import latex2mathml.converter
from docutils import nodes

from softmargin import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "softmargin"
author = "The softmargin developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "executed_pages",
]
# pages link to each other as they lie in the repository, so all of it is the source
root_doc = "docs/index"
include_patterns = ["docs/**", "results/**", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = ["**/.cells/**", "docs/*.py", "docs/images/*.py"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["toc.not_included"]  # result pages are linked from their index

html_theme = "furo"
html_title = "softmargin"
html_static_path = ["static"]
html_css_files = ["wide-tables.css", "gallery.css"]
html_extra_path = ["extra"]
html_show_sphinx = False
html_copy_source = False

autodoc_typehints = "none"  # signatures have them
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _mathml(display: str) -> Any:
    """Return a writer of formulas as MathML, which browsers draw without a script."""

    def visit(writer: Any, node: Any) -> None:
        tag = "div" if display == "block" else "span"
        formula = latex2mathml.converter.convert(node.astext(), display=display)
        writer.body.append(f'<{tag} class="formula">{formula}</{tag}>')
        raise nodes.SkipNode

    return visit


def _without_last_empty_line(_app: Any, page: nodes.document) -> None:
    """Take off the empty line that a doctest needs before the end of its block."""
    for block in page.findall(nodes.literal_block):
        text = block.astext()
        if block.rawsource == text and text.endswith("\n"):
            block.rawsource = text.rstrip("\n")
            block.children = [nodes.Text(block.rawsource)]


def setup(app: Any) -> None:
    """Let formulas be MathML, so that a page loads nothing from elsewhere, and trim code."""
    app.connect("doctree-read", _without_last_empty_line)
    app.add_html_math_renderer("mathml", (_mathml("inline"), None), (_mathml("block"), None))


html_math_renderer = "mathml"
