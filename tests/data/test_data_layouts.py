"""Every published layout, on small files made here."""

import gzip
import os
import pickle

import numpy as np
import pytest
import torch
from data_files import (
    cifar_files,
    jpeg,
    mnist_arrays,
    tar_of,
    tiny_files,
    write_cifar,
    write_files,
    write_mnist,
    zip_of,
)
from loopback import with_layout

from softmargin.data import (
    BrokenFileError,
    FolderSplit,
    MissingDataError,
    load,
    load_table,
    registry,
)
from softmargin.data.readers.arrays import undo_differences


def read(name, root, **options):
    """Load files that are not the published ones."""
    return load(name, root=root, verify=False, download=False, **options)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion_mnist", "FashionMNIST/raw"),
        ("fashion_mnist", "fashion_mnist"),
    ],
)
def test_idx_files(tmp_path, name, folder, packed):
    arrays = mnist_arrays()
    write_mnist(tmp_path / folder, arrays, packed)
    data = read(name, tmp_path)
    assert data.train.images.shape == (30, 1, 28, 28)
    assert data.train.images.dtype == torch.uint8
    assert data.train.y.dtype == torch.int64
    for split, part in zip(data, ("train", "t10k"), strict=True):
        assert np.array_equal(split.images[:, 0].numpy(), arrays[f"{part}-images-idx3-ubyte"])
        assert np.array_equal(split.y.numpy(), arrays[f"{part}-labels-idx1-ubyte"])
    assert data.is_subset
    assert len(data.provenance.files) == 4
    assert len(data.provenance.files[0].sha256) == 64
    assert data.num_classes == 10


@pytest.mark.parametrize("packed", ["folder", "archive"])
@pytest.mark.parametrize(("name", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_cifar_files(tmp_path, name, classes, packed):
    if packed == "folder":
        contents = write_cifar(tmp_path, name)
    else:
        contents = cifar_files(name)
        files = {path: pickle.dumps(content, 2) for path, content in contents.items()}
        files["cifar/readme.html"] = b"not a pickle"
        (tmp_path / f"cifar-{classes}-python.tar.gz").write_bytes(tar_of(files))
    data = read(name, tmp_path)
    test = next(content for path, content in contents.items() if "/test" in path)
    assert np.array_equal(data.test.images.numpy().reshape(4, -1), test["data"])
    assert data.test.y.tolist() == test.get("labels", test.get("fine_labels"))
    assert len(data.train) == (30 if classes == 10 else 6)
    assert data.train.images.shape[1:] == (3, 32, 32)
    assert data.class_names[3] == "class 3"


def test_svhn_mat(tmp_path):
    savemat = pytest.importorskip("scipy.io").savemat
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    for part in ("train", "test"):
        labels = np.array([[10], [1], [9], [10], [2]], dtype=np.uint8)
        savemat(tmp_path / f"{part}_32x32.mat", {"X": pixels, "y": labels})
    data = read("svhn", tmp_path)
    assert data.train.y.tolist() == [0, 1, 9, 0, 2]
    for b in range(5):
        for c in range(3):
            assert np.array_equal(data.train.images[b, c].numpy(), pixels[:, :, c, b])


@pytest.mark.parametrize("packed", ["folder", "archive", "part"])
def test_tiny_imagenet(tmp_path, packed):
    pytest.importorskip("PIL")
    if packed == "folder":
        write_files(tmp_path, tiny_files())
    elif packed == "archive":
        (tmp_path / "tiny-imagenet-200.zip").write_bytes(zip_of(tiny_files()))
    else:
        (tmp_path / "tiny_imagenet").mkdir()
        (tmp_path / "tiny_imagenet/tiny_imagenet_10class.zip").write_bytes(zip_of(tiny_files()))
    data = read("tiny_imagenet", tmp_path)
    assert data.class_names == ("dog", "cat, tabby")
    assert data.train.y.tolist() == [1, 1, 1, 0, 0, 0]
    assert data.test.y.tolist() == [1, 0]
    assert data.train.images.shape == (6, 3, 64, 64)
    first, grey = data.train.images[0].float(), data.train.images[2].float()
    assert first[0].min() > 250
    assert first[1:].max() < 5
    assert (grey - 128).abs().max() < 3
    assert data.is_subset
    assert len(read("tiny_imagenet", tmp_path, fraction=0.5).train) == 3


@pytest.mark.parametrize(
    ("name", "folder"), [("imagenet", "imagenet"), ("places365", "places365"), ("imagenet", "")]
)
def test_picture_folders_are_decoded_when_asked(tmp_path, name, folder):
    pytest.importorskip("PIL")
    colours = {"b": (0, 0, 250), "a": (250, 0, 0)}
    for part, n in (("train", 4), ("val", 2)):
        for wnid, colour in colours.items():
            files = {f"{part}/{wnid}/{i}.JPEG": jpeg(colour, (50, 80 + i)) for i in range(n)}
            write_files(tmp_path / folder, files | {f"{part}/{wnid}/notes.txt": b"no picture"})
    data = read(name, tmp_path, image_size=32)
    assert isinstance(data.train, FolderSplit)
    assert data.class_names == ("a", "b")
    assert data.train.class_counts(2) == [4, 4]
    images, y = data.train.batch(torch.tensor([0, 7]))
    assert images.shape == (2, 3, 32, 32)
    assert images.dtype == torch.uint8
    assert y.tolist() == [0, 1]
    assert images[0, 0].min() > 240
    assert images[1, 2].min() > 240
    image, label = data.test[3]
    assert image.shape == (3, 32, 32)
    assert label == 1
    with pytest.raises(TypeError, match="batch"):
        _ = data.train.x
    half = data.subset(0.5)
    assert half.train.class_counts(2) == [2, 2]
    assert half.is_subset
    assert len(data.train.batch(torch.tensor([], dtype=torch.int64))[0]) == 0
    (tmp_path / folder / "train/a/0.JPEG").write_bytes(b"no picture")
    with pytest.raises(BrokenFileError, match="0.JPEG cannot be read as a picture"):
        data.train[0]


def test_a_folder_for_another_purpose_is_not_taken_for_imagenet(tmp_path, monkeypatch):
    for part in ("train", "val"):
        write_files(tmp_path, {f"{part}/a/0.JPEG": b""})
    monkeypatch.setenv("SOFTMARGIN_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="imagenet was not found"):
        load("imagenet")


def test_residuals_are_undone():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 6, 4), dtype=np.uint8)
    red, green, blue = pixels.transpose(1, 0, 2, 3)
    planes = np.stack([green, red - green, blue - green])
    zero = np.uint8(0)
    for axis in (2, 3):
        planes = np.diff(planes, axis=axis, prepend=zero)
    assert np.array_equal(undo_differences(planes), pixels)


def test_packed_cifar10_takes_the_batches_that_are_there(tmp_path):
    (tmp_path / "cifar10").mkdir()
    residuals = np.zeros((3, 4, 32, 32), np.uint8)
    residuals[0, :, 0, 0] = 7
    labels = np.arange(4, dtype=np.uint8)
    for part in ("test", "train_1", "train_4"):
        np.savez(
            tmp_path / f"cifar10/cifar10_{part}.npz",
            x_d2=residuals,
            y=labels,
            class_names=np.array([str(i) for i in range(10)]),
        )
    data = read("cifar10", tmp_path)
    assert len(data.train) == 8
    assert data.is_subset
    assert (data.train.images == 7).all()


def write_table(root, stem, text):
    write_files(root, {f"uci/{stem}.csv": text.encode()})


def test_tables_mark_and_filter_missing_values(tmp_path):
    header = "pregnancies,glucose,blood_pressure,skin_thickness,insulin,bmi,pedigree,age,class\n"
    rows = "0,1,1,1,1,1,1,1,b\n1,0,1,1,1,1,1,1,a\n1,1,1,1,1,,1,1,a\n2,1,1,1,1,1.5,1,1,a\n"
    write_table(tmp_path, "pima_indians_diabetes", header + rows)
    options = {"root": tmp_path, "verify": False}
    table = load_table("uci/pima_indians_diabetes", **options)
    assert table.whole.x[:, 0].tolist() == [0, 2]
    assert table.whole.x.dtype == torch.float64
    assert table.whole.y.tolist() == [1, 0]
    assert table.class_names == ("a", "b")
    whole = load_table("uci/pima_indians_diabetes", filtered=False, **options).whole
    assert whole.x.isnan().sum(1).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read as a table"),
        ("age,class\n1,a\n1\n", "line 3 has 1"),
        ("age,class\nold,a\n", "'old'"),
        ("age\xff,class\n1,a\n", "1 and {'a': 1}"),
    ],
)
def test_broken_tables_are_refused_by_name(tmp_path, monkeypatch, text, words):
    files = {"haberman.csv": []}  # without a checksum, so that reading is reached
    entry = with_layout(registry.ENTRIES["uci/haberman"], 0, files=files)
    monkeypatch.setitem(registry.ENTRIES, "uci/haberman", entry)
    write_table(tmp_path, "haberman", text)
    with pytest.raises(BrokenFileError) as caught:
        load("uci/haberman", root=tmp_path)
    assert "haberman.csv" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"no idx", gzip.compress(b"\0\0\x08\x03" + b"\0" * 8), gzip.compress(bytes(99))[:20]],
    ids=["empty", "text", "short", "cut"],
)
def test_broken_idx_files_are_refused_by_name(tmp_path, content):
    write_mnist(tmp_path / "mnist", mnist_arrays())
    (tmp_path / "mnist/t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(BrokenFileError, match="t10k-images-idx3-ubyte.gz"):
        read("mnist", tmp_path)


@pytest.mark.parametrize("name", ["cifar10/cifar10_test.npz", "svhn/svhn_subset.npz"])
def test_broken_npz_files_are_refused_by_name(tmp_path, name):
    write_files(tmp_path, {"cifar10/cifar10_train_1.npz": b"", name: b"PK\x03\x04 no archive"})
    with pytest.raises(BrokenFileError, match=os.path.basename(name)):
        read(name.split("/")[0], tmp_path)
    np.savez(tmp_path / name, y=np.zeros(3))
    with pytest.raises(BrokenFileError, match=os.path.basename(name)):
        read(name.split("/")[0], tmp_path)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    arrays = mnist_arrays()
    arrays["train-labels-idx1-ubyte"] = arrays["train-labels-idx1-ubyte"][:-1]
    write_mnist(tmp_path / "mnist", arrays)
    with pytest.raises(BrokenFileError, match="as many labels"):
        read("mnist", tmp_path)
    arrays = mnist_arrays()
    arrays["train-labels-idx1-ubyte"][0] = 10
    write_mnist(tmp_path / "other/mnist", arrays)
    with pytest.raises(BrokenFileError, match="classes 0 to 9"):
        read("mnist", tmp_path / "other")


def test_a_mat_file_and_a_zip_that_are_neither(tmp_path):
    pytest.importorskip("scipy")
    write_files(tmp_path, {"train_32x32.mat": b"no", "test_32x32.mat": b"no"})
    with pytest.raises(BrokenFileError, match="train_32x32.mat"):
        read("svhn", tmp_path)
    write_files(tmp_path, {"tiny-imagenet-200.zip": b"no"})
    with pytest.raises(BrokenFileError, match="tiny-imagenet-200.zip"):
        read("tiny_imagenet", tmp_path)
