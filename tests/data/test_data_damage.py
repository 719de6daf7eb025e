"""Damaged files and files that would fill the memory: one sentence that names the file."""

import gzip
import hashlib
import io
import pickle
import random
import struct
import tarfile
import zipfile
import zlib
from dataclasses import replace

import numpy as np
import pytest
from data_files import (
    cifar_files,
    idx_bytes,
    mnist_arrays,
    tar_of,
    tiny_files,
    write_files,
    zip_of,
)
from pickle_files import python2_pickle

from softmargin.data import BrokenFileError, archives, load, registry
from softmargin.data.archives import tar_files
from softmargin.data.readers import arrays, pictures

HABERMAN = "age,year,axillary_nodes,class\n30,64,1,survived_5y\n30,62,3,died_5y\n"


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def mat():
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    labels = np.array([[10], [1], [9], [10], [2]], dtype=np.uint8)
    pytest.importorskip("scipy.io").savemat(stream, {"X": pixels, "y": labels}, do_compression=True)
    return stream.getvalue()


def subset_arrays(classes=10):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    names = np.array([f"class {i}" for i in range(classes)])
    y = np.arange(4) % classes
    return {"x_train": pixels, "y_train": y, "x_test": pixels, "y_test": y, "class_names": names}


def packed_cifar10():
    planes = np.random.default_rng(0).integers(0, 256, (3, 4, 32, 32), dtype=np.uint8)
    names = np.array([f"class {i}" for i in range(10)])
    return {
        f"cifar10/cifar10_{part}.npz": npz(x_d2=planes, y=np.arange(4), class_names=names)
        for part in ("test", "train_1")
    }


def copies():
    """Return every layout as {path: content}, small, by the name of the data set and a word."""
    idx_files = {name: idx_bytes(array) for name, array in mnist_arrays().items()}
    pickles = {
        name: {path: python2_pickle(content) for path, content in cifar_files(name).items()}
        for name in ("cifar10", "cifar100")
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as opened:
        for path, content in tiny_files().items():
            opened.writestr(path, content)
    return {
        ("mnist", "packed"): {
            f"mnist/{name}.gz": gzip.compress(content, mtime=0)
            for name, content in idx_files.items()
        },
        ("fashion_mnist", "plain"): {f"fashion_mnist/{n}": c for n, c in idx_files.items()},
        ("cifar10", "pickles"): pickles["cifar10"],
        ("cifar100", "pickles"): pickles["cifar100"],
        ("cifar10", "archive"): {"cifar-10-python.tar.gz": tar_of(pickles["cifar10"])},
        ("cifar10", "npz"): packed_cifar10(),
        ("cifar100", "npz"): {"cifar100/cifar100_subset.npz": npz(**subset_arrays())},
        ("svhn", "mat"): {"svhn/train_32x32.mat": mat(), "svhn/test_32x32.mat": mat()},
        ("svhn", "npz"): {"svhn/svhn_subset.npz": npz(**subset_arrays())},
        ("tiny_imagenet", "zip"): {"tiny-imagenet-200.zip": stream.getvalue()},
        ("tiny_imagenet", "folder"): tiny_files(),
        ("uci/haberman", "csv"): {"uci/haberman.csv": HABERMAN.encode()},
    }


COPIES = copies()


def sentence(name, root, **options):
    """Return what is said about a copy, or "" where it can be read."""
    try:
        load(name, root=root, download=False, **options)
    except BrokenFileError as error:
        message = str(error)
        assert message.endswith(".")
        assert message.isprintable()
        assert len(message) < 600
        return message
    return ""


def damaged(drawn, content):
    """Cut, flip, fill or lengthen."""
    kind, place = drawn.randrange(6), drawn.randrange(len(content))
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + bytes(100) + content[place + 100 :]
    if kind == 2:
        return content + content[:place]
    changed = bytearray(content)
    for _ in range(kind):  # near the start are the headers
        changed[int(len(content) * drawn.random() ** 2)] ^= 1 << drawn.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("case", COPIES, ids=" ".join)
def test_any_damage_is_one_sentence(case, tmp_path):
    """Without checksums: read as something, or refused; no other error, and no crash."""
    pytest.importorskip("PIL")
    name, files = case[0], COPIES[case]
    write_files(tmp_path, files)
    assert sentence(name, tmp_path, verify=False) == ""
    drawn = random.Random(0)
    refused = 0
    for _ in range(60):
        path = drawn.choice(sorted(files))
        (tmp_path / path).write_bytes(damaged(drawn, files[path]))
        refused += bool(sentence(name, tmp_path, verify=False))
        (tmp_path / path).write_bytes(files[path])
    assert refused > 5


@pytest.mark.parametrize("case", COPIES, ids=" ".join)
def test_no_damage_passes_where_a_checksum_is_known(case, tmp_path, monkeypatch):
    """With checksums: never other numbers, but the file's name and what to do."""
    name, files = case[0], COPIES[case]
    write_files(tmp_path, files)
    entry = registry.ENTRIES[name]

    def known(layout):
        sums = {}
        for file in layout.files:
            paths = [f"{folder}/{file}".lstrip("/") for folder in layout.folders]
            content = next((files[path] for path in paths if path in files), b"")
            sums[file] = ["sha256:" + hashlib.sha256(content).hexdigest()]
        return replace(layout, files=sums)

    layouts = tuple(known(layout) for layout in entry.layouts)
    counts = {"died_5y": 1, "survived_5y": 1}
    recipe = entry.recipe and replace(entry.recipe, class_counts=counts)
    changed = replace(entry, layouts=layouts, recipe=recipe)
    monkeypatch.setitem(registry.ENTRIES, name, changed)
    assert sentence(name, tmp_path) == ""
    drawn = random.Random(0)
    covered = [path for path in sorted(files) if "images/" not in path]
    for path in covered:
        content = damaged(drawn, files[path])
        (tmp_path / path).write_bytes(content if content != files[path] else b"")
        message = sentence(name, tmp_path)
        assert f"{tmp_path / path} is damaged" in message
        assert message.endswith("delete it and fetch it again.")
        (tmp_path / path).write_bytes(files[path])
    assert sentence(name, tmp_path) == ""


def test_damaged_sums_of_a_folder_are_not_passed_over(tmp_path):
    write_files(tmp_path, COPIES["fashion_mnist", "plain"] | {"SHA256SUMS": b"\xff\xfe\x00"})
    assert f"{tmp_path / 'SHA256SUMS'} cannot be read" in sentence("fashion_mnist", tmp_path)
    path = "fashion_mnist/t10k-labels-idx1-ubyte"
    write_files(tmp_path, {"SHA256SUMS": f"{'0' * 64} *./{path}\n".encode()})
    assert f"{tmp_path / path} is damaged" in sentence("fashion_mnist", tmp_path)


def test_lines_are_those_of_an_editor(tmp_path):
    text = 'age,"axillary\nnodes",year,class\n30,64,1,a\n31,"6\n5",1,b\n32,66,many,c\n'
    write_files(tmp_path, {"uci/haberman.csv": text.encode()})
    assert text.splitlines()[3:5] == ['31,"6', '5",1,b']
    message = sentence("uci/haberman", tmp_path, verify=False)
    assert "line 4 has '6\\n5'" in message
    (tmp_path / "uci/haberman.csv").write_text(text.replace("6\n5", "6"))
    assert "line 5 has 'many'" in sentence("uci/haberman", tmp_path, verify=False)
    (tmp_path / "uci/haberman.csv").write_text(text.replace("66,many", "66").replace("\n5", ""))
    assert "4 cells in every line, but line 5 has 3" in (
        sentence("uci/haberman", tmp_path, verify=False)
    )
    (tmp_path / "uci/haberman.csv").write_bytes(b"a,b,class\r\n1,2,x\r\n1,?,x\r\n")
    assert "line 3 has '?'" in sentence("uci/haberman", tmp_path, verify=False)


def table(tmp_path, content):
    write_files(tmp_path, {"uci/haberman.csv": content})
    return sentence("uci/haberman", tmp_path, verify=False)


def test_tables_have_limits(tmp_path):
    many = b",".join([b"a"] * 10**6) + b"\n"
    assert "it has 1000000 columns, and must have 2 to 1000" in table(tmp_path, many)
    assert "field larger than field limit" in table(tmp_path, b'a,b\n"' + b"x" * 10**6)
    with (tmp_path / "uci/haberman.csv").open("r+b") as file:
        file.truncate(200 * 10**6)
    message = sentence("uci/haberman", tmp_path, verify=False)
    assert "haberman.csv is larger than 16 MB" in message
    for content in (b"", b"\n", b"a\n", b"a,class\n\xff,x\n"):
        assert "haberman.csv cannot be read as a table" in table(tmp_path, content)


def test_npz_files_have_limits(tmp_path, monkeypatch):
    monkeypatch.setattr("softmargin.data.readers.arrays.UNPACKED", 10**6)
    arrays = subset_arrays()
    path = "cifar100/cifar100_subset.npz"

    def said(**changes):
        write_files(tmp_path, {path: npz(**(arrays | changes))})
        return sentence("cifar100", tmp_path, verify=False)

    assert said() == ""
    bomb = np.zeros((2000, 32, 32, 3), np.uint8)
    assert "its arrays would take more than 0 MB" in said(x_train=bomb)
    assert (tmp_path / path).stat().st_size < 20_000
    assert "class names" in said(class_names=np.zeros((2, 5), "U3"))
    assert "class names" in said(class_names=np.arange(10))
    assert "uint8 images" in said(y_train=np.arange(4) / 2)
    assert "uint8 images" in said(y_train=np.array(["1"] * 4))
    assert "uint8 images" in said(x_train=arrays["x_train"][0])
    # a header that promises far more than there is
    content = io.BytesIO()
    np.save(content, arrays["x_train"])
    lying = content.getvalue().replace(b"(4, 8, 8, 3), }   ", b"(99999999999, 8, 8),")
    assert len(lying) == len(content.getvalue()) + 2
    members = {f"{name}.npy": lying for name in arrays}
    write_files(tmp_path, {path: zip_of(members)})
    assert f"{tmp_path / path} cannot be read" in sentence("cifar100", tmp_path, verify=False)
    for other in (content.getvalue(), pickle.dumps([1]), b""):  # no archive at all
        write_files(tmp_path, {path: other})
        assert f"{tmp_path / path} cannot be read" in sentence("cifar100", tmp_path, verify=False)


def test_idx_files_have_limits(tmp_path, monkeypatch):
    path = "mnist/train-images-idx3-ubyte.gz"
    write_files(tmp_path, COPIES["mnist", "packed"])
    header = b"\0\0\x08\3" + (30).to_bytes(4, "big") + (28).to_bytes(4, "big") * 2
    write_files(tmp_path, {path: gzip.compress(header + bytes(50_000_000))})
    opened = []
    monkeypatch.setattr(
        arrays.gzip, "open", lambda path, _: opened.append(Counted(path)) or opened[-1]
    )
    assert "as long as its header says" in sentence("mnist", tmp_path, verify=False)
    assert opened[0].taken < 100_000
    huge = b"\0\0\x08\3" + b"\xff" * 12
    write_files(tmp_path, {path: gzip.compress(huge)})
    assert "as long as its header says" in sentence("mnist", tmp_path, verify=False)
    assert opened[-1].taken <= 16


class Counted(gzip.GzipFile):
    taken = 0

    def read(self, size=-1):
        content = super().read(size)
        self.taken += len(content)
        return content


def png(width, height):
    def chunk(kind, content):
        total = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", total)

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    magic = b"\x89PNG\r\n\x1a\n"
    return magic + chunk(b"IHDR", size) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def test_pictures_have_limits(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    for part in ("train", "val"):
        files = {f"{part}/a/{i}.png": png(*size) for i, size in enumerate(((9001, 9001),))}
        write_files(tmp_path / "imagenet", files | {f"{part}/a/1.png": png(60_000, 60_000)})
    data = load("imagenet", root=tmp_path)
    with pytest.raises(BrokenFileError, match="0.png cannot be read.*more than 80 million pixels"):
        data.train[0]
    with pytest.raises(BrokenFileError, match="1.png cannot be read as a picture"):
        data.train[1]
    monkeypatch.setattr(pictures, "FILE", 50)
    with pytest.raises(BrokenFileError, match="0.png is larger than"):
        data.train[0]


def test_pictures_in_an_archive_have_limits(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    files = tiny_files()
    name = "tiny-imagenet-200/train/n01/images/n01_0.JPEG"
    for size in ((9001, 9001), (60_000, 60_000), (64, 65)):
        write_files(tmp_path, {"tiny-imagenet-200.zip": zip_of(files | {name: png(*size)})})
        message = sentence("tiny_imagenet", tmp_path, verify=False)
        assert name in message
    monkeypatch.setattr(pictures, "FILE", 10**6)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as opened:
        for path, content in (files | {name: bytes(2 * 10**6)}).items():
            opened.writestr(path, content)
    write_files(tmp_path, {"tiny-imagenet-200.zip": stream.getvalue()})
    assert "n01_0.JPEG in it is larger than 0 MB" in (
        sentence("tiny_imagenet", tmp_path, verify=False)
    )


def bomb_tar(size):
    return tar_of({"small": b"x", "large": bytes(size)})


def long_header(size):
    """Return a tar archive whose second header is as long as wished, and packs well."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.PAX_FORMAT) as opened:
        opened.addfile(tarfile.TarInfo("small"))
        member = tarfile.TarInfo("large")
        member.pax_headers = {"comment": "x" * size}
        opened.addfile(member)
    return stream.getvalue()


@pytest.mark.parametrize("make", [bomb_tar, long_header])
def test_archives_have_limits(tmp_path, monkeypatch, make):
    monkeypatch.setattr(archives, "UNPACKED", 10**6)
    archive = tmp_path / "archive"
    archive.write_bytes(make(3 * 10**6))
    with pytest.raises(BrokenFileError, match="as an archive: (it would be larger|a header is)"):
        dict(tar_files(archive, ["small", "large"]))
    archive.write_bytes(make(1000))
    assert sorted(dict(tar_files(archive, ["small", "large"]))) == ["large", "small"]
    monkeypatch.setattr(archives, "MEMBERS", 1)
    with pytest.raises(BrokenFileError, match="it has more than 1 members"):
        dict(tar_files(archive, ["small", "large"]))


def test_an_archive_that_is_read_as_it_is_has_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "UNPACKED", 10**6)
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(bomb_tar(3 * 10**6))
    assert "it would be larger than 0 MB" in sentence("cifar10", tmp_path, verify=False)
