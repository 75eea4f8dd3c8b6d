"""All golden files."""

from collections.abc import Callable
from typing import Any

from tests.golden import commands, descriptions, metrics, replayed, sources, stored, workers
from tests.golden.files import STRUCTURE, TEXTS, Golden, as_json, without_words, words

STRUCTURES: dict[str, Callable[[], Any]] = {
    "openapi.json": lambda: without_words(descriptions.openapi()),
    "crds.json": lambda: without_words(descriptions.crds()),
    "commands.txt": commands.structure,
    "stored.json": stored.texts,
    "stored_enums.json": stored.words,
    "cluster_objects.json": stored.cluster,
    "tables.sql": stored.tables,
    "environment.json": workers.environment,
    "control.json": workers.control,
    "report.json": workers.report,
    "metrics.json": metrics.structure,
    "events.json": sources.events,
    "decisions.txt": replayed.structure,
}
WORDS: dict[str, Callable[[], Any]] = {
    "openapi.json": lambda: words(descriptions.openapi()),
    "crds.json": lambda: words(descriptions.crds()),
    "commands.json": commands.texts,
    "metrics.json": metrics.texts,
    "decisions.txt": replayed.texts,
}


def _made(make: Callable[[], Any]) -> Callable[[], str]:
    def text() -> str:
        found = make()
        return found if isinstance(found, str) else as_json(found)

    return text


GOLDENS = tuple(
    Golden(f"{folder}/{name}", _made(make))
    for folder, files in ((STRUCTURE, STRUCTURES), (TEXTS, WORDS))
    for name, make in files.items()
)
