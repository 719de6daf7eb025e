"""What is released: the same bytes from the same sources, all that belongs to it, nothing else."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from softmargin._kernel import build

ROOT = Path(__file__).parent.parent
PROGRAM = """
import os, sys
os.umask(int(sys.argv[1], 8))
from hatchling.build import build_sdist, build_wheel
build_sdist(sys.argv[2])
build_wheel(sys.argv[2])
"""
LEFT_BEHIND = ("softmargin-demo/index.html", "results/index.html", "notes.txt", "src/x.so", "a.npz")
NOT_RELEASED = (".ci", ".github", ".pre-commit-config.yaml", "results")

pytestmark = pytest.mark.slow


def sources():
    """Return the files of the project, as git knows them."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode or not done.stdout:
        pytest.skip("this is no git repository")
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Build twice: in two folders, at two times, with two masks for new files."""
    pytest.importorskip("hatchling")
    made = []
    for name, mask, age in (("one", "022", 0), ("another_name", "077", 10**8)):
        folder = tmp_path_factory.mktemp(name)
        for file in sources():
            copy = folder / "tree" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, copy)
            os.utime(copy, (1.6e9 - age, 1.6e9 - age))
        for file in LEFT_BEHIND:
            (folder / "tree" / file).parent.mkdir(exist_ok=True)
            (folder / "tree" / file).write_text("not part of the project")
        (folder / "temporary").mkdir()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, mask, str(folder / "dist")],
            cwd=folder / "tree",
            env={
                **os.environ,
                "SOURCE_DATE_EPOCH": "1700000000",
                "TMPDIR": str(folder / "temporary"),
                "SOFTMARGIN_BUILD_KERNEL": "1" if build.compiler() else "0",
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        made.append({file.name: file for file in (folder / "dist").iterdir()})
    return made


def released(releases, suffix):
    return next(path for name, path in releases[0].items() if name.endswith(suffix))


def test_two_builds_are_equal_to_the_byte(releases):
    first, second = releases
    assert len(first) == 2
    assert first.keys() == second.keys()
    for name, file in first.items():
        assert file.read_bytes() == second[name].read_bytes(), name


def test_the_sdist_has_the_sources_and_nothing_else(releases):
    with tarfile.open(released(releases, ".tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {name for name in sources() if not name.startswith(NOT_RELEASED)}
    assert names == wanted | {"PKG-INFO"}


def test_the_wheel_has_the_package_and_nothing_else(releases):
    with zipfile.ZipFile(released(releases, ".whl")) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = {name.rpartition("/")[2] for name in archive.namelist()} - {"", *names}
    wanted = {name.removeprefix("src/") for name in sources() if name.startswith("src/")}
    kernel = {f"softmargin/_kernel/{build.LIBRARY.name}"} if build.compiler() else set()
    assert names == wanted | kernel
    assert about >= {"METADATA", "WHEEL", "RECORD", "LICENSE", "entry_points.txt"}


@pytest.fixture(scope="module")
def metadata(releases):
    with zipfile.ZipFile(released(releases, ".whl")) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_metadata_lead_to_the_papers_and_name_the_versions_of_python(metadata):
    trove_classifiers = pytest.importorskip("trove_classifiers")
    papers = (ROOT / "docs" / "papers.md").read_text("utf-8")
    addresses = dict(each.split(", ") for each in metadata.get_all("Project-URL"))
    assert set(addresses.values()) == set(re.findall(r"\]\((https://[^)]+)\)", papers))
    assert len(addresses) == 3
    assert all(name.startswith("Paper: ") and len(name) <= 32 for name in addresses)

    classifiers = set(metadata.get_all("Classifier"))
    assert classifiers <= trove_classifiers.classifiers
    versions = {each.rpartition(" :: ")[2] for each in classifiers if "Python :: 3." in each}
    assert versions == {"3.11", "3.12", "3.13"}
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_description_has_no_address_that_only_works_in_the_repository(metadata):
    text = metadata.get_payload(decode=True).decode()
    assert text.startswith("# softmargin")
    assert "Should I use this?" in text
    addresses = re.findall(r"\]\(([^)]+)\)", text)
    assert [each for each in addresses if not each.startswith(("https://", "#"))] == []
    assert "<img" not in text
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_with_an_address_links_and_images_lead_to_it(monkeypatch):
    pytest.importorskip("hatchling")
    monkeypatch.syspath_prepend(ROOT)
    from hatch_build import ReadmeHook

    metadata = {"urls": {"Repository": "https://example.org/softmargin"}}
    ReadmeHook(str(ROOT), {}).update(metadata)
    text = metadata["readme"]["text"]
    assert "(https://example.org/softmargin/raw/HEAD/docs/images/demo.png)\n\n## " in text
    assert "[Should I use this?](https://example.org/softmargin/blob/HEAD/docs/when.md)" in text
    assert not re.search(r"\]\((?!https://)", text)
