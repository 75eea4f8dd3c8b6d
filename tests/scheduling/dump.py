"""The whole content of an object graph as text, to see whether anything in it has changed."""

from enum import Enum
from typing import Any


def dump(thing: Any, _above: tuple[int, ...] = ()) -> str:
    """Equal exactly if equal in content: containers by their items, sets and dicts without order."""
    if thing is None or isinstance(thing, str | bytes | int | float | complex | Enum) or callable(thing):
        return repr(thing) if not callable(thing) else getattr(thing, "__qualname__", "callable")
    if id(thing) in _above:
        return "<above>"
    above = (*_above, id(thing))
    if isinstance(thing, dict):
        return "{" + ", ".join(sorted(f"{dump(k, above)}: {dump(v, above)}" for k, v in thing.items())) + "}"
    if isinstance(thing, set | frozenset):
        return "{" + ", ".join(sorted(dump(item, above) for item in thing)) + "}"
    if isinstance(thing, list | tuple):
        return "[" + ", ".join(dump(item, above) for item in thing) + "]"
    return f"{type(thing).__name__}({', '.join(_fields(thing, above))})"


def _fields(thing: Any, above: tuple[int, ...]) -> list[str]:
    slots = {name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())}
    names = sorted((slots | set(getattr(thing, "__dict__", {}))) - {"__weakref__", "__dict__"})
    return [f"{name}={dump(getattr(thing, name), above)}" for name in names if hasattr(thing, name)]
