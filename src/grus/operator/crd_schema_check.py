"""Version check of the installed custom resource definitions against those of this Grus.

The API server silently drops fields that an older definition lacks, so the controller has to report it.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from grus.api.wire_types.timestamps import rfc3339
from grus.kubernetes.client.api import Api, Forbidden, Missing, Refused, Unreachable
from grus.kubernetes.client.resource_kinds import DEFINITIONS, EVENTS, Object
from grus.kubernetes.install.custom_resources import definitions
from grus.model.errors import Conflict

log = logging.getLogger(__name__)

NEEDED = frozenset({".status.record", ".status.recent", ".status.epoch"})
"""Fields without which no job can be stored."""
UPDATE = "run `grus kubernetes install` of this version, or apply deploy/kubernetes.yaml"


def missing(installed: Object, wanted: Object) -> list[str]:
    """Paths of fields that the installed definition does not know."""
    return sorted(_missing(_schema(installed), _schema(wanted), ""))


def check(api: Api, namespace: str) -> None:
    """Tell of definitions that are too old. Raises Conflict if they are missing, or too old to work with."""
    for wanted in definitions():
        name = wanted["metadata"]["name"]
        try:
            found = missing(api.get(DEFINITIONS, name), wanted)
        except Missing:
            raise Conflict(f"the cluster does not know {name}: {UPDATE}") from None
        except Forbidden as why:
            log.info("whether %s is up to date is not known: %s", name, why)
            return
        if found:
            text = f"{name} is of an older version and drops {', '.join(found)}: {UPDATE}"
            _tell(api, name, namespace, text)
            if NEEDED & set(found):
                raise Conflict(text)
            log.warning("%s", text)


def _schema(definition: Object) -> Mapping[str, Any]:
    versions = definition["spec"]["versions"]
    stored = next((one for one in versions if one.get("storage")), versions[0])
    found: Mapping[str, Any] = stored["schema"]["openAPIV3Schema"]
    return found


def _missing(installed: Mapping[str, Any], wanted: Mapping[str, Any], at: str) -> Iterator[str]:
    if installed.get("x-kubernetes-preserve-unknown-fields"):
        return
    there = installed.get("properties") or {}
    for name, schema in (wanted.get("properties") or {}).items():
        if name in there:
            yield from _missing(there[name], schema, f"{at}.{name}")
        elif not (installed.get("additionalProperties") or "properties" not in installed):
            yield f"{at}.{name}"


def _tell(api: Api, name: str, namespace: str, text: str) -> None:
    """An event about the definition; a courtesy."""
    now = rfc3339(time.time())[:19] + "Z"
    event = {
        "metadata": {"generateName": f"{name}.", "namespace": "default"},
        "involvedObject": {"kind": DEFINITIONS.name, "apiVersion": DEFINITIONS.api_version, "name": name},
        "type": "Warning",
        "reason": "OldDefinition",
        "message": text[:1000],
        "source": {"component": "grus", "host": namespace},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        api.create(EVENTS, event, "default")
    except (Refused, Unreachable) as why:
        log.info("the cluster was not told: %s", why)
