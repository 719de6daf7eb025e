"""Pages that are programs: scripts of the gallery and notebooks, run when the site is built.

The text of a script is its docstring; a notebook has its own. Each runs in a fresh Jupyter kernel,
and what it prints and draws is shown below its code. ``{gallery}`` lists such pages, with the last
picture of each.
"""

from __future__ import annotations

import ast
import base64
import html
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from jupyter_client import AsyncKernelManager
from myst_parser.parsers.sphinx_ import MystParser
from nbclient import NotebookClient
from sphinx.util.docutils import SphinxDirective

FIGURES = "_static/gallery"
INLINE = "module://matplotlib_inline.backend_inline"
SHARP = "--InlineBackend.print_figure_kwargs={'bbox_inches': 'tight', 'dpi': 144}"


def notebook_of(path: Path) -> Any:
    """Return a program as a notebook that has not run: of a script, its docstring and its code."""
    if path.suffix == ".ipynb":
        return nbformat.read(path, as_version=4)
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    code = "".join(source.splitlines(keepends=True)[tree.body[0].end_lineno :])
    text = nbformat.v4.new_markdown_cell(ast.get_docstring(tree) or "")
    return nbformat.v4.new_notebook(cells=[text, nbformat.v4.new_code_cell(code.strip())])


def title_of(path: Path) -> str:
    """Return the heading of a program."""
    heading: str = notebook_of(path).cells[0].source.splitlines()[0]
    return heading.removeprefix("# ")


def run(path: Path) -> Any:
    """Run a program in a fresh kernel and an empty folder, and return it with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: where a cell fails, with its traceback.
    """
    notebook = notebook_of(path)
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as settings:
        # files instead of ports: kernels that run at the same time cannot meet
        kernel = AsyncKernelManager(
            kernel_name="python3", transport="ipc", connection_file=f"{settings}/kernel.json"
        )
        client = NotebookClient(
            notebook,
            km=kernel,
            timeout=600,
            resources={"metadata": {"path": scratch}},
            extra_arguments=[SHARP],
        )
        client.log.setLevel(logging.WARNING)  # what it does is no news for the build
        environment = {**os.environ, "MPLBACKEND": INLINE, "IPYTHONDIR": settings}
        client.execute(cleanup_kc=True, env=environment)
    return notebook


def page_of(notebook: Any, path: Path, figures: Path, address: str) -> str:
    """Return the page of a notebook that has run, in Markdown.

    Args:
        notebook: what ``run`` returned.
        path: the script or notebook that it is of.
        figures: the folder to write its pictures to.
        address: that folder, as the page has to name it.
    """
    figures.mkdir(parents=True, exist_ok=True)
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source.rstrip()}\n```")
        # warnings of a program, on its other stream, are not those of the build
        printed = [out.text for out in cell.outputs if out.get("name") == "stdout"]
        shown = [out.data for out in cell.outputs if "data" in out]
        values = [data["text/plain"] for data in shown if "image/png" not in data]
        if printed or values:
            text = "".join(printed) + "\n".join(values)
            parts.append(f"```text\n{text.rstrip()}\n```")
        for data in shown:
            if "image/png" in data:
                picture = base64.b64decode(data["image/png"])
                (figures / f"{path.stem}.png").write_bytes(picture)
                alt = html.escape(title_of(path))
                parts.append(f'<img src="{address}/{path.stem}.png" alt="{alt}">')
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
        page = page_of(run(path), path, Path(env.app.outdir) / FIGURES, up + FIGURES)
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
