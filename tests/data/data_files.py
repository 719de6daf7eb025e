"""Small files in the published layouts, made by the tests."""

import gzip
import io
import pickle
import tarfile
import zipfile

import numpy as np

TINY = "tiny-imagenet-200/"


def idx_bytes(array):
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return b"\0\0\x08" + bytes([array.ndim]) + sizes + array.tobytes()


def mnist_arrays(seed=0, train=30, test=10):
    random = np.random.default_rng(seed)
    return {
        f"{part}-{kind}": values
        for part, n in (("train", train), ("t10k", test))
        for kind, values in (
            ("images-idx3-ubyte", random.integers(0, 256, (n, 28, 28), dtype=np.uint8)),
            ("labels-idx1-ubyte", (np.arange(n) % 10).astype(np.uint8)),
        )
    }


def write_mnist(folder, arrays, packed=True):
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        content = idx_bytes(array)
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            (folder / name).write_bytes(content)


def cifar_batch(seed, n, key, classes):
    random = np.random.default_rng(seed)
    data = random.integers(0, 256, (n, 3072), dtype=np.uint8)
    return {"data": data, key: random.integers(0, classes, n).tolist(), "batch_label": "a batch"}


def cifar_files(name):
    """Return the pickled dicts of cifar10 or cifar100 by path."""
    if name == "cifar10":
        folder, key = "cifar-10-batches-py", "labels"
        files = {f"data_batch_{i}": cifar_batch(i, 6, key, 10) for i in range(1, 6)}
        files["test_batch"] = cifar_batch(9, 4, key, 10)
        files["batches.meta"] = {"label_names": [f"class {i}" for i in range(10)]}
    else:
        folder, key = "cifar-100-python", "fine_labels"
        files = {"train": cifar_batch(1, 6, key, 100), "test": cifar_batch(2, 4, key, 100)}
        files["meta"] = {"fine_label_names": [f"class {i}" for i in range(100)]}
    return {f"{folder}/{file}": content for file, content in files.items()}


def write_cifar(root, name):
    contents = cifar_files(name)
    for path, content in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(pickle.dumps(content, protocol=2))
    return contents


def tar_of(files):
    """Return a tar.gz of {path: bytes}."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as opened:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def zip_of(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as opened:
        for path, content in files.items():
            opened.writestr(path, content)
    return stream.getvalue()


def jpeg(colour, size=(64, 64), mode="RGB"):
    from PIL import Image

    stream = io.BytesIO()
    Image.new(mode, size, colour).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def tiny_files():
    """Two classes, three training pictures each (one grey) and one test picture each."""
    files = {
        TINY + "wnids.txt": b"n02\nn01\n",
        TINY + "words.txt": b"n01\tcat, tabby\nn02\tdog\nn03\tfish\n",
        TINY + "val/val_annotations.txt": b"val_0.JPEG\tn01\t0\t0\nval_1.JPEG\tn02\t0\t0\n",
        TINY + "val/images/val_0.JPEG": jpeg((200, 0, 0)),
        TINY + "val/images/val_1.JPEG": jpeg((0, 200, 0)),
    }
    for wnid, colour in (("n01", (255, 0, 0)), ("n02", (0, 0, 255))):
        for i in range(2):
            files[f"{TINY}train/{wnid}/images/{wnid}_{i}.JPEG"] = jpeg(colour)
        files[f"{TINY}train/{wnid}/images/{wnid}_2.JPEG"] = jpeg(128, mode="L")
    return files


def write_files(root, files):
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
