"""Run state as one nested dict of tensors and plain values: captured, restored, sent.

The most advanced member of a worker group sends it to the members that are behind: first a skeleton, in which
numbers replace the tensors, and then the tensors, many at a time. Tensors are received directly into those
that the receiver has, where shape and type agree, so that no worker needs the memory twice.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch

from grus.elastic.rendezvous.collective_backends import Broken
from grus.elastic.rendezvous.process_group import Group

CHUNK = 64 << 20
"""Bytes sent at once."""
HEAD = 64 << 10
"""Bytes in which most skeletons fit, with their length: one exchange instead of two."""
_LENGTH = 8


class Stateful(Protocol):
    """Interface of a model, an optimizer, a scheduler or a gradient scaler with a state."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any: ...


class Differs(Exception):
    """Raised when this worker's model is not that of its worker group."""


def capture(parts: Mapping[str, Stateful]) -> dict[str, Any]:
    return {name: part.state_dict() for name, part in parts.items()}


def restore(parts: Mapping[str, Stateful], state: Mapping[str, Any]) -> None:
    missing = [name for name in parts if name not in state]
    if missing:
        raise Differs(
            f"there is no state of {', '.join(missing)}: the program has changed since it was saved"
        )
    for name, part in parts.items():
        try:
            part.load_state_dict(state[name])
        except (RuntimeError, ValueError, KeyError) as error:
            raise Differs(f"the state of {name} does not fit: {error}") from error


def signature(models: Mapping[str, torch.nn.Module]) -> dict[str, str]:
    """Name, shape and type of every tensor of the models."""
    return {
        f"{name}.{key}": f"{'×'.join(map(str, value.shape)) or 'one'} {_dtype(value)}"
        for name, model in models.items()
        for key, value in model.state_dict().items()
        if isinstance(value, torch.Tensor)
    }


def difference(mine: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The first tensor in which two models differ, in words; "" if they do not."""
    for name in [*mine, *theirs]:
        here, there = mine.get(name, "missing"), theirs.get(name, "missing")
        if here != there:
            return f"{name} is {here} here and {there} there"
    return ""


def give(group: Group, state: dict[str, Any], device: torch.device, *, sure: bool = False) -> None:
    """Send the whole state to all; every other member calls `take`. Raises Broken if one of them refuses it.

    `sure`: no member will refuse it, so none is asked; all members must pass the same value.
    """
    content, tensors = _packed(state)
    _send(group, content, device)
    if not sure:
        _agree(group, "", device)
    _exchange(group, list(tensors.values()), group.rank, device)


def take(
    group: Group,
    source: int,
    device: torch.device,
    own: dict[str, Any] | None,
    objection: Callable[[Mapping[str, Any]], str],
    *,
    sure: bool = False,
) -> dict[str, Any]:
    """Receive the state from the member `source`, where possible into the tensors of `own`.

    Without `own` it is received into main memory, and changes nothing before it is whole. Raises Differs if
    `objection` returns a reason against its plain values.
    """
    told = _unpacked(_receive(group, source, device))
    if not sure:
        _agree(group, objection(told["skeleton"]), device)
    tensors = _room(told, own)
    _exchange(group, list(tensors.values()), source, device)
    state: dict[str, Any] = _fill(told["skeleton"], tensors)
    return state


def hand_out(
    group: Group,
    state: dict[str, Any] | None,
    device: torch.device,
    keep: Callable[[str, torch.Tensor], torch.Tensor],
) -> dict[str, Any]:
    """Distribute the first member's state to all, one tensor after the other: each keeps what `keep` returns.

    No other member has memory for all of it. Raises Broken.
    """
    if group.rank == 0:
        assert state is not None
        content, tensors = _packed(state)
        _send(group, content, device)
    else:
        content, tensors = _receive(group, 0, device), {}
    told = _unpacked(content)
    kept = {}
    for path, (shape, dtype, _) in told["kinds"].items():
        room = torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=device)
        whole = tensors[path].to(device).contiguous() if path in tensors else room
        group.broadcast(whole, 0).wait()
        group.settle()
        kept[path] = keep(path, whole)
    found: dict[str, Any] = _fill(told["skeleton"], kept)
    return found


def copied(state: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The state as a worker would have it that got it from this one."""
    content, tensors = _packed(state)
    told = _unpacked(content)
    room = _room(told, None)
    for flat, chunk in zip(_flat(list(tensors.values()), device), _chunks(list(room.values())), strict=True):
        _spread(flat, chunk)
    found: dict[str, Any] = _fill(told["skeleton"], room)
    return found


def _packed(state: dict[str, Any]) -> tuple[bytes, dict[str, torch.Tensor]]:
    """Return the description of a state that is sent before its tensors, and the tensors."""
    tensors: dict[str, torch.Tensor] = {}
    skeleton = _strip(state, "", tensors)
    buffer = io.BytesIO()
    torch.save({"skeleton": skeleton, "kinds": {path: _kind(one) for path, one in tensors.items()}}, buffer)
    return buffer.getvalue(), tensors


def _unpacked(content: bytes) -> dict[str, Any]:
    """Return the unpacked content; it has only plain values, never code."""
    told: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
    return told


def _room(told: Mapping[str, Any], own: dict[str, Any] | None) -> dict[str, torch.Tensor]:
    """Tensors to receive into: one's own where they fit."""
    mine: dict[str, torch.Tensor] = {}
    _strip(own or {}, "", mine)
    return {
        path: mine[path]
        if path in mine and _kind(mine[path]) == tuple(kind)
        else _empty(*kind, host=own is None)
        for path, kind in told["kinds"].items()
    }


def _send(group: Group, content: bytes, device: torch.device) -> None:
    """Send some bytes to all; every other member calls `_receive`."""
    head = len(content).to_bytes(_LENGTH, "big") + content[: HEAD - _LENGTH]
    group.broadcast(_bytes(head.ljust(HEAD, b"\0"), device), group.rank).wait()
    if len(content) > HEAD - _LENGTH:
        group.broadcast(_bytes(content[HEAD - _LENGTH :], device), group.rank).wait()


def _receive(group: Group, source: int, device: torch.device) -> bytes:
    head = _received(group, source, HEAD, device)
    size = int.from_bytes(head[:_LENGTH], "big")
    content = head[_LENGTH : _LENGTH + size]
    return content + _received(group, source, size - len(content), device) if size > len(content) else content


def _received(group: Group, source: int, size: int, device: torch.device) -> bytes:
    content = torch.empty(size, dtype=torch.uint8, device=device)
    group.broadcast(content, source).wait()
    group.settle()
    return content.cpu().numpy().tobytes()


def _bytes(content: bytes, device: torch.device) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).to(device)


def _agree(group: Group, objection: str, device: torch.device) -> None:
    """Continue only if no member objects: half of an exchange would leave the others waiting."""
    (objections,) = group.sum([1.0 if objection else 0.0], device)
    if objection:
        raise Differs(objection)
    if objections:
        raise Broken("a worker with another model refused the state")


def _exchange(group: Group, tensors: list[torch.Tensor], source: int, device: torch.device) -> None:
    """Send or receive these tensors, many in one go."""
    for chunk, flat in zip(_chunks(tensors), _flat(tensors, device), strict=True):
        group.broadcast(flat, source).wait()
        group.settle()
        if group.rank != source:
            _spread(flat, chunk)


def _flat(tensors: list[torch.Tensor], device: torch.device) -> Iterator[torch.Tensor]:
    """One long tensor after the other, for as many as are sent in one go."""
    for chunk in _chunks(tensors):
        yield torch.cat([one.detach().reshape(-1).to(device) for one in chunk])


def _spread(flat: torch.Tensor, chunk: list[torch.Tensor]) -> None:
    for one, piece in zip(chunk, flat.split([one.numel() for one in chunk]), strict=True):
        one.detach().copy_(piece.view(one.shape))


def _chunks(tensors: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Sorted by kind of number, so that sender and receiver cut alike."""
    found: list[list[torch.Tensor]] = []
    size = 0
    for one in sorted(tensors, key=lambda one: str(one.dtype)):
        bytes_ = one.numel() * one.element_size()
        if not found or found[-1][0].dtype != one.dtype or size + bytes_ > CHUNK:
            found.append([])
            size = 0
        found[-1].append(one)
        size += bytes_
    return found


def _kind(tensor: torch.Tensor) -> tuple[tuple[int, ...], str, str]:
    return tuple(tensor.shape), _dtype(tensor), tensor.device.type


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _empty(shape: tuple[int, ...], dtype: str, device: str, *, host: bool) -> torch.Tensor:
    on_device = device == "cuda" and not host
    where = torch.device("cuda", torch.cuda.current_device()) if on_device else torch.device("cpu")
    return torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=where)


_MARK = "\0tensor"


def _strip(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """The same structure with marks in place of tensors, which are collected by their paths."""
    if isinstance(value, torch.Tensor):
        tensors[path] = value
        return (_MARK, path)
    if isinstance(value, Mapping):
        return {key: _strip(one, f"{path}/{key}", tensors) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_strip(one, f"{path}/{index}", tensors) for index, one in enumerate(value)])
    return value


def _fill(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and value[0] == _MARK:
        return tensors[value[1]]
    if isinstance(value, dict):
        return {key: _fill(one, tensors) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_fill(one, tensors) for one in value])
    return value
