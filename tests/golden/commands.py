"""The command line: every command, hidden ones too, with its arguments and options."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_origin

import typer.main

import grus
from grus.cli.main import app
from tests.golden.files import lines


def structure() -> str:
    """A line for each command and each parameter; arguments in their order, then options by name."""
    return "".join(f"{line}\n" for name, command in _all() for line in _command(name, command))


def texts() -> dict[str, Any]:
    return {name: _help(command) for name, command in _all()}


def _all() -> Iterator[tuple[str, Any]]:
    yield from _below("grus", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for one in sorted(getattr(command, "commands", {})):
        yield from _below(f"{name} {one}", command.commands[one])


def _command(name: str, command: Any) -> Iterator[str]:
    settings = [f"{key}={value}" for key, value in sorted(command.context_settings.items()) if value]
    yield " ".join([name, *_true(hidden=command.hidden, deprecated=command.deprecated), *settings])
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = sorted((one for one in command.params if one not in arguments), key=_longest)
    yield from (f"  {one.name.upper()} {_parameter(one)}" for one in arguments)
    yield from (f"  {' '.join(sorted(one.opts, key=len, reverse=True))} {_parameter(one)}" for one in options)


def _longest(option: Any) -> str:
    return str(max(option.opts, key=len))


def _parameter(one: Any) -> str:
    """Its type, what it is beside optional with one value, and its default."""
    words = [_type(one.type_descriptor.annotation)]
    words += _true(
        required=one.required,
        repeated=one.multiple,
        hidden=one.hidden,
        flag=getattr(one, "is_flag", False),
        counted=getattr(one, "count", False),
    )
    said = {"values": one.nargs if one.nargs != 1 else None, "least": one.min, "most": one.max}
    said |= {"off": " ".join(one.secondary_opts) or None, "environment": one.envvar}
    default = _default(one.default)
    said["default"] = default if default not in (None, False, "", []) else None
    return " ".join([*words, *(f"{key}={value}" for key, value in said.items() if value is not None)])


def _true(**said: object) -> list[str]:
    return [key for key, value in said.items() if value]


def _type(annotation: Any) -> str:
    if get_origin(annotation) is list:
        return f"list of {_type(get_args(annotation)[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(str(one.value) for one in annotation)
    return str(annotation.__name__)


def _default(value: Any) -> Any:
    if callable(value):
        return "computed"
    if isinstance(value, Enum):
        return value.value
    return value.replace(grus.__version__, "VERSION") if isinstance(value, str) else value


def _help(command: Any) -> dict[str, Any]:
    options = {" ".join(one.opts): lines(one.help) for one in command.params if one.help}
    said = {"help": command.help, "short help": command.short_help, "epilog": command.epilog}
    return {**{key: lines(text) for key, text in said.items() if text}, "options": options}
