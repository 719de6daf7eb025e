"""The real files: published counts, class counts, means and deviations."""

import hashlib

import pytest
import torch

from softmargin.data import BrokenFileError, channel_statistics, load, load_table, names

pytestmark = [pytest.mark.data, pytest.mark.slow]

COUNTS = {
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ),
    "cifar10": (
        [1989, 1981, 2042, 2011, 2009, 1925, 2038, 2027, 2012, 1966],
        [1000] * 10,
    ),
    "cifar100": ([80] * 100, [20] * 100),
    "svhn": (
        [338, 946, 722, 580, 509, 470, 391, 382, 344, 318],
        [67, 196, 159, 111, 97, 92, 76, 77, 64, 61],
    ),
    "tiny_imagenet": ([250] * 10, [50] * 10),
}
# mean and deviation of the whole published training set, and how far the part here may be off
PUBLISHED = {
    "mnist": ((0.1307,), (0.3081,), 5e-5),
    "cifar10": ((0.49140, 0.48216, 0.44653), (0.24703, 0.24349, 0.26159), 2e-3),
    "cifar100": ((0.50708, 0.48655, 0.44092), (0.26733, 0.25644, 0.27615), 4e-3),
    "svhn": ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970), 6e-3),
}
# of the part that is here
PART = {
    "mnist": ((0.13066,), (0.30811,)),
    "cifar10": ((0.49280, 0.48299, 0.44701), (0.24743, 0.24412, 0.26205)),
    "cifar100": ((0.50362, 0.48406, 0.43928), (0.26722, 0.25553, 0.27602)),
    "svhn": ((0.44326, 0.44882, 0.47856), (0.19948, 0.20214, 0.19823)),
    "tiny_imagenet": ((0.48974, 0.45158, 0.38171), (0.27455, 0.26938, 0.28140)),
}
SHAPES = {"mnist": (1, 28, 28), "tiny_imagenet": (3, 64, 64)}
DECODED = {
    "train_1": "fc115a3de050d667b88cbd5b0b9612ebf996c54230fe7758f3a14bb5af9a1c27",
    "train_2": "89e609b642f687bc796fa3bfa4211005582a0e8131d463d996d11ddb297d312e",
    "test": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
}


@pytest.fixture(scope="module")
def loaded():
    """Each data set is decoded once for all tests here."""
    kept = {}

    def get(name):
        if name not in kept:
            kept[name] = load(name, download=False)
        return kept[name]

    return get


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_counts_shapes_and_provenance(loaded, given, name):
    data = loaded(name)
    for split, counts in zip(data, COUNTS[name], strict=True):
        assert split.class_counts(data.num_classes) == counts
        assert split.images.shape == (sum(counts), *SHAPES.get(name, (3, 32, 32)))
        assert split.images.dtype == torch.uint8
        assert split.images.is_contiguous()
        assert split.y.dtype == torch.int64
    assert len(set(data.class_names)) == data.num_classes == len(COUNTS[name][0])
    assert data.is_subset == (name != "mnist")
    assert data.provenance.files
    assert all(record.verified for record in data.provenance.files)
    assert data.provenance.source.startswith("http")
    assert data.provenance.licence
    described = data.describe()
    assert (described["train"], described["test"]) == tuple(map(sum, COUNTS[name]))
    assert described["classes"] == len(COUNTS[name][0])
    assert described["verified"]
    for file, sha256 in described["files"].items():
        (path,) = (p for p in given.rglob(file))
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256


@pytest.mark.slow
@pytest.mark.parametrize("name", PART)
def test_means_and_deviations(loaded, name):
    pytest.importorskip("PIL")
    got = channel_statistics(loaded(name).train.images)
    tolerance = 1e-3 if name == "tiny_imagenet" else 6e-6  # JPEG decoders differ
    for values, expected in zip(got, PART[name], strict=True):
        assert values.tolist() == pytest.approx(expected, abs=tolerance)
    if name in PUBLISHED:
        *published, off = PUBLISHED[name]
        for values, expected in zip(got, published, strict=True):
            assert values.tolist() == pytest.approx(expected, abs=off)


def test_cifar10_pixels_are_the_published_ones(loaded):
    data = loaded("cifar10")
    first, second = data.train.images.split(10_000)
    for name, images in (("train_1", first), ("train_2", second), ("test", data.test.images)):
        pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
        assert hashlib.sha256(pixels.tobytes()).hexdigest() == DECODED[name]


def test_list_says_what_is_a_part(capsys):
    from argparse import Namespace

    from softmargin.commands.data import run

    run(Namespace(action="list", names=list(COUNTS), root=None))
    parts = {line.split()[0] for line in capsys.readouterr().out.splitlines() if "(a part)" in line}
    assert parts == set(COUNTS) - {"mnist"}


def test_class_names(loaded):
    assert loaded("cifar10").class_names[:3] == ("airplane", "automobile", "bird")
    assert loaded("cifar100").class_names[98:] == ("woman", "worm")
    assert loaded("tiny_imagenet").class_names[0] == "Egyptian cat"
    assert loaded("svhn").class_names == tuple("0123456789")


PAPER_ROWS = {
    "pima_indians_diabetes": (392, 8, 2),
    "hayes_roth": (160, 4, 3),
    "user_knowledge_modeling": (403, 5, 4),
    "breast_cancer_wisconsin_prognostic": (194, 33, 2),
    "wholesale_customers": (440, 7, 2),
    "teaching_assistant_evaluation": (151, 5, 3),
    "banknote_authentication": (1372, 4, 2),
    "congressional_voting_records": (232, 16, 2),
    "website_phishing": (1353, 9, 3),
    "haberman": (306, 3, 2),
    "iris": (150, 4, 3),
    "breast_tissue": (106, 9, 6),
    "vertebral_column": (310, 6, 3),
    "forest_type_mapping": (523, 27, 4),
    "balance_scale": (625, 4, 3),
}
ALL_ROWS = {
    "pima_indians_diabetes": (768, [500, 268]),
    "breast_cancer_wisconsin_prognostic": (198, [151, 47]),
    "congressional_voting_records": (435, [267, 168]),
}


@pytest.mark.parametrize("stem", PAPER_ROWS)
def test_tables_have_the_papers_counts(stem):
    rows, features, classes = PAPER_ROWS[stem]
    table = load_table(f"uci/{stem}")
    assert table.whole.x.shape == (rows, features)
    assert len(table.feature_names) == features
    assert table.num_classes == classes
    assert not table.whole.x.isnan().any()
    assert not table.is_subset
    assert len(table.train) + len(table.test) == rows
    everything = load_table(f"uci/{stem}", filtered=False)
    expected = ALL_ROWS.get(stem, (rows, None))
    assert len(everything.whole) == expected[0]
    if expected[1]:
        assert everything.whole.class_counts(classes) == expected[1]
    assert not everything.is_subset


def test_every_table_is_tested():
    assert {n for n in names() if n.startswith("uci/")} == {f"uci/{stem}" for stem in PAPER_ROWS}
    assert len(names()) == 8 + 2 + 15


def test_hayes_roth_with_three_features():
    table = load_table("uci/hayes_roth").without("hobby")
    assert table.whole.x.shape == (160, 3)


FILES = [
    "cifar10/cifar10_test.npz",
    "cifar10/cifar10_train_1.npz",
    "cifar10/cifar10_train_2.npz",
    "cifar100/cifar100_subset.npz",
    "svhn/svhn_subset.npz",
    "tiny_imagenet/tiny_imagenet_10class.zip",
    "mnist/t10k-images-idx3-ubyte.gz",
    "mnist/t10k-labels-idx1-ubyte.gz",
    "mnist/train-images-idx3-ubyte.gz",
    "mnist/train-labels-idx1-ubyte.gz",
] + [f"uci/{stem}.csv" for stem in PAPER_ROWS]


def test_every_file_is_tested(given):
    assert sorted(FILES) == sorted(p.relative_to(given).as_posix() for p in given.glob("*/*"))


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_is_refused_by_name(given, tmp_path, name):
    source = given / name
    folder = tmp_path / source.parent.name
    folder.mkdir()
    for other in source.parent.iterdir():
        if other.name != source.name:
            (folder / other.name).symlink_to(other)
    content = bytearray(source.read_bytes())
    content[len(content) // 2] ^= 1
    (folder / source.name).write_bytes(content)
    data = name.removesuffix(".csv") if name.startswith("uci/") else source.parent.name
    with pytest.raises(BrokenFileError) as caught:
        load(data, root=tmp_path)
    assert str(caught.value).startswith(f"{folder / source.name} is damaged: its sha256 must be ")
