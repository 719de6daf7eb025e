"""Numbers in the README and on the page that users decide by stand on the pages they name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDES = ("choosing-beta", "estimators", "schedules", "tuning")
PAGES = [ROOT / "docs" / "when.md", ROOT / "README.md"]
PAGES += [ROOT / "docs" / f"{name}.md" for name in GUIDES]
LINK = re.compile(r"\]\(((?:\.\./)?results/[\w-]+/README\.md)\)")
NUMBER = re.compile(r"(?<![\w.,-])\d+\.\d+(?![\w.])")


def statements(page):
    """Yield (numbers, pages) of every paragraph with links to results, and the table after it."""
    blocks = page.read_text("utf-8").split("\n\n")
    for place, block in enumerate(blocks):
        links = LINK.findall(block)
        if not links:
            continue
        following = blocks[place + 1] if place + 1 < len(blocks) else ""
        text = LINK.sub("", block) + (following if following.startswith("|") else "")
        yield NUMBER.findall(text), [(page.parent / link).resolve() for link in links]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_number_is_on_a_page_that_is_named_beside_it(page):
    for numbers, named in statements(page):
        text = "\n".join(each.read_text("utf-8") for each in named)
        missing = [number for number in numbers if number not in NUMBER.findall(text)]
        assert missing == [], f"not on {', '.join(each.parent.name for each in named)}"


def test_the_page_to_decide_by_states_numbers():
    assert sum(len(numbers) for numbers, _ in statements(PAGES[0])) > 30


def test_a_changed_number_is_caught(tmp_path):
    page = tmp_path / "docs" / "when.md"
    page.parent.mkdir()
    result = tmp_path / "results" / "x" / "README.md"
    result.parent.mkdir(parents=True)
    result.write_text("| 0.014 ± 0.002 |")
    page.write_text("ECE 0.015 ([x](../results/x/README.md))")
    ((numbers, named),) = statements(page)
    assert numbers == ["0.015"]
    assert numbers[0] not in NUMBER.findall(named[0].read_text())
