"""The whole content of an object graph as text, to see whether anything in it has changed."""

from collections.abc import Iterator
from enum import Enum
from typing import Any


def dump(thing: Any, ignore: frozenset[str] = frozenset()) -> str:
    """Equal if equal in content: dicts and sets without order, entries of a dict that are zero left out.

    An object met again is named by its number. Attributes in `ignore` are left out: results kept beside the
    state that are worked out anew before every use.
    """
    return "".join(_parts(thing, {}, ignore))


def _parts(thing: Any, seen: dict[int, int], ignore: frozenset[str]) -> Iterator[str]:
    if thing is None or isinstance(thing, str | bytes | int | float | Enum):
        yield repr(thing)
    elif callable(thing):
        yield getattr(thing, "__qualname__", "callable")
    elif isinstance(thing, dict):
        yield "{"
        for key in sorted(thing, key=_order):
            if thing[key] != 0:
                yield f"{_order(key)}: "
                yield from _parts(thing[key], seen, ignore)
                yield ", "
        yield "}"
    elif isinstance(thing, set | frozenset):
        yield repr(sorted(map(_order, thing)))
    elif isinstance(thing, list | tuple):
        yield "["
        for item in thing:
            yield from _parts(item, seen, ignore)
            yield ", "
        yield "]"
    elif id(thing) in seen:
        yield f"#{seen[id(thing)]}"
    else:
        seen[id(thing)] = len(seen)
        yield f"{type(thing).__name__}#{seen[id(thing)]}("
        for name in _names(thing):
            if name not in ignore and hasattr(thing, name):
                yield f"{name}="
                yield from _parts(getattr(thing, name), seen, ignore)
                yield ", "
        yield ")"


def _order(key: Any) -> str:
    """A text to sort keys by; of an object its id or name."""
    if isinstance(key, tuple):
        return repr([_order(part) for part in key])
    return str(getattr(key, "id", None) or getattr(key, "name", None) or repr(key))


def _names(thing: Any) -> list[str]:
    slots = {name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())}
    return sorted((slots | set(getattr(thing, "__dict__", {}))) - {"__weakref__", "__dict__"})
