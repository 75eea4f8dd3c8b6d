"""`grus predict`: ask a served model."""

import json
from typing import Annotated, Any

import typer

from grus.cli.connection import JobArgument, connected, find_job
from grus.cli.render.output import Format, Output, emit_json, examples, say
from grus.model.errors import BadInput, Mistake
from grus.sdk.bounded_read import STDIN, read_text

PANEL = "Jobs"
MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of samples: a server takes no more in one request."""
EXAMPLES = examples(
    "grus predict digits '{\"inputs\": [[0.1, 0.2]]}'",
    "grus predict digits '[[0.1, 0.2], [0.3, 0.4]]' -o json",
    "grus predict digits @samples.json",
    "cat samples.json | grus predict digits -",
)


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel=PANEL, epilog=EXAMPLES)(predict)


def predict(
    job: JobArgument,
    inputs: Annotated[
        str, typer.Argument(help="A list of samples in JSON, alone or under inputs; @FILE, or - for stdin.")
    ],
    dtype: Annotated[str, typer.Option(help="Of the samples, if not the model's own: int64.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Send samples to a served model and print predictions.

    The model is a job of type serve; it prints one line per sample.
    """
    samples, said = _read(inputs)
    with connected() as client:
        found = client.predict(find_job(client, job).id, samples, dtype=dtype or said)
    if output is Format.JSON:
        emit_json({"outputs": found})
        return
    for one in found if isinstance(found, list) else [found]:
        say(json.dumps(one))


def _read(given: str) -> tuple[Any, str | None]:
    """The samples, and the dtype that stands beside them, if any. Raises BadInput."""
    try:
        named = given == STDIN or given.startswith("@")
        text = read_text(given.removeprefix("@"), MOST_BYTES) if named else given
    except (OSError, ValueError) as error:
        raise BadInput([Mistake("inputs", f"cannot be read: {error}", given[:80])]) from None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        rule = f"must be JSON, such as '[[0.1, 0.2]]', or @FILE: {error}"
        raise BadInput([Mistake("inputs", rule, text[:80])]) from None
    if not isinstance(said, dict):
        return said, None
    strange = [key for key in said if key not in ("inputs", "dtype")]
    if strange or "inputs" not in said:
        rule = 'must be a list of samples, or {"inputs": [sample, …]}'
        raise BadInput([Mistake("inputs", rule, text[:80])])
    return said["inputs"], said.get("dtype")
