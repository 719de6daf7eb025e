"""The facts of every data set: fields of its entry, known without PyTorch."""

import subprocess
import sys

import pytest

from softmargin._lazy import load_object
from softmargin.data import names, registry

DIGITS = tuple("0123456789")
# classes, training and test size, shape, whether pictures may be mirrored
IMAGES = {
    "mnist": (10, 60_000, 10_000, (1, 28, 28), False),
    "fashion_mnist": (10, 60_000, 10_000, (1, 28, 28), True),
    "cifar10": (10, 50_000, 10_000, (3, 32, 32), True),
    "cifar100": (100, 50_000, 10_000, (3, 32, 32), True),
    "svhn": (10, 73_257, 26_032, (3, 32, 32), False),
    "tiny_imagenet": (200, 100_000, 10_000, (3, 64, 64), True),
    "imagenet": (1000, 1_281_167, 50_000, (), True),
    "places365": (365, 1_803_460, 36_500, (), True),
    "digits": (10, 1797, 0, (1, 8, 8), False),
}


@pytest.mark.parametrize("name", IMAGES)
def test_facts_of_image_data_sets(name):
    entry = registry.ENTRIES[name]
    facts = (entry.num_classes, entry.train, entry.test, entry.shape, entry.mirrorable)
    assert facts == IMAGES[name]
    assert entry.has_split == (name != "digits")
    assert len(entry.class_names) in (0, entry.num_classes)


@pytest.mark.parametrize("name", names())
def test_every_entry_is_complete(name):
    entry = registry.ENTRIES[name]
    assert entry.title
    assert entry.licence
    assert entry.source.startswith("http")
    assert bool(entry.bundled) != bool(entry.layouts)
    assert entry.has_download or entry.bundled or entry.advice
    readers = [layout.read for layout in entry.layouts] or [entry.bundled]
    assert all(callable(load_object(f"softmargin.data.readers.{read}")) for read in readers)
    for layout in entry.layouts:
        assert set(layout.optional) <= set(layout.files)
        assert layout.into in ("", *layout.folders)
        if layout.unpack:
            assert sum(layout.unpack in other.folders for other in entry.layouts) == 1
    if entry.recipe is not None:
        assert sorted(entry.recipe.class_counts) == list(entry.recipe.class_counts)
        assert set(entry.recipe.classes.values()) == set(entry.recipe.class_counts)
        assert set(entry.recipe.zero_is_missing) <= set(entry.recipe.features)
        assert entry.train == sum(entry.recipe.class_counts.values()) <= entry.recipe.rows


def test_digits_and_house_numbers_have_their_own_names():
    assert registry.ENTRIES["mnist"].class_names == DIGITS
    assert registry.ENTRIES["svhn"].class_names == DIGITS
    assert registry.ENTRIES["fashion_mnist"].class_names[9] == "Ankle boot"


@pytest.mark.parametrize(
    "code",
    [
        "from softmargin import data; data.names()",
        "from softmargin.data.registry import entry_of; entry_of('svhn')",
        "from softmargin import models; models.names(); models.find('VGG-16')",
        "import softmargin.commands.data",
    ],
)
def test_names_are_known_without_torch(code):
    code += "; import sys; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lazy_packages_have_all_their_names():
    from softmargin import data, models

    for package in (data, models):
        assert set(package.__all__) <= set(dir(package))
        assert all(getattr(package, name) is not None for name in package.__all__)
        with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute"):
            _ = package.nonsense
