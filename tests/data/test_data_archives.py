"""Archives from strangers: nothing is written outside, all of it or nothing."""

import io
import os
import tarfile

import pytest
from data_files import tar_of

from softmargin.data import BrokenFileError
from softmargin.data.archives import extract


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.fixture
def inside(tmp_path):
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    return folder


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


MALICIOUS = {
    "tar parent": tar_member("../evil.txt"),
    "tar deep parent": tar_member("a/../../../evil.txt"),
    "tar link": tar_member("evil", tarfile.SYMTYPE, "../../outside"),
    "tar absolute link": tar_member("evil", tarfile.SYMTYPE, "/etc"),
    "tar hard link": tar_member("evil", tarfile.LNKTYPE, "../../outside"),
    "tar device": tar_member("evil", tarfile.CHRTYPE),
}


@pytest.mark.parametrize("kind", MALICIOUS)
def test_malicious_archives_are_refused_whole(tmp_path, inside, kind):
    archive = tmp_path / "archive"
    archive.write_bytes(MALICIOUS[kind])
    before = everything(tmp_path)
    with pytest.raises(BrokenFileError, match=r"archive was not unpacked: its member .*evil"):
        extract(archive, inside, tmp_path / "unpacking")
    assert everything(tmp_path) == before


def test_an_absolute_path_in_a_tar_stays_inside(tmp_path, inside):
    archive = tmp_path / "archive"
    archive.write_bytes(tar_member("/evil.txt"))
    extract(archive, inside, tmp_path / "unpacking")
    assert everything(inside) == ["evil.txt", "good.txt"]
    assert not os.path.exists("/evil.txt")


def test_good_archives_are_unpacked_over_what_is_there(tmp_path, inside):
    archive = tmp_path / "archive"
    archive.write_bytes(tar_of({"data/a.txt": b"new", "data/deep/b.txt": b"b"}))
    (inside / "data").mkdir()
    (inside / "data/a.txt").write_bytes(b"old")
    (inside / "data/mine.txt").write_bytes(b"mine")
    extract(archive, inside, tmp_path / "unpacking")
    assert everything(inside) == [
        "data",
        "data/a.txt",
        "data/deep",
        "data/deep/b.txt",
        "data/mine.txt",
    ]
    assert (inside / "data/a.txt").read_bytes() == b"new"


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", tar_of({"a": bytes(9999)})[:-30]],
    ids=["empty", "no archive", "cut off"],  # a compressed file holds the time
)
def test_broken_archives_leave_nothing(tmp_path, inside, content):
    archive = tmp_path / "archive"
    archive.write_bytes(content)
    with pytest.raises(BrokenFileError, match="archive was not unpacked"):
        extract(archive, inside, tmp_path / "unpacking")
    assert everything(inside) == []
