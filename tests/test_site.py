"""The documentation site: it builds without a warning, and its interactive page computes right."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import torch

import softmargin
from chromium_page import CHROMIUM, browser
from softmargin import theory
from softmargin.functional import gradient_decay_loss

ROOT = Path(__file__).parent.parent
EXPLORE = ROOT / "docs" / "extra" / "explore.html"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run(
        [*command, "-d", out / "cache", "-c", "docs", ".", out / "html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return out / "html"


@pytest.mark.slow
def test_links_within_the_site_lead_somewhere(site):
    broken = []
    for page in site.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            parts = urlsplit(link)
            if parts.scheme or not parts.path or parts.path.startswith("data:"):
                continue
            if not (page.parent / unquote(parts.path)).exists():
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    loaded = r"<(?:script|link|img)[^>]+(?:src|href)=\"(?:https?:)?//"
    assert [p for p in site.rglob("*.html") if re.search(loaded, p.read_text("utf-8"))] == []


def test_every_page_is_in_the_contents():
    listed = {
        (page.parent / f"{line}.md").resolve()
        for page in PAGES
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.S)
        for line in block.split()
        if not line.startswith(":")
    }
    missing = [page for page in PAGES if page.resolve() not in listed]
    assert missing == [ROOT / "docs" / "index.md"]


def test_every_block_of_python_is_a_doctest():
    blocks = [
        (page.relative_to(ROOT), block)
        for page in [*PAGES, ROOT / "README.md"]
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
    ]
    assert len(blocks) > 50
    assert [(page, block) for page, block in blocks if not block.startswith(">>> ")] == []


def test_every_framework_has_its_page():
    modules = (ROOT / "src" / "softmargin" / "integrations").iterdir()
    names = {module.stem for module in modules if not module.name.startswith("_")}
    pages = {page.stem for page in (ROOT / "docs" / "integrations").glob("*.md")}
    assert pages >= names >= {"lightning", "skorch", "transformers"}


def test_the_reference_has_every_public_module():
    assert {page.stem for page in (ROOT / "docs" / "api").glob("*.md")} >= {
        name for name in softmargin._MODULES if name != "center"
    }


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_and_their_pictures_are_there(site, chromium, width):
    for page in ("index", "gallery/index", "gallery/compare", "margins", "verdicts", "api/heads"):
        chromium.open(site / "docs" / f"{page}.html", width=width)
        assert chromium.run("document.documentElement.scrollWidth <= innerWidth"), page
        chromium.run("document.querySelectorAll('img').forEach((i) => { i.loading = 'eager'; })")
        chromium.until("[...document.images].every((i) => i.complete && i.naturalWidth > 0)")
        assert chromium.complaints() == []


@pytest.mark.browser
@needs_chromium
def test_the_interactive_page_agrees_with_the_library(chromium):
    chromium.open(EXPLORE)
    p = np.linspace(0.001, 0.999, 37)
    for beta in (0.001, 0.1, 1.0, 5.0, 1000.0):
        for name, function in (
            ("gradientMagnitude", theory.gradient_magnitude),
            ("curvature", theory.curvature),
        ):
            found = chromium.run(f"{p.tolist()}.map((p) => theory.{name}(p, {beta}))")
            assert np.allclose(found, function(p, beta), rtol=1e-6, atol=0)
        found = chromium.run(f"{p.tolist()}.map((p) => theory.localLipschitz({beta}, p))")
        assert np.allclose(found, theory.local_lipschitz(beta, p), rtol=1e-6, atol=0)
        xi = np.linspace(-30, 30, 41)
        found = chromium.run(f"{xi.tolist()}.map((xi) => theory.loss(xi, {beta}))")
        assert np.allclose(found, np.logaddexp(np.log(beta), xi), rtol=1e-6, atol=1e-12)
        assert chromium.run(f"theory.inflection({beta})") == pytest.approx(theory.inflection(beta))


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("tau", [0.1, 1.0, 4.0])
def test_the_curves_on_the_interactive_page_have_the_temperature_of_the_loss(chromium, tau):
    chromium.open(EXPLORE)
    gaps = torch.linspace(-8, 8, 33, dtype=torch.float64) * tau
    for beta in (0.05, 1.0, 20.0):
        own = torch.zeros_like(gaps, requires_grad=True)
        logits = torch.stack([own, gaps], 1)
        target = torch.zeros(len(gaps), dtype=torch.long)
        losses = gradient_decay_loss(logits, target, beta=beta, tau=tau, reduction="none")
        (slope,) = torch.autograd.grad(losses.sum(), own, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.sum(), own)
        p = (logits.detach() / tau).softmax(1)[:, 0]
        lipschitz = torch.as_tensor(theory.local_lipschitz(beta, p)) / tau**2
        for chart, (x, expected) in enumerate(
            ((p, -slope), (gaps, losses), (p, curvature), (p, lipschitz))
        ):
            values = f"{x.tolist()}.map((x) => charts[{chart}].value(x, {beta}, {tau}))"
            found = chromium.run(values)
            assert np.allclose(found, expected.detach(), rtol=1e-6, atol=1e-9), chart


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_the_interactive_page_follows_its_sliders(chromium, width):
    chromium.open(EXPLORE, width=width)
    assert chromium.run("document.querySelectorAll('main svg').length") == 4
    curves = "[...document.querySelectorAll('main .beta')].map((c) => c.parentNode.innerHTML)"
    for name, position, shown in (("beta", -1, "0.100"), ("tau", 0.5, "3.16")):
        before = chromium.run(curves)
        chromium.run(
            f"(() => {{ const s = document.getElementById('{name}'); s.value = {position};"
            "s.dispatchEvent(new Event('input')); return s.value; })()"
        )
        assert chromium.run(f"document.getElementById('{name}-value').textContent") == shown
        assert all(old != new for old, new in zip(before, chromium.run(curves), strict=True))
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    assert chromium.complaints() == []
