"""The image data sets: counts, checksums, sources and layouts."""

from __future__ import annotations

from softmargin.data import checksums as sums
from softmargin.data.entry import Entry, Layout, Remote
from softmargin.data.readers import folders, idx, packed, pictures, standard

_DIGITS = tuple("0123456789")
_FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def _idx_layouts(
    folders: tuple[str, ...],
    packed_sums: tuple[str, ...],
    raw_sums: tuple[str, ...],
    classes: tuple[str, ...],
) -> tuple[Layout, ...]:
    read = idx.reader(classes)
    names = tuple(f"{name}.gz" for name in idx.FILES)
    return tuple(
        Layout(folder, dict(zip(files, totals, strict=True)), read)
        for folder in folders
        for files, totals in ((names, packed_sums), (idx.FILES, raw_sums))
    )


def _idx_remotes(base: str, folder: str, totals: tuple[str, ...]) -> tuple[Remote, ...]:
    return tuple(
        Remote(f"{base}/{name}.gz", total, f"{folder}/{name}.gz")
        for name, total in zip(idx.FILES, totals, strict=True)
    )


_TORONTO = "https://www.cs.toronto.edu/~kriz"
# this server has no https; its files have SHA-256 sums
_STANFORD = "http://ufldl.stanford.edu/housenumbers"
_CIFAR_LICENCE = "none stated; free for research, cite Krizhevsky 2009"
_IMAGENET_LICENCE = "ImageNet terms: non-commercial research and education only"


def _folders(*names: str) -> tuple[Layout, ...]:
    wanted, read = {"train": "", "val": ""}, folders.read_folders
    here = Layout("", wanted, read, named_only=True)
    return (*(Layout(name, wanted, read) for name in names), here)


def _unpacked(archive: dict[str, str]) -> tuple[Remote, ...]:
    return tuple(Remote(f"{_TORONTO}/{n}", s, n, unpack=True) for n, s in archive.items())


IMAGES = (
    Entry(
        "mnist",
        "MNIST, handwritten digits, grey 28x28",
        10,
        60_000,
        10_000,
        "http://yann.lecun.com/exdb/mnist/",
        "copyright Y. LeCun and C. Cortes; commonly given as CC BY-SA 3.0",
        _idx_layouts(("mnist", "MNIST/raw"), sums.MNIST_GZ, sums.MNIST_RAW, _DIGITS),
        _idx_remotes("https://ossci-datasets.s3.amazonaws.com/mnist", "MNIST/raw", sums.MNIST_GZ),
        12,
    ),
    Entry(
        "fashion_mnist",
        "Fashion-MNIST, articles of clothing, grey 28x28",
        10,
        60_000,
        10_000,
        "https://github.com/zalandoresearch/fashion-mnist",
        "MIT",
        _idx_layouts(("fashion_mnist", "FashionMNIST/raw"), sums.FASHION_GZ, ("",) * 4, _FASHION),
        _idx_remotes(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
            "FashionMNIST/raw",
            sums.FASHION_GZ,
        ),
        31,
        mirrorable=True,
    ),
    Entry(
        "cifar10",
        "CIFAR-10, colour 32x32",
        10,
        50_000,
        10_000,
        f"{_TORONTO}/cifar.html",
        _CIFAR_LICENCE,
        (
            Layout("cifar-10-batches-py", sums.CIFAR10, standard.read_cifar10),
            Layout("", sums.CIFAR10_ARCHIVE, standard.read_cifar10_archive),
            Layout(
                "cifar10",
                sums.CIFAR10_PACKED,
                packed.read_cifar10,
                frozenset(f"cifar10_train_{i}.npz" for i in (2, 3, 4, 5)),
                "re-packed without loss",
            ),
        ),
        _unpacked(sums.CIFAR10_ARCHIVE),
        170,
        mirrorable=True,
    ),
    Entry(
        "cifar100",
        "CIFAR-100 with its fine classes, colour 32x32",
        100,
        50_000,
        10_000,
        f"{_TORONTO}/cifar.html",
        _CIFAR_LICENCE,
        (
            Layout("cifar-100-python", sums.CIFAR100, standard.read_cifar100),
            Layout("", sums.CIFAR100_ARCHIVE, standard.read_cifar100_archive),
            Layout("cifar100", sums.CIFAR100_PACKED, packed.read_subset, is_part=True),
        ),
        _unpacked(sums.CIFAR100_ARCHIVE),
        169,
        mirrorable=True,
    ),
    Entry(
        "svhn",
        "Street View House Numbers, cropped digits, colour 32x32",
        10,
        73_257,
        26_032,
        _STANFORD + "/",
        "non-commercial use only; cite Netzer et al. 2011",
        (
            *(Layout(folder, sums.SVHN, standard.read_svhn) for folder in ("", "svhn", "SVHN")),
            Layout(
                "svhn",
                sums.SVHN_PACKED,
                packed.read_subset,
                note="crops rebuilt from the full pictures: not comparable with published results",
                is_part=True,
            ),
        ),
        tuple(
            Remote(f"{_STANFORD}/{name}", total, f"svhn/{name}")
            for name, total in sums.SVHN.items()
        ),
        246,
    ),
    Entry(
        "tiny_imagenet",
        "Tiny-ImageNet, colour 64x64; the published validation set is the test split",
        200,
        100_000,
        10_000,
        "https://cs231n.stanford.edu/",
        _IMAGENET_LICENCE,
        (
            Layout("", sums.TINY, pictures.read_tiny_zip),
            Layout("tiny-imagenet-200", sums.TINY_FOLDER, pictures.read_tiny_folder),
            Layout("tiny_imagenet", sums.TINY_PACKED, pictures.read_tiny_zip, is_part=True),
        ),
        tuple(Remote(f"https://cs231n.stanford.edu/{n}", s, n) for n, s in sums.TINY.items()),
        248,
        mirrorable=True,
    ),
    Entry(
        "imagenet",
        "ImageNet 2012, decoded from a folder; the validation set is the test split",
        1000,
        1_281_167,
        50_000,
        "https://www.image-net.org/",
        _IMAGENET_LICENCE,
        _folders("imagenet", "ImageNet"),
        advice="put folders train and val, each with one folder per class, into imagenet there",
        mirrorable=True,
    ),
    Entry(
        "places365",
        "Places365-Standard, decoded from a folder; the validation set is the test split",
        365,
        1_803_460,
        36_500,
        "http://places2.csail.mit.edu/",
        "CC BY; the pictures belong to their photographers",
        _folders("places365", "places365_standard"),
        advice="put folders train and val, each with one folder per class, into places365 there",
        mirrorable=True,
    ),
)
