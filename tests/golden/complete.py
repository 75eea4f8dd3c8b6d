"""Values of the model with every field set, each to another value than its default.

A value is made of the type and the name of its field alone, so that a new field changes no other one.
"""

import zlib
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, NewType, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def complete(kind: type[T]) -> T:
    """An object of this dataclass."""
    return cast(T, _value(kind, "", MISSING))


def defaults_left(value: object, place: str = "") -> Iterator[str]:
    """The fields, at any depth, that hold their default or nothing."""
    if isinstance(value, tuple):
        if not value:
            yield place
        for one in value:
            yield from defaults_left(one, place)
    elif is_dataclass(value):
        for field in fields(value):
            held = getattr(value, field.name)
            if held is None or held == _default(field):
                yield f"{place}.{field.name}"
            else:
                yield from defaults_left(held, f"{place}.{field.name}")


def words(value: object, place: str) -> Iterator[tuple[str, list[str]]]:
    """The fields, at any depth, that hold one word of several, each with all of them."""
    if isinstance(value, Enum):
        yield place, [str(one.value) for one in type(value)]
    elif isinstance(value, tuple):
        for one in value:
            yield from words(one, place)
    elif is_dataclass(value):
        for field in fields(value):
            yield from words(getattr(value, field.name), f"{place}.{field.name}")


def _value(kind: Any, name: str, default: object) -> Any:
    if isinstance(kind, NewType):
        return _value(kind.__supertype__, name, default)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _value([one for one in arguments if one is not NoneType][-1], name, default)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return (_value(arguments[0], name, MISSING),)
        return tuple(_value(one, f"{name} {number}", MISSING) for number, one in enumerate(arguments, 1))
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        made = {one.name: _value(hints[one.name], one.name, _default(one)) for one in fields(kind)}
        return cast(Any, kind)(**made)
    return next(one for one in _plain(kind, name) if one != default)


def _plain(kind: type, name: str) -> tuple[Any, ...]:
    """Candidates of which one at least is not the default."""
    number = zlib.crc32(name.encode()) % 1000 + 2
    if issubclass(kind, Enum):
        return tuple(reversed(list(kind)))
    known: dict[type, tuple[Any, ...]] = {
        bool: (True, False),
        int: (number, number + 1),
        float: (number + 0.5, number + 1.5),
        str: (name, f"a {name}"),
    }
    return known[kind]


def _default(field: "Field[Any]") -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default
