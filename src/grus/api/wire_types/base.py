"""Base class of all data that leaves the server, and the one conversion from values of the model.

A field takes the value's attribute of the same name. An annotation of the field states a difference:
`Source`, `Convert` or `Derived`. A field of such data itself, or a sequence of it, is converted likewise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict

from grus.api.wire_types.timestamps import rfc3339
from grus.model.texts.units import gpu_number


class Out(BaseModel):
    """Data that leaves the server. A client of an older version ignores fields that it does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @classmethod
    def from_model(cls, source: object, /, **given: object) -> Self:
        """Return the wire form of a value of the model.

        `given` has the values of fields that the source does not have. Raises AttributeError if a field is
        neither given nor an attribute.
        """
        made: Self = cls.__pydantic_validator__.validate_python(_values(cls, source, given))
        return made


@dataclass(frozen=True, slots=True)
class Source:
    """Attribute with the field's value, where its name is another one; dots separate nested attributes."""

    path: str


@dataclass(frozen=True, slots=True)
class Convert:
    """Function from the model's form of a value to the wire form. None stays None."""

    call: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Derived:
    """Function that computes the field from the whole value of the model."""

    call: Callable[[Any], Any]


Timestamp = Annotated[str, Convert(rfc3339)]
"""RFC 3339; seconds since 1970 in the model."""
GpuCount = Annotated[float | int, Convert(gpu_number)]
"""GPUs, whole or a share of one; micro-GPUs in the model."""
GpuHours = Annotated[float, Source("gpu_seconds"), Convert(lambda seconds: seconds / 3600)]


def _values(kind: type[Out], source: object, given: Mapping[str, object]) -> dict[str, Any]:
    return _reader(kind, *given)(source, given)


@cache
def _reader(kind: type[Out], *given: str) -> Callable[[Any, Mapping[str, object]], dict[str, Any]]:
    """Compile the function that reads the fields of a class from a value of the model and what is given.

    The function is one expression, as if it were written by hand: lists convert thousands of values.
    """
    if unknown := set(given) - kind.model_fields.keys():
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    functions: dict[str, Any] = {}
    items = []
    for name, field in kind.model_fields.items():
        marks = {type(mark): mark for mark in field.metadata}
        if name in given:
            value = f"given['{name}']"
        elif Derived in marks:
            functions[f"derive_{name}"] = marks[Derived].call
            value = f"derive_{name}(source)"
        else:
            value = f"source.{marks[Source].path if Source in marks else name}"
        convert = marks[Convert].call if Convert in marks else _converter(field.annotation)
        if convert is not None:
            functions[f"convert_{name}"] = convert
            value = f"None if (value := {value}) is None else convert_{name}(value)"
        items.append(f"'{name}': {value}")
    text = f"lambda source, given: {{{', '.join(items)}}}"
    return eval(text, functions)  # type: ignore[no-any-return]  # noqa: S307  # names of fields only


def _converter(annotation: Any) -> Callable[[Any], Any] | None:
    """Find the function for values of a type: of the type itself, of its elements, or of what is not None."""
    if isinstance(annotation, type) and issubclass(annotation, Out):
        return partial(_nested, annotation)
    found = [mark.call for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Convert)]
    found += [call for part in get_args(annotation) if (call := _converter(part)) is not None]
    if found and get_origin(annotation) in (tuple, Sequence):
        return partial(_each, found[0])
    return found[0] if found else None


def _nested(kind: type[Out], value: object) -> object:
    return value if isinstance(value, Out) else _values(kind, value, {})


def _each(call: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return [call(value) for value in values]
