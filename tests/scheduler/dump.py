"""The whole content of an object graph as text, to see whether anything in it has changed."""

from enum import Enum
from functools import cache
from typing import Any


def dump(thing: Any, ignore: frozenset[str] = frozenset()) -> str:
    """Equal if equal in content: dicts and sets without order, entries of a dict that are zero left out.

    An object met again is named by its number, a frozen value by its identity: it cannot change. Attributes
    in `ignore` are left out: results kept beside the state that are worked out anew before every use.
    """
    found: list[str] = []
    _write(thing, found, {}, ignore)
    return " ".join(found)


def _write(thing: Any, to: list[str], seen: dict[int, int], ignore: frozenset[str]) -> None:
    kind: Any = type(thing)
    if thing is None or kind in (str, int, float, bool, bytes) or isinstance(thing, Enum):
        to.append(repr(thing))
    elif kind is dict:
        to.append("{")
        for key in sorted(thing, key=_order):
            if thing[key] != 0:
                to.append(_order(key))
                _write(thing[key], to, seen, ignore)
        to.append("}")
    elif kind in (set, frozenset):
        to.append(repr(sorted(map(_order, thing))))
    elif isinstance(thing, list | tuple):
        to.append("[")
        for item in thing:
            _write(item, to, seen, ignore)
        to.append("]")
    elif callable(thing) or _frozen(kind):
        to.append(f"{kind.__name__}@{id(thing)}")
    elif id(thing) in seen:
        to.append(f"#{seen[id(thing)]}")
    else:
        seen[id(thing)] = len(seen)
        to.append(f"{kind.__name__}#{seen[id(thing)]}")
        for name in _slots(kind) or sorted(thing.__dict__):
            if name not in ignore and hasattr(thing, name):
                to.append(name)
                _write(getattr(thing, name), to, seen, ignore)


def _order(key: Any) -> str:
    """A text to sort keys by; of an object its id or name."""
    if isinstance(key, tuple):
        return repr([_order(part) for part in key])
    return str(getattr(key, "id", None) or getattr(key, "name", None) or repr(key))


@cache
def _frozen(kind: Any) -> bool:
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


@cache
def _slots(kind: Any) -> tuple[str, ...]:
    return tuple(sorted(name for base in kind.__mro__ for name in getattr(base, "__slots__", ())))
