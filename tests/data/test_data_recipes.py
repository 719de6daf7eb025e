"""UCI tables from their sources: raw files served on loopback, converted and verified."""

import csv
import hashlib
import io
import random
import sys
import zipfile
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import pytest
from data_files import zip_of
from loopback import files_in, with_layout
from raw_tables import csv_of, made_up, published
from test_data_command import command, refused
from xls_files import SAMPLE, SAMPLE_ROWS, workbook

from softmargin.commands import data as data_command
from softmargin.data import DownloadError, MissingDataError, load, registry
from softmargin.data.download import fetch, published_bytes
from softmargin.data.recipes import SourceFile, read_workbook

RECIPES = {e.stem: e.recipe for e in registry.ENTRIES.values() if e.recipe is not None}
STEMS = list(RECIPES)
CASES = [(stem, i) for stem in STEMS for i in range(len(RECIPES[stem].sources))]


# sha256 of files of the archives, as other projects have recorded them
RECORDED = {
    "balance_scale/balance-scale.data": (
        "5611187ef7345d807aa8ae22615945ade52a190537c0b1434bd44c3e877c5bb4"
    ),
    "banknote_authentication/data_banknote_authentication.txt": (
        "d0539aaed2139ba7a587b3e34fb345ce503ff7d5d33dbf9912d8e195ce425cb9"
    ),
    "congressional_voting_records/house-votes-84.data": (
        "c87c14110a5ba91d4a1e313ec7392824458152bf071fa5f5452340488337936e"
    ),
    "forest_type_mapping/training.csv": (
        "d63da464655f4ec7c95bb310f560adecc7b716258bc379e4e0ca59f91a5ebf18"
    ),
    "haberman/haberman.data": "b4b7a32586a5668f9f4d6dc8be9d1bc8cd4822523affb1f6b5bfc350681ef3e2",
    "iris/iris.data": "6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0",
    "pima_indians_diabetes/diabetes.data.csv": (
        "06f5b7c2cd7bca686fda4f92eab5f61e7ff6426a9acefa2e3dda04fc54293cf5"
    ),
    "teaching_assistant_evaluation/tae.data": (
        "e83ec0a1000f4d2a7d19de9de2fc8c381357304c5c8ff942779136a9e0eefca4"
    ),
    "wholesale_customers/Wholesale customers data.csv": (
        "c3d018c643565b85cee733c4a2ac76dd76e080e857cb23f0ccfcc2e15a6c17ef"
    ),
}


def local(entry, server):
    """Return the entry with every source on the server."""
    sources = tuple(
        tuple(replace(part, url=server.base + place(part.url)) for part in source)
        for source in entry.recipe.sources
    )
    return replace(entry, recipe=replace(entry.recipe, sources=sources))


def place(url):
    """Return where on the server an address of the internet is: /host/path."""
    return "/" + url.partition("://")[2]


def serve(server, recipe, files):
    """Put files on the server, under each address that ends as they are called."""
    for url in {part.url for source in recipe.sources for part in source}:
        content = [files[name] for name in files if unquote(url).endswith(name)]
        if content:
            server.files[place(url)] = content[0]


@pytest.fixture
def put(server, monkeypatch):
    """Return a function that puts a table on the server: a made-up one, or given rows."""

    def install(stem, rows=None):
        entry = registry.ENTRIES[f"uci/{stem}"]
        recipe = entry.recipe
        if rows is None:
            rows = made_up(stem, len(recipe.features), recipe.class_counts)
            kept = [row for row in rows if "" not in row]
            counts = {name: sum(r[-1] == name for r in kept) for name in recipe.class_counts}
            recipe = replace(recipe, rows=len(rows), class_counts=counts, zero_is_missing=())
            entry = replace(entry, train=len(kept))
        content = csv_of([*recipe.features, "class"], rows)
        sums = {f"{stem}.csv": ["sha256:" + hashlib.sha256(content).hexdigest()]}
        entry = with_layout(entry, 0, files=sums)
        changed = local(replace(entry, recipe=recipe), server)
        monkeypatch.setitem(registry.ENTRIES, entry.name, changed)
        serve(server, recipe, published(stem, rows))
        return changed, content

    return install


def only(server, recipe, number):
    """Take every source but one from the server."""
    kept = {urlsplit(part.url).path for part in recipe.sources[number]}
    for address in list(server.files):
        if address not in kept:
            del server.files[address]


@pytest.mark.parametrize(("stem", "number"), CASES)
def test_every_source_gives_the_same_file(stem, number, put, server, cache):
    entry, content = put(stem)
    only(server, entry.recipe, number)
    fetch(entry, cache)
    assert (cache / f"uci/{stem}.csv").read_bytes() == content
    assert files_in(cache) == [f"{stem}.csv"]  # nothing of the raw files stays


@pytest.mark.data
@pytest.mark.parametrize(("stem", "number"), CASES)
def test_every_source_gives_the_published_file(
    stem, number, put, server, cache, given, monkeypatch
):
    """The real table, put into the raw format of each of its sources, has the known checksum."""
    monkeypatch.delenv("SOFTMARGIN_DATA")
    expected = registry.ENTRIES[f"uci/{stem}"].layouts
    header, *rows = csv.reader((given / f"uci/{stem}.csv").read_text().splitlines())
    assert tuple(header[:-1]) == tuple(RECIPES[stem].features)
    entry, _ = put(stem, rows)
    assert entry.layouts == expected
    only(server, entry.recipe, number)
    table = load(entry.name)
    assert all(record.verified for record in table.provenance.files)
    assert table.whole.class_counts(table.num_classes) == list(entry.recipe.class_counts.values())
    assert (cache / f"uci/{stem}.csv").read_bytes() == (given / f"uci/{stem}.csv").read_bytes()


@pytest.mark.data
@pytest.mark.parametrize("file", RECORDED)
def test_the_raw_files_made_here_are_those_of_the_archives(file, given):
    """Byte for byte: so what these tests serve is what the sources serve."""
    stem, _, name = file.partition("/")
    _, *rows = csv.reader((given / f"uci/{stem}.csv").read_text().splitlines())
    assert hashlib.sha256(published(stem, rows)[name]).hexdigest() == RECORDED[file]


def test_a_table_is_fetched_once(put, server, cache):
    put("congressional_voting_records")
    table = load("uci/congressional_voting_records")
    assert table.whole.x.shape[1] == 16
    assert len(server.requests) == 1
    load("uci/congressional_voting_records")
    assert len(server.requests) == 1
    with pytest.raises(MissingDataError, match="softmargin data fetch uci/iris"):
        load("uci/iris", download=False)


@pytest.mark.parametrize("fault", ["cut", "cut without length", "corrupt"])
def test_a_bad_transfer_goes_to_the_next_source(fault, put, server, cache):
    entry, content = put("iris")
    first = urlsplit(entry.recipe.sources[0][0].url).path
    server.faults[first] = fault
    fetch(entry, cache)
    assert (cache / "uci/iris.csv").read_bytes() == content
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("cut", "the connection was cut"),
        ("cut without length", "is not the published table: "),
        ("corrupt", "is not the published table: "),
    ],
)
@pytest.mark.parametrize("stem", ["forest_type_mapping", "vertebral_column", "breast_tissue"])
def test_bad_transfers_are_one_sentence_and_leave_nothing(stem, fault, why, put, server, cache):
    put(stem)
    server.faults = dict.fromkeys(server.files, fault)
    message = refused("fetch", f"uci/{stem}")
    assert f"uci/{stem} is not on this machine and could not be downloaded (127.0.0.1:" in message
    assert why in message
    assert message.endswith(f"or set SOFTMARGIN_DATA to a folder that has uci/{stem}.csv.")
    assert files_in(cache) == []
    assert [path.name for path in (cache / ".downloads").iterdir() if path.is_dir()] == []


def test_another_table_is_never_accepted(put, server, cache):
    """One value off, one row moved, one row less, a class of another name: all are refused."""
    entry, _ = put("haberman")
    rows = made_up("haberman", 3, entry.recipe.class_counts)
    wrong = {
        "has sha256": [[*rows[0][:2], "999", rows[0][3]], *rows[1:]],
        "sha256 ": [rows[1], rows[0], *rows[2:]],
        "it has 13 rows, not 14": rows[1:],
        "row 14 has the unknown class 'lost'": [*rows[:-1], [*rows[-1][:3], "lost"]],
        "row 1 has 4 features, not 3": [["0", *rows[0]], *rows[1:]],
        "could not convert string to float: 'many'": [["many", *rows[0][1:]], *rows[1:]],
    }
    for why, table in wrong.items():
        for address in server.files:
            names = published("haberman", table)
            server.files[address] = next(c for n, c in names.items() if address.endswith(n))
        with pytest.raises(DownloadError) as caught:
            load("uci/haberman")
        assert why in str(caught.value)
        assert "haberman.data is not the published table" in str(caught.value)
        assert str(caught.value).count(":") < 20
        assert files_in(cache) == []


def test_archives_that_are_not_what_they_should_be(put, server, cache):
    entry, content = put("vertebral_column")
    first, second = (urlsplit(source[0].url).path for source in entry.recipe.sources)
    server.files[second] = zip_of({"column_2C.dat": b"1 2 AB\n"})
    for archive, why in {
        zip_of({"../../column_3C.dat": content}): "row 1 has 0 features, not 6",
        zip_of({}): "it does not have the file",
        b"<html>gone</html>": "it cannot be read from the archive (File is not a zip file)",
        packed({"column_3C.dat": bytes(2**24 + 1)}): "the file in it is larger than 16 MB",
    }.items():
        server.files[first] = archive
        message = refused("fetch", "uci/vertebral_column")
        assert why in message
        assert str(cache) not in message
        assert files_in(cache) == []
    assert not list(cache.parent.rglob("column_3C.dat"))


def packed(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return stream.getvalue()


def test_any_damage_to_an_archive_is_one_phrase(tmp_path):
    """Every byte in turn: the file is read all the same, or refused, and nothing is written."""
    whole = packed({"Iris/iris.data": b"5.1,3.5,1.4,0.2,Iris-setosa\n" * 50})
    part = SourceFile("https://example.org/iris.zip", "iris.data")
    refusals = []
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        (tmp_path / "iris.zip").write_bytes(content)
        try:
            published_bytes(part, tmp_path, progress=False)
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    for refusal in refusals:
        assert refusal.startswith("it cannot be read from the archive (")
        assert refusal.isprintable()
    assert files_in(tmp_path) == ["iris.zip"]


def test_no_network_is_one_sentence(put, server, cache):
    put("hayes_roth")
    server.files.clear()
    host = urlsplit(server.base).netloc
    assert refused("fetch", "uci/hayes_roth") == (
        f"uci/hayes_roth is not on this machine and could not be downloaded ({host}: the server "
        "answered 404): connect to the internet and try again, or set SOFTMARGIN_DATA to a "
        "folder that has uci/hayes_roth.csv."
    )


def test_the_command_fetches_lists_and_verifies_tables(put, server, cache, capsys, monkeypatch):
    for stem in STEMS:
        put(stem)
    command("list", "uci")
    assert capsys.readouterr().out.count("to download, under 1 MB") == 15
    lost = {name: server.files.pop(name) for name in list(server.files) if "/212/" in name}
    lost |= {name: server.files.pop(name) for name in list(server.files) if "00212" in name}
    entries = {
        name: entry
        for name, entry in registry.ENTRIES.items()
        if name.startswith("uci/") or name in ("imagenet", "digits")
    }
    monkeypatch.setattr(data_command, "ENTRIES", entries)  # what no name stands for
    message = refused("fetch", "--all")  # one fails, and only then is it said
    assert message.startswith("uci/vertebral_column is not on this machine")
    out = capsys.readouterr().out
    assert "digits: in scikit-learn\n" in out
    assert "imagenet: missing; no download\n" in out
    assert out.count(str(cache / "uci")) == 14
    command("fetch", "uci/iris")
    command("verify", "uci/iris")
    assert "uci/iris: 1 file verified" in capsys.readouterr().out
    server.files |= lost
    command("fetch", "uci")
    command("verify")
    assert capsys.readouterr().out.count("1 file verified") == 15


def test_addresses_are_secure_and_their_own():
    urls = [p.url for recipe in RECIPES.values() for source in recipe.sources for p in source]
    assert all(url.startswith("https://") and " " not in url for url in urls)
    for recipe in RECIPES.values():
        assert len({part.url for source in recipe.sources for part in source}) >= 2


def test_workbooks_of_another_library():
    assert read_workbook(SAMPLE, "Data") == SAMPLE_ROWS
    assert read_workbook(SAMPLE, "Description") == [["not this one"]]


def test_strings_that_go_on_in_the_next_record():
    rows = [[f"word {i}" + "é" * (i % 30) + "α" * (i % 3)] for i in range(100)]
    for limit in (8224, 40):
        assert read_workbook(workbook({"One": rows}, limit), "One") == rows


def test_broken_workbooks_are_refused():
    for broken in (b"", b"PK", SAMPLE[:1000], SAMPLE[:76] + bytes(436) + SAMPLE[512:]):
        with pytest.raises(ValueError, match="^it cannot be read as an Excel workbook$"):
            read_workbook(broken, "Data")
    with pytest.raises(ValueError, match="^it has no sheet Other$"):
        read_workbook(SAMPLE, "Other")


# numbers of damaged workbooks on which python-calamine 0.9 panics; for the one in the middle it
# asks for 73 GB of memory, which ends its process
HARMFUL = (173, 191, 214, 258, 384)


def damaged_workbooks(count):
    drawn = random.Random(0)
    for _ in range(count):
        content = bytearray(SAMPLE)
        for _ in range(4):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
        yield bytes(content)


@pytest.mark.slow
def test_damaged_workbooks_cost_neither_memory_nor_the_process():
    made = list(damaged_workbooks(max(HARMFUL) + 1))
    for number in HARMFUL:
        with pytest.raises(ValueError, match="^it cannot be read as an Excel workbook$"):
            read_workbook(made[number], "Data")
    refusals = set()
    for content in made[:20]:  # and nothing else is ever raised
        try:
            read_workbook(content, "Data")
        except ValueError as error:
            refusals.add(str(error))
    assert refusals == {"it cannot be read as an Excel workbook"}


def test_a_workbook_needs_its_reader(monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(ImportError, match="needs python-calamine, which is missing: pip install"):
        read_workbook(SAMPLE, "Data")
