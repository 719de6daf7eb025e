"""CIFAR's pickles run nothing when they are read: the right content, or one sentence."""

import os
import pickle
import random

import numpy as np
import pytest
from data_files import cifar_files, write_cifar, write_files
from pickle_files import python2_pickle

from softmargin.data import BrokenFileError, load
from softmargin.data.pickles import read_numbers
from softmargin.data.readers import cifar

SMALL = {
    "batch_label": "training batch 1 of 5",
    "labels": [6, 9, 300, 70000, -1],
    "data": np.arange(60, dtype=np.uint8).reshape(5, 12),
    "filenames": ["leptodactylus_pentadactylus_s_000004.png", "caf\xe9.png"],
}
PLAIN = (dict, list, tuple, str, bytes, int, float, bool, type(None), np.ndarray)


def read(content):
    return read_numbers(content, "data_batch_1")


def same(result, content):
    return list(result) == list(content) and all(
        np.array_equal(result[k], v) for k, v in content.items()
    )


def is_plain(value):
    if isinstance(value, dict):
        return all(is_plain(each) for pair in value.items() for each in pair)
    return type(value) in PLAIN


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_files_as_python_2_wrote_them(tmp_path, name):
    contents = cifar_files(name)
    write_files(tmp_path, {path: python2_pickle(each) for path, each in contents.items()})
    data = load(name, root=tmp_path, verify=False)
    batches = [each["data"] for each in contents.values() if "data" in each]
    assert np.array_equal(data.test.images.flatten(1), batches[-1])
    assert np.array_equal(data.train.images.flatten(1), np.concatenate(batches[:-1]))
    assert data.class_names[3] == "class 3"


def test_the_pickles_made_here_are_what_unpickling_takes_them_for():
    assert same(pickle.loads(python2_pickle(SMALL), encoding="latin1"), SMALL)


@pytest.mark.parametrize("kind", ["u1", "<i4", ">i2", "<f8", "b1"])
def test_arrays_of_every_kind_of_number(kind):
    array = np.arange(24).reshape(2, 3, 4).astype(kind)
    for content in (python2_pickle({"a": array}), *(pickle.dumps({"a": array}, p) for p in (2, 4))):
        result = read(content)["a"]
        assert result.dtype == pickle.loads(content, encoding="latin1")["a"].dtype
        assert np.array_equal(result, array)
    columns = np.asfortranarray(array)
    assert np.array_equal(read(pickle.dumps({"a": columns}, 2))["a"], columns)


def test_keys_may_be_bytes_and_values_may_repeat():
    shared = np.arange(3, dtype=np.uint8)
    content = {b"data": shared, b"labels": [1, 2], "again": shared, "pair": (shared, 1.5, None)}
    for protocol in (0, 1, 2, 3, 4):
        result = read(pickle.dumps(content, protocol))
        assert list(result) == ["data", "labels", "again", "pair"]
        assert np.array_equal(result["again"], shared)
        assert np.array_equal(result["pair"][0], shared)


def test_a_short_type_of_an_array_does_no_harm():
    """NumPy itself ends the whole process on this one."""
    whole = python2_pickle(SMALL)
    assert whole.count(b"NNNJ") == 1
    assert same(read(whole.replace(b"NNNJ", b"Nq\x4eJ")), SMALL)  # none of it is needed
    with pytest.raises(BrokenFileError, match="other things than numbers"):
        read(whole.replace(b"NNNJ", b"J").replace(b"U\2u1", b"U\2O8"))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x80\x02}q\x01.x", None),
        (b"", "pickle exhausted"),
        (b"garbage", "must be a pickle"),
        (b"\x80\x02}", "pickle exhausted"),
        (b"\x80\x02].", "must hold a dict"),
        (b"\x80\x02cnumpy\ndtype\n.", "must hold a dict"),
        (b"\x80\x02}U\1ah\7s.", "Memo value not found"),
        (b"\x80\x02}]K\1s.", "unhashable type: 'list'"),
        (b"\x80\x02}K\1\x85K\1s.", "neither text nor a number"),
        (b"\x80\x02}K\1" + b"\x85" * 10**6 + b"K\1s.", "more parts than a file of CIFAR"),
        (b"\x80\x02}r\xff\xff\xff\xff.", "more parts than a file of CIFAR"),
        (b"\x80\x02}U\1acnumpy\nndarray\n)Rs.", "is not callable"),
        (b"\x80\x02}U\1acnumpy.core.multiarray\n_reconstruct\n", "pickle exhausted"),
        (b"\x80\x02}U\1a(cos\nsystem\nU\2lst.", "asks for os.system"),
        (b"\x80\x02}U\1aios\nsystem\n.", "instruction INST|mark|INST"),
        (b"\x80\x02}U\1a\x82\1s.", "instruction EXT1"),
        (b"\x80\x02}U\1aU\3posP0\ns.", "instruction PERSID"),
        (b"\x80\x02}U\1ac\x1b[2J\nx\n.", r"asks for \\x1b\[2J.x"),
        (b"\x80\x02}U\1aK\1K\2.", "ends too soon|must hold"),
        (b"\x80\x02}U\1acnumpy\nndarray\ns.", "holds a name"),
    ],
)
def test_other_content_is_one_sentence(content, why):
    if why is None:
        assert read(content) == {}
        return
    with pytest.raises(BrokenFileError, match=why) as caught:
        read(content)
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith("data_batch_1 must ")


def test_shapes_that_do_not_fit_the_bytes():
    for old, new in {b"K\5K\x0c": b"K\5K\x0d", b"U\2u1": b"U\2u8", b"U\x3c\0": b"U\x3b"}.items():
        whole = python2_pickle(SMALL)
        assert old in whole
        with pytest.raises(BrokenFileError, match="another length than its shape"):
            read(whole.replace(old, new))
    huge = python2_pickle({"a": np.zeros((2, 3), np.uint8)}).replace(
        b"K\2K\3", b"\x8a\x08" + bytes(7) + b"\x7f" + b"K\0"
    )
    with pytest.raises(BrokenFileError, match="impossible shape"):
        read(huge)


def test_lists_that_share_their_content_do_not_grow(tmp_path):
    """Sixty lists, each holding the last twice: 2**60 numbers if they were written out."""
    nested = b"]q\1(K\1K\1e" + b"".join(
        b"]" + b"q" + bytes([i]) + b"(h" + bytes([i - 1]) + b"h" + bytes([i - 1]) + b"e0"
        for i in range(2, 62)
    )
    assert b"0" in nested
    with pytest.raises(BrokenFileError, match="instruction POP"):
        read(b"\x80\x02}U\6labels" + nested + b"s.")
    deep = [1]
    for _ in range(60):
        deep = [deep, deep]
    contents = cifar_files("cifar10")
    contents["cifar-10-batches-py/test_batch"]["labels"] = deep
    contents["cifar-10-batches-py/test_batch"]["data"] = [deep]
    for key in ("data", "labels"):
        write_files(tmp_path, {path: pickle.dumps(each, 2) for path, each in contents.items()})
        with pytest.raises(BrokenFileError, match=f"{key} (is no array|are no list)"):
            load("cifar10", root=tmp_path, verify=False)
        contents["cifar-10-batches-py/test_batch"]["data"] = np.zeros((4, 3072), np.uint8)


def test_a_file_that_is_too_large(tmp_path, monkeypatch):
    write_cifar(tmp_path, "cifar10")
    monkeypatch.setattr(cifar, "LIMIT", 100)
    with pytest.raises(BrokenFileError, match="data_batch_1 is larger than"):
        load("cifar10", root=tmp_path, verify=False)


@pytest.mark.parametrize("protocol", [None, 0, 2, 4])
def test_any_damage_is_read_as_plain_content_or_one_sentence(protocol):
    """Seeded mutations: changed, removed and repeated bytes. NumPy's own reader dies of some."""
    whole = python2_pickle(SMALL) if protocol is None else pickle.dumps(SMALL, protocol)
    drawn = random.Random(0)
    refused = 0
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(drawn.randint(1, 3)):
            place = drawn.randrange(len(content))
            kind = drawn.randrange(4)
            if kind == 0:
                del content[place : place + drawn.randint(1, 4)]
            elif kind == 1:
                content[place:place] = content[place : place + drawn.randint(1, 8)]
            else:
                content[place] = drawn.randrange(256)
        try:
            result = read(bytes(content))
        except BrokenFileError as error:
            refused += 1
            message = str(error)
        else:
            assert is_plain(result)
            message = "read."
        assert message.endswith(".")
        assert message.isprintable()
        assert len(message) < 400
    assert refused > 200


class Evil:
    def __init__(self, call, *arguments):
        self.parts = call, arguments

    def __reduce__(self):
        return self.parts


def pickles(target):
    return {
        "system": Evil(os.system, f"touch {target}"),
        "open": Evil(open, str(target), "w"),
        "eval": Evil(eval, f"open({str(target)!r}, 'w')"),
        "getattr": Evil(getattr, "text", "upper"),
        "numpy": Evil(np.save, str(target), 0),
        "nested": {"data": [Evil(os.mkdir, str(target))]},
        "object array": {"data": np.array([Evil(os.mkdir, str(target))], dtype=object)},
    }


@pytest.mark.parametrize("kind", pickles("x"))
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_pickles_run_no_code(tmp_path, kind, protocol):
    target = tmp_path / "target"
    content = pickle.dumps(pickles(target)[kind], protocol)
    with pytest.raises(BrokenFileError, match="data_batch_1 must be a pickle of arrays.*asks for"):
        read(content)
    assert not target.exists()


def test_load_refuses_a_pickle_with_code(tmp_path):
    write_cifar(tmp_path, "cifar10")
    target = tmp_path / "target"
    evil = pickle.dumps(Evil(os.mkdir, str(target)), 2)
    (tmp_path / "cifar-10-batches-py/data_batch_3").write_bytes(evil)
    with pytest.raises(BrokenFileError, match="data_batch_3"):
        load("cifar10", root=tmp_path, verify=False)
    assert not target.exists()
    with pytest.raises(BrokenFileError, match="data_batch_1 is damaged: its md5 must be c99caf"):
        load("cifar10", root=tmp_path)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    "content", [*cifar_files("cifar10").values(), {b"data": b"\xff\0", "n": 1.5}]
)
def test_pickles_of_numbers_are_read(content, protocol):
    result = read(pickle.dumps(content, protocol))
    for key, value in content.items():
        name = key.decode() if isinstance(key, bytes) else key
        assert np.array_equal(result[name], value)
