"""Pictures with their classes out of a TFRecord file, without TensorFlow; or out of a file that torch wrote.

A TFRecord file is records one after the other: a length of 8 bytes, 4 bytes of checksum, the content, 4
bytes of checksum (tensorflow.org/tutorials/load_data/tfrecord). The content is a `tf.train.Example`, a
protocol buffer: features by name, each a list of bytes, floats or integers. Lengths are checked, checksums
are not.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils.data import TensorDataset

from grus.model.errors import BadInput, Mistake

Feature = list[bytes] | list[float] | list[int]
Features = dict[str, Feature]

PICTURE = ("image_raw", "image", "image/encoded", "x")
LABEL = ("label", "image/class/label", "y")
SIZES = ("height", "width", "depth")
MOST = 2_000_000
"""Records that are read; more belong in a program of one's own."""


def dataset(path: str) -> TensorDataset:
    """Pictures as floats from 0 to 1 (N × C × H × W) and classes. Raises BadInput."""
    file = Path(path)
    if not path or not file.is_file():
        rule = "must be a file with the training data, a TFRecord file or one of torch (.pt)"
        raise BadInput([Mistake("data", rule, path)])
    try:
        return _of_torch(file) if file.suffix in (".pt", ".pth") else _of_records(file)
    except (ValueError, IndexError, KeyError, struct.error, RuntimeError) as error:
        raise BadInput([Mistake("data", f"cannot be read as training data: {error}", path)]) from error


def _of_torch(file: Path) -> TensorDataset:
    pictures, labels = torch.load(file, weights_only=True)
    return TensorDataset(pictures.float(), labels.long())


def _of_records(file: Path) -> TensorDataset:
    pictures, labels = [], []
    for number, content in enumerate(records(file.read_bytes())):
        if number == MOST:
            break
        features = example(content)
        pictures.append(_picture(features))
        labels.append(_whole(features, LABEL))
    if not pictures:
        raise ValueError("it has no records")
    return TensorDataset(torch.stack(pictures), torch.tensor(labels))


def records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        begin, end = at + 12, at + 12 + length
        if end + 4 > len(data):
            raise ValueError(f"the record at byte {at} says {length} bytes, more than there are")
        yield data[begin:end]
        at = end + 4


# ------------------------------------------------------------------------------------------------ pictures


def _picture(features: Features) -> torch.Tensor:
    values = next((features[name] for name in PICTURE if name in features), None)
    if not values:
        raise ValueError(f"a record has none of {', '.join(PICTURE)}")
    if isinstance(values[0], bytes):
        flat = torch.frombuffer(bytearray(values[0]), dtype=torch.uint8).float() / 255
    else:
        flat = torch.tensor(values, dtype=torch.float32)
    height, width, depth = _shape(features, len(flat))
    return flat.reshape(height, width, depth).permute(2, 0, 1)


def _shape(features: Features, length: int) -> tuple[int, int, int]:
    """Return the shape that the record names, else a square one, of three colors or one."""
    said = [_whole(features, (name, f"image/{name}"), 0) for name in SIZES]
    if all(said[:2]):
        height, width, depth = said[0], said[1], said[2] or length // (said[0] * said[1])
    else:
        depth = 3 if length % 3 == 0 and math.isqrt(length // 3) ** 2 == length // 3 else 1
        height = width = math.isqrt(length // depth)
    if height * width * depth != length:
        raise ValueError(
            f"a picture of {length} values is not {height} × {width} × {depth}: is it compressed?"
        )
    return height, width, depth


def _whole(features: Features, names: tuple[str, ...], default: int | None = None) -> int:
    for name in names:
        if features.get(name):
            return int(features[name][0])
    if default is None:
        raise ValueError(f"a record has none of {', '.join(names)}")
    return default


# ----------------------------------------------------------------------------------------- protocol buffer


def example(content: bytes) -> Features:
    """The features of a `tf.train.Example`."""
    found: Features = {}
    for _, features in _fields(content):
        for _, entry in _fields(features):
            parts = dict(_fields(entry))
            found[parts[1].decode()] = _feature(parts.get(2, b""))
    return found


def _feature(content: bytes) -> Feature:
    for kind, values in _fields(content):
        if kind == 1:
            return [value for _, value in _fields(values)]
        packed = b"".join(value for _, value in _fields(values))
        if kind == 2:
            return list(struct.unpack(f"<{len(packed) // 4}f", packed))
        if kind == 3:
            return list(_varints(packed))
    return []


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each field; a number of its own is yielded as its bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 2:
            length, at = _varint(data, at)
            end = at + length
        elif wire == 0:
            _, end = _varint(data, at)
        elif wire in (1, 5):
            end = at + (8 if wire == 1 else 4)
        else:
            raise ValueError("it is not made of tf.train.Example records")
        if end > len(data):
            raise ValueError("a record ends too early")
        yield tag >> 3, data[at:end]
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("it is not made of tf.train.Example records")


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value - (1 << 64) if value >> 63 else value
