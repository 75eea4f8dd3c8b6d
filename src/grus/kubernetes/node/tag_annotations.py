"""Tags as annotations: their text form, and the rule when a changed tag is written again. Pure.

An API server must not be loaded with every tenth of a second: a change that no decision would use is not
written again. The stage, which changes several times an epoch, stays on the node.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from grus.api.wire_types.timestamps import parse_time, rfc3339
from grus.kubernetes.names import GPU_TAG, TAG
from grus.kubernetes.node.annotation_patcher import Notes
from grus.model.activity_labels import Tag, WorkloadKind
from grus.scheduler.preempt.epoch_windows import is_news

LIFE = 600.0
"""Seconds after which a tag expires. It is written again when half of them have passed."""
_NUMBER = re.compile(re.escape(GPU_TAG) + r"\d+(-[0-9A-Za-z]+)?")


def ours(name: str) -> bool:
    """Return whether an annotation is a tag; all others belong to other programs."""
    return name == TAG or _NUMBER.fullmatch(name) is not None


def written(tag: Tag, device: str = "") -> str:
    """The text of the annotation."""
    said: dict[str, object] = {
        "kind": tag.kind.value,
        "confidence": round(tag.confidence, 2),
        "period": None if tag.period is None else float(f"{tag.period:.4g}"),
        "began": None if tag.boundary is None else rfc3339(tag.boundary),
        "hungSince": None if tag.hung_since is None else rfc3339(tag.hung_since),
        "utilisation": None if tag.utilisation is None else round(tag.utilisation, 2),
        "peakMemory": tag.peak_memory,
        "note": tag.note,
        "gpu": device,
        "at": rfc3339(tag.at),
        "expires": rfc3339(tag.expires),
    }
    return json.dumps({name: value for name, value in said.items() if value not in (None, "")})


@lru_cache(maxsize=10_000)
def read(text: str) -> Tag | None:
    """Return the tag of an annotation; None if Grus has not written it. Often called with the same text."""
    try:
        said = json.loads(text)
        return Tag(
            kind=WorkloadKind(said["kind"]),
            at=parse_time(said["at"]),
            expires=parse_time(said["expires"]),
            confidence=_number(said.get("confidence")) or 0.0,
            period=_number(said.get("period")),
            boundary=_time(said.get("began")),
            hung_since=_time(said.get("hungSince")),
            utilisation=_number(said.get("utilisation")),
            peak_memory=None if said.get("peakMemory") is None else int(said["peakMemory"]),
            note=str(said.get("note", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def device_of(text: str) -> str:
    """The GPU that a node's annotation names; "" if none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return str(found.get("gpu", "")) if isinstance(found, dict) else ""


def changes(
    present: Mapping[str, str],
    wanted: Mapping[str, Tag],
    now: float,
    devices: Mapping[str, str] | None = None,
) -> Notes:
    """Return the annotations to write on an object that has these; nothing if nothing has changed.

    `wanted` and `devices` (the device of each tag) are keyed by the annotation's name. Annotations of other
    programs are neither read nor touched.
    """
    notes: dict[str, str | None] = {name: None for name in present if ours(name) and name not in wanted}
    for name, tag in wanted.items():
        before = read(present[name]) if name in present else None
        if before is None or is_news(before, tag, now) or before.expires - now < LIFE / 2:
            notes[name] = written(replace(tag, expires=now + LIFE), (devices or {}).get(name, ""))
    return notes


def _number(said: object) -> float | None:
    if said is None:
        return None
    found = float(said) if isinstance(said, int | float) else math.nan
    if not math.isfinite(found):
        raise ValueError("no number")
    return found


def _time(said: object) -> float | None:
    return None if said is None else parse_time(str(said))
