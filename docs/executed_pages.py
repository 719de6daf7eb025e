"""Pages that are programs: scripts of the gallery and notebooks, run when the site is built.

The text of a script is its docstring; a notebook has its own. What a program prints and draws is
shown below its code. ``{gallery}`` lists such pages, with the last picture of each.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.util.docutils import SphinxDirective

FIGURES = "_static/gallery"


def cells_of(path: Path) -> list[tuple[str, str]]:
    """Return the cells of a program, each with its kind, ``"markdown"`` or ``"code"``."""
    source = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(source)["cells"]
        return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    tree = ast.parse(source)
    end = tree.body[0].end_lineno
    code = "".join(source.splitlines(keepends=True)[end:])
    return [("markdown", ast.get_docstring(tree) or ""), ("code", code.strip() + "\n")]


def title_of(path: Path) -> str:
    """Return the heading of a program."""
    return cells_of(path)[0][1].splitlines()[0].removeprefix("# ")


def executed(path: Path, figures: Path, address: str) -> str:
    """Run a program and return its page in Markdown.

    Args:
        path: the script or notebook.
        figures: the folder to write its pictures to.
        address: that folder, as the page has to name it.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")
    figures.mkdir(parents=True, exist_ok=True)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    parts = []
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        for kind, text in cells_of(path):
            if kind == "markdown":
                parts.append(text)
                continue
            with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of a program are not those of the build
                exec(compile(text, str(path), "exec"), namespace)
            parts.append(f"```python\n{text.rstrip()}\n```")
            if printed.getvalue():
                parts.append(f"```text\n{printed.getvalue().rstrip()}\n```")
            for number in pyplot.get_fignums():
                picture = figures / f"{path.stem}.png"
                pyplot.figure(number).savefig(picture, dpi=144, bbox_inches="tight")
                alt = html.escape(title_of(path))
                parts.append(f'<img src="{address}/{path.stem}.png" alt="{alt}">')
            pyplot.close("all")
    parts.append(f"{{download}}`{path.name} <{path.name}>` is the program of this page.")
    return "\n\n".join(parts) + "\n"


class ExecutedParser(MystParser):
    """Reads a program as the page that it makes."""

    supported = ("executed",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Run the program, and parse its page."""
        env = document.settings.env
        up = "../" * env.docname.count("/")
        path = Path(env.doc2path(env.docname))
        page = executed(path, Path(env.app.outdir) / FIGURES, up + FIGURES)
        super().parse(page, document)


class Gallery(SphinxDirective):
    """A list of programs by name, shown as pictures with titles."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the pictures, and the contents that make the pages part of the site."""
        up = "../" * self.env.docname.count("/")
        folder = Path(self.env.doc2path(self.env.docname)).parent
        cards = []
        for name in self.content:
            (path,) = folder.glob(f"{name}.*")
            self.env.note_dependency(path)
            image = f'<img src="{up}{FIGURES}/{path.stem}.png" alt="" loading="lazy">'
            title = f"<span>{html.escape(title_of(path))}</span>"
            cards.append(f'<a href="{name}.html">{image}{title}</a>')
        contents = "\n".join(["```{toctree}", ":hidden:", "", *self.content, "```"])
        grid = f'<div class="gallery">{"".join(cards)}</div>'
        return [nodes.raw("", grid, format="html"), *self.parse_text_to_nodes(contents)]


def setup(app: Any) -> dict[str, bool]:
    """Register scripts and notebooks as sources of pages."""
    app.add_source_suffix(".py", "executed")
    app.add_source_suffix(".ipynb", "executed")
    app.add_source_parser(ExecutedParser)
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": False}
