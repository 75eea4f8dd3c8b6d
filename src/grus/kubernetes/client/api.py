"""API client with plain dicts: all requests of Grus to a cluster go through here.

lightkube's own client turns every object into dataclasses and costs some 2 ms a call; thousands of pods are
bound in seconds, so here objects stay as received. lightkube reads the kubeconfig (`credentials`).
"""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from grus.kubernetes.client.errors import (
    Conflicts,
    Exists,
    Forbidden,
    Gone,
    Invalid,
    Missing,
    Refused,
    Unreachable,
    refusal,
)
from grus.kubernetes.client.kubeconfig import access
from grus.kubernetes.client.resource_kinds import PODS, Object, Objects, ResourceKind
from grus.kubernetes.client.transport import ANSWER, JSON, Stream, Transport
from grus.kubernetes.client.versions import Release, release_of, update_refused
from grus.kubernetes.client.write_guard import Guard

__all__ = [
    "Api",
    "Conflicts",
    "Exists",
    "Forbidden",
    "Gone",
    "Invalid",
    "ResourceKind",
    "LogStream",
    "Missing",
    "Object",
    "Refused",
    "Unreachable",
    "Watch",
    "WatchEvent",
]

PATIENCE = 10.0
PAGE = 2000
"""Objects per page of a list request, so that a big cluster's list is no burden to its server."""
SLACK = 10.0
"""Seconds after a watch's end at which a server without any event counts as silent."""

How = Literal["merge", "json", "apply", "strategic"]
_CONTENT: Mapping[How, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "strategic": "application/strategic-merge-patch+json",
}


class WatchEvent(msgspec.Struct, frozen=True):
    """ADDED, MODIFIED or DELETED with the object; BOOKMARK with its version alone."""

    type: str
    object: Object


class Api:
    """API client of one cluster. Any thread may use it.

    A refusal by the server raises a kind of `Refused`. No answer (or 429, 5xx) within `patience` seconds
    raises `Unreachable`, whose `arrived` shows whether the request may have been carried out all the same.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        patience: float = PATIENCE,
        answer: float = ANSWER,
        guard: Guard | None = None,
    ) -> None:
        self._transport = transport
        self._guard = guard
        self.patience = patience
        self.answer = answer
        self.server = transport.access.server
        self.namespace = transport.access.namespace
        """Namespace of the kubeconfig's context, or of the pod."""

    @classmethod
    def connect(
        cls,
        kubeconfig: Path | None = None,
        *,
        context: str | None = None,
        connections: int = 8,
        patience: float = PATIENCE,
    ) -> "Api":
        """Connect by this file; without one by KUBECONFIG,
        ~/.kube/config, or the service account of the pod.
        """
        return cls(Transport(access(kubeconfig, context), connections=connections), patience=patience)

    def patient(self, seconds: float, *, answer: float = ANSWER) -> "Api":
        """The same over the same connections, but with other limits.

        `seconds`: how long failed requests are repeated, 0 for not at all; `answer`: how long one may take.
        """
        return Api(self._transport, patience=seconds, answer=answer, guard=self._guard)

    def guarded(self, may: Guard) -> "Api":
        """Return a client that sends changes only while `may` returns true, checked right before each.

        While it returns false, requests wait like those that get no answer.
        """
        return Api(self._transport, patience=self.patience, answer=self.answer, guard=may)

    def close(self) -> None:
        """Close the connections; requests that wait for a retry give up."""
        self._transport.close()

    def get(self, kind: ResourceKind, name: str, namespace: str = "", *, part: str = "") -> Object:
        """Return the object; without a namespace, from that of the context."""
        return self.raw("GET", kind.path(namespace or self.namespace, name, part))

    def list(
        self,
        kind: ResourceKind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
    ) -> tuple[Objects, str]:
        """Return all objects as they are now, and the version
        to watch from; without a namespace, of all namespaces.

        `limit` is the number of objects per request; 0 requests all at once.
        """
        wanted = _chosen(labels, fields)
        try:
            return self._pages(kind, namespace, wanted, limit)
        except Gone:  # the server has forgotten the first page's moment before the last was read
            return self._pages(kind, namespace, wanted, 0)

    def create(
        self, kind: ResourceKind, body: Object, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        """Create the object; without a namespace, in that of the body, or that of the context."""
        where = namespace or body.get("metadata", {}).get("namespace") or self.namespace
        path = kind.path(where, query={"dryRun": "All"} if dry_run else None)
        return self.raw("POST", path, _typed(kind, body), repeatable=dry_run)

    def replace(self, kind: ResourceKind, body: Object, *, part: str = "") -> Object:
        """The whole object, or a part like `status`; Conflicts if it changed or went since it was read."""
        metadata = body["metadata"]
        path = kind.path(metadata.get("namespace") or self.namespace, metadata["name"], part)
        try:
            return self.raw("PUT", path, _typed(kind, body), repeatable=False)
        except Missing as refused:
            raise update_refused(refused, body) from refused

    def patch(
        self,
        kind: ResourceKind,
        name: str,
        body: Any,  # an object, or a list of JSON patches
        namespace: str = "",
        *,
        part: str = "",
        how: How = "merge",
        manager: str = "grus",
        force: bool = False,
    ) -> Object:
        """A change of what the body names; `force` takes fields over that others apply."""
        query = {"fieldManager": manager} | ({"force": "true"} if force else {})
        path = kind.path(namespace or self.namespace, name, part, query)
        if how == "apply":
            body = _typed(kind, body)
        guarded = how == "json" or "resourceVersion" in body.get("metadata", {})
        return self.raw("PATCH", path, body, content=_CONTENT[how], repeatable=not guarded)

    def delete(
        self,
        kind: ResourceKind,
        name: str,
        namespace: str = "",
        *,
        grace: int | None = None,
        uid: str = "",
        version: str = "",
        propagation: str = "",
    ) -> None:
        """Conflicts if it is not the one of that uid, or not of that version."""
        guards = {"uid": uid, "resourceVersion": version}
        options = {
            "gracePeriodSeconds": grace,
            "preconditions": {key: value for key, value in guards.items() if value} or None,
            "propagationPolicy": propagation or None,
        }
        body = {key: value for key, value in options.items() if value is not None}
        self.raw("DELETE", kind.path(namespace or self.namespace, name), body or None)

    def bind(
        self,
        pod: str,
        namespace: str,
        node: str,
        *,
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Bind a waiting pod to a node, with annotations, in one step; Conflicts if it is on another.

        A pod can be bound once, so repeating is safe: if the pod is already on that node, the call has
        succeeded.
        """
        metadata: Object = {"name": pod, "namespace": namespace, "annotations": dict(annotations or {})}
        if uid:
            metadata["uid"] = uid
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = PODS.path(namespace, pod, "binding")
        try:
            self.raw("POST", path, body, repeatable=False)
        except Unreachable as trouble:
            if not trouble.arrived:
                raise
            self._bind_again(path, body)

    def log(
        self,
        pod: str,
        namespace: str,
        container: str = "",
        *,
        follow: bool = False,
        limit_bytes: int | None = None,
        tail_lines: int | None = None,
        previous: bool = False,
    ) -> "LogStream":
        """Return the container's output, in pieces as they arrive."""
        query = {"container": container} if container else {}
        query |= {"follow": "true"} if follow else {}
        query |= {"previous": "true"} if previous else {}
        query |= {"limitBytes": str(limit_bytes)} if limit_bytes is not None else {}
        query |= {"tailLines": str(tail_lines)} if tail_lines is not None else {}
        path = PODS.path(namespace or self.namespace, pod, "log", query)
        return LogStream(self._transport.open(path, silence=None if follow else 30.0))

    def watch(
        self,
        kind: ResourceKind,
        namespace: str = "",
        *,
        version: str,
        labels: str = "",
        fields: str = "",
        timeout: float,
    ) -> "Watch":
        """Watch the changes after that version, until the server ends the watch after `timeout` seconds.

        Gone if a version that old is not kept; Unreachable if the stream breaks, or is silent past its end.
        """
        query = _chosen(labels, fields) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, round(timeout))),
        }
        path = kind.path(namespace, query=query)
        return Watch(self._transport.open(path, silence=timeout + SLACK))

    def serves(self, kind: ResourceKind) -> bool:
        """Return whether the server knows the kind, in that version."""
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        try:
            found = self.raw("GET", root)
        except Missing:
            return False
        return any(one["name"] == kind.plural for one in found["resources"])

    def release(self) -> Release:
        """Release of the server: (1, 20)."""
        return release_of(self.raw("GET", "/version")["gitVersion"])

    def raw(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = JSON,
        repeatable: bool | None = None,
    ) -> Object:
        """Any request; `repeatable`: whether twice is the same as once (as it is for GET and DELETE)."""
        sent = None if body is None else msgspec.json.encode(body)
        again = method in ("GET", "DELETE") if repeatable is None else repeatable
        answer = self._transport.send(
            method,
            path,
            sent,
            content=content,
            repeatable=again,
            patience=self.patience,
            guard=None if method == "GET" else self._guard,
            answer=self.answer,
        )
        return _DECODER.decode(answer)

    def _pages(
        self, kind: ResourceKind, namespace: str, wanted: Mapping[str, str], limit: int
    ) -> tuple[Objects, str]:
        found: Objects = []
        paging = {"limit": str(limit)} if limit else {}
        while True:
            page = self.raw("GET", kind.path(namespace, query={**wanted, **paging}))
            found += (_typed(kind, one) for one in page.get("items") or ())
            if not page["metadata"].get("continue"):
                return found, page["metadata"]["resourceVersion"]
            paging["continue"] = page["metadata"]["continue"]

    def _bind_again(self, path: str, body: Object) -> None:
        """Repeat a binding whose first try may have arrived."""
        metadata = body["metadata"]
        try:
            self.raw("POST", path, body, repeatable=True)
        except Conflicts:
            pod = self.get(PODS, metadata["name"], metadata["namespace"])
            same = pod["metadata"]["uid"] == metadata.get("uid", pod["metadata"]["uid"])
            if not (same and pod["spec"].get("nodeName") == body["target"]["name"]):
                raise


class _Reading:
    """Answer that one thread reads, in a `with`: at its end the connection closes, even if a part is still in
    use. Any other thread may close it, which ends the iteration.
    """

    def __init__(self, stream: Stream, parts: Generator[bytes, None, None]) -> None:
        self._stream = stream
        self._parts = parts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()
        self._stream.end()

    def close(self) -> None:
        self._stream.close()


class Watch(_Reading):
    """An iterator of events."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream, stream.lines())

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        event = _EVENTS.decode(next(self._parts))
        if event.type == "ERROR":
            raise _failure(event.object)
        return event


class LogStream(_Reading):
    """An iterator of pieces."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream, stream.chunks())

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._parts)


_DECODER = msgspec.json.Decoder(Object)
_EVENTS = msgspec.json.Decoder(WatchEvent)


def _failure(status: Object) -> Exception:
    number = int(status.get("code", 500))
    said = refusal(number, msgspec.json.encode(status))
    return said if number < 500 else Unreachable(f"the API server ended a watch: {said.text} ({number})")


def _typed(kind: ResourceKind, body: Mapping[str, Any]) -> Object:
    """Return the body with its kind, which lists leave out and custom resources need."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def _chosen(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in chosen.items() if value}
