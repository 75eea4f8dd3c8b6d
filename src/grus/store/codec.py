"""Codec: values of the model as JSON text and back.

A value that cannot be read back unchanged (a number that is not finite, a string that is not Unicode) is
refused before it is stored: one such value among the stored ones would make every later listing fail. A field
added to the model must have a default, so that text written before it still decodes; a removed field is
skipped on reading.
"""

from typing import Any, Generic, TypeVar

import msgspec

from grus.model.activity_labels import Tag
from grus.model.errors import BadInput, Mistake
from grus.model.interfaces import Collection, Event
from grus.model.jobs import Job
from grus.model.nodes import Drain
from grus.model.queues import Queue

T = TypeVar("T")


class Codec(Generic[T]):
    """JSON text of one kind of value."""

    def __init__(self, kind: type[T]) -> None:
        self._name = kind.__name__.lower()
        self._encoder = msgspec.json.Encoder()
        self._one = msgspec.json.Decoder(kind)
        self._many = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]  # a type made at run time

    def encode(self, value: T) -> str:
        """Return the JSON text. Raises BadInput if reading it back would not give an equal value."""
        try:
            text = self._encoder.encode(value)
            same = self._one.decode(text) == value
        except (msgspec.MsgspecError, UnicodeError, TypeError, ValueError, OverflowError) as error:
            raise self._refusal(str(error)) from error
        if not same:
            raise self._refusal("it would come back changed")
        return text.decode()

    def decode(self, text: bytes | str) -> T:
        return self._one.decode(text)

    def decode_list(self, text: bytes | str) -> list[T]:
        """Decode a JSON array: one call for thousands of values."""
        return self._many.decode(text)

    def _refusal(self, why: str) -> BadInput:
        return BadInput([Mistake(self._name, f"cannot be stored as it is: {why}")])


JOB = Codec(Job)
EVENT = Codec(Event)
QUEUE = Codec(Queue)
TAG = Codec(Tag)
DRAIN = Codec(Drain)
TAGS = Codec(dict[str, Tag])
_CODECS: dict[Collection[Any], Codec[Any]] = {}


def of(collection: Collection[T]) -> Codec[T]:
    if collection not in _CODECS:
        _CODECS[collection] = Codec(collection.kind)
    return _CODECS[collection]
