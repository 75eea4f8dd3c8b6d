"""Structural schemas: wire types in the form by which an API server checks objects. Pure.

Kubernetes requires schemas that are *structural*: every node names its type, there are no references, and no
named field may be forbidden. Types that cannot be expressed so (a number or a text, a text or a list) are
left open here; the controller checks them and reports errors in the object's conditions.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel

Schema = dict[str, Any]

OPEN: Schema = {"x-kubernetes-preserve-unknown-fields": True}
"""Anything at all."""
_KEPT = ("type", "description", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "format")


def structural(model: type[BaseModel], *, without: frozenset[str] = frozenset()) -> Schema:
    """The schema of a wire type, but for some of its fields."""
    schema = model.model_json_schema()
    _explain(schema, model)
    for name, one in _inside(model).items():
        if name in schema.get("$defs", {}):
            _explain(schema["$defs"][name], one)
    found = _node(schema, schema.get("$defs", {}))
    found["properties"] = {name: one for name, one in found["properties"].items() if name not in without}
    return found


def _node(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Schema:
    if "$ref" in schema:
        return {**_node(known[schema["$ref"].rpartition("/")[2]], known), **_words(schema)}
    if "anyOf" in schema:
        return _choice(schema, known)
    found: Schema = {name: schema[name] for name in _KEPT if name in schema}
    if "properties" in schema:
        found["properties"] = {name: _node(one, known) for name, one in schema["properties"].items()}
        if schema.get("required"):
            found["required"] = list(schema["required"])
    elif schema.get("additionalProperties") is True:
        found |= OPEN
    elif isinstance(schema.get("additionalProperties"), Mapping):
        found["additionalProperties"] = _node(schema["additionalProperties"], known)
    if "items" in schema:
        found["items"] = _node(schema["items"], known)
    if found.get("type") == "string" and not found.keys() & {"enum", "pattern", "minLength"}:
        # A Kubernetes 1.20 built with a later Go treats an empty text as null: as in `env: {DEBUG: ""}`.
        found["nullable"] = True
    return found if "type" in found else {**OPEN, **_words(schema)}


def _choice(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Schema:
    """Return the schema of a choice: an optional value, a whole number or a text, or anything."""
    choices = [one for one in schema["anyOf"] if one.get("type") != "null"]
    absent = {"nullable": True} if len(choices) < len(schema["anyOf"]) else {}
    if len(choices) == 1:
        return {**_node(choices[0], known), **absent, **_words(schema)}
    if {one.get("type") for one in choices} == {"string", "integer"}:
        return {"x-kubernetes-int-or-string": True, **absent, **_words(schema)}
    return {**OPEN, **absent, **_words(schema)}


def _words(schema: Mapping[str, Any]) -> Schema:
    return {"description": schema["description"]} if "description" in schema else {}


def _explain(schema: Schema, model: type[BaseModel]) -> None:
    """Add to each field its docstring in the source: `kubectl explain` shows it."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    for line, below in pairwise(body.body):
        if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)):
            continue
        field = model.model_fields.get(line.target.id)
        if field is None or not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)):
            continue
        name = field.alias or line.target.id
        schema["properties"][name] = {**schema["properties"][name], "description": str(below.value.value)}


def _inside(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The wire types that fields of this one are made of, at any depth, by name."""
    found: dict[str, type[BaseModel]] = {}
    left: list[Any] = [field.annotation for field in model.model_fields.values()]
    while left:
        one = left.pop()
        left += get_args(one)
        if inspect.isclass(one) and issubclass(one, BaseModel) and one.__name__ not in found:
            found[one.__name__] = one
            left += [field.annotation for field in one.model_fields.values()]
    return found
