"""Archives from strangers: nothing is written outside, all of it or nothing."""

import io
import os
import stat
import tarfile
import zipfile

import pytest
from data_files import tar_of, zip_of

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


def zip_member(name, mode=stat.S_IFREG | 0o644):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as opened:
        opened.writestr("good.txt", "ok")
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        opened.writestr(member, "/etc/passwd")
    return stream.getvalue()


MALICIOUS = {
    "tar parent": tar_member("../evil.txt"),
    "tar deep parent": tar_member("a/../../../evil.txt"),
    "tar link": tar_member("evil", tarfile.SYMTYPE, "../../outside"),
    "tar absolute link": tar_member("evil", tarfile.SYMTYPE, "/etc"),
    "tar hard link": tar_member("evil", tarfile.LNKTYPE, "../../outside"),
    "tar device": tar_member("evil", tarfile.CHRTYPE),
    "zip parent": zip_member("../evil.txt"),
    "zip deep parent": zip_member("a/../../../evil.txt"),
    "zip absolute": zip_member("/evil.txt"),
    "zip backslash": zip_member("..\\evil.txt"),
    "zip drive": zip_member("c:evil.txt"),
    "zip link": zip_member("evil", stat.S_IFLNK | 0o777),
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


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_good_archives_are_unpacked_over_what_is_there(tmp_path, inside, pack):
    archive = tmp_path / "archive"
    archive.write_bytes(pack({"data/a.txt": b"new", "data/deep/b.txt": b"b"}))
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


def test_any_damage_to_a_zip_is_one_sentence(tmp_path, inside):
    """Every byte in turn: the archive unpacks all the same, or is refused by name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("iris.data", "5.1,3.5,1.4,0.2,Iris-setosa\n" * 50)
    whole, archive = stream.getvalue(), inside.parent / "iris.zip"
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        archive.write_bytes(content)
        try:
            extract(archive, inside, tmp_path / "unpacking")
        except BrokenFileError as error:
            message = str(error)
        else:
            message = "unpacked."
        assert message.endswith(".")
        assert "\n" not in message
    assert not (tmp_path / "unpacking").exists()
