"""Archives from strangers: no more than the named files is read, and nothing is written."""

import io
import tarfile

import pytest
from data_files import tar_of

from softmargin.data import BrokenFileError
from softmargin.data.archives import tar_files


def tar_member(name, kind=tarfile.REGTYPE, link=""):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as opened:
        good = tarfile.TarInfo("good.txt")
        good.size = 2
        opened.addfile(good, io.BytesIO(b"ok"))
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        member.size = 4 if kind == tarfile.REGTYPE else 0
        opened.addfile(member, io.BytesIO(b"evil"))
    return stream.getvalue()


def read(tmp_path, content, wanted):
    archive = tmp_path / "archive"
    archive.write_bytes(content)
    found = dict(tar_files(archive, wanted))
    assert list(tmp_path.iterdir()) == [archive]
    return found


def test_files_are_found_in_any_folder(tmp_path):
    content = tar_of({"data/a.txt": b"a", "data/deep/b.txt": b"b", "c.txt": b"c", "d.txt": b"d"})
    found = read(tmp_path, content, ["a.txt", "b.txt", "c.txt", "missing.txt"])
    assert found == {"a.txt": b"a", "b.txt": b"b", "c.txt": b"c"}


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "a/../../../evil.txt"])
def test_a_name_that_leads_elsewhere_is_only_a_name(tmp_path, name):
    assert read(tmp_path, tar_member(name), ["good.txt"]) == {"good.txt": b"ok"}
    assert read(tmp_path, tar_member(name), ["evil.txt"]) == {"evil.txt": b"evil"}


@pytest.mark.parametrize(
    ("kind", "link"),
    [
        (tarfile.SYMTYPE, "good.txt"),
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.LNKTYPE, "../../outside"),
        (tarfile.CHRTYPE, ""),
        (tarfile.FIFOTYPE, ""),
        (tarfile.DIRTYPE, ""),
    ],
)
def test_links_and_devices_are_no_files(tmp_path, kind, link):
    assert read(tmp_path, tar_member("evil", kind, link), ["good.txt", "evil"]) == {
        "good.txt": b"ok"
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", tar_of({"a": bytes(9999)})[:-30]],
    ids=["empty", "no archive", "cut off"],  # a compressed file holds the time
)
def test_broken_archives_are_one_sentence(tmp_path, content):
    with pytest.raises(BrokenFileError, match="archive cannot be read as an archive: ") as caught:
        read(tmp_path, content, ["a"])
    assert str(caught.value).isprintable()
