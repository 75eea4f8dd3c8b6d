"""Learned profiles and recognized activity of jobs, in words; and `grus profile`."""

from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.connection import complete_job, connected, find_job
from grus.cli.render.output import (
    Format,
    Output,
    between,
    emit,
    emit_json,
    examples,
    fields,
    local,
    number,
    say,
    size,
    span,
    table,
)
from grus.model.errors import GrusError, NotFound
from grus.model.texts.plural_words import counted

if TYPE_CHECKING:
    from grus.api.profile_wire import ExpectedOut, ProfileOut, RunOut, ShortOut, TagOut
    from grus.sdk.client import Client

PANEL = "Jobs"
MOST_HINTS = 5
"""Number of submitted jobs for which expectations are shown; a longer list is not read."""
KILOWATT_HOUR = 3.6e6
EXAMPLES = examples(
    "grus profile", "grus profile resnet", "grus profile 4a57964d", "grus profile j4k -o json"
)


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel=PANEL, epilog=EXAMPLES)(profile)


def profile(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[JOB|FINGERPRINT]",
            help="A job, or the fingerprint of several; all fingerprints by default.",
            autocompletion=complete_job,
        ),
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Show profiles of similar jobs: memory, use, speed, time.

    Similar jobs have the same code, command, image and user. A profile has their memory, use, period, speed
    and time.
    """
    with connected() as client:
        if not what:
            found = client.profiles()
            emit(found, output, lambda: _list(found))
            return
        try:
            job = find_job(client, what)
        except NotFound as missing:
            _show_fingerprint(client, what, missing, output)
            return
        learned = client.learned(job.id)
    if output is Format.JSON:
        emit_json(learned)
        return
    if words := expected_words(learned.expected):
        say(f"expected before it ran: {words}")
    if learned.profile is None:
        say(f"Nothing is known of its fingerprint {learned.fingerprint} yet: no job of it has begun.")
    else:
        _show(learned.profile)


def _show_fingerprint(client: "Client", what: str, missing: NotFound, output: Format) -> None:
    try:
        found = client.profile(what)
    except NotFound:
        raise NotFound(f"{missing} Nor is there such a fingerprint: `grus profile` lists them.") from None
    emit(found, output, lambda: _show(found))


def _short(one: "ShortOut") -> str:
    how = f", {one.how}" if one.how else ""
    return f"{size(one.memory)} on {'a GPU' if one.gpus == 1 else f'each of {one.gpus} GPUs'}{how}"


def _list(found: "list[ProfileOut]") -> None:
    rows = [
        (
            one.fingerprint,
            one.name,
            one.user,
            one.runs,
            one.kind,
            _period(one.period),
            "" if one.peak_memory is None else size(one.peak_memory),
            _percent(one.mean_utilisation),
            "" if one.duration is None else span(one.duration),
            local(one.updated_at),
        )
        for one in found
    ]
    headings = (
        *("FINGERPRINT", "NAME", "USER", "RUNS", "KIND", "PERIOD", "PEAK MEMORY"),
        *("USE", "LASTS", "UPDATED"),
    )
    table(headings, rows, empty="Nothing was learned yet: a profile begins with the first job that runs.")


def _show(one: "ProfileOut") -> None:
    fields(
        (
            ("fingerprint", one.fingerprint),
            ("name", one.name),
            ("user", one.user),
            ("command", one.command),
            ("image", one.image),
            ("runs", one.runs),
            ("kind", one.kind),
            ("period", _period(one.period)),
            ("peak memory", "" if one.peak_memory is None else f"{size(one.peak_memory)} on a GPU"),
            ("did not suffice", "; ".join(map(_short, one.short))),
            ("host memory", "" if one.host_memory is None else size(one.host_memory)),
            ("use", _use(one.mean_utilisation, one.p95_utilisation)),
            ("lasts", "" if one.duration is None else span(one.duration)),
            ("energy", _energy(one.energy)),
            ("data sets", len(one.data) or ""),
        )
    )
    if one.uses:
        say()
        rows = [
            (use.type, number(use.gpus), span(use.seconds), _percent(use.mean_utilisation),
             _percent(use.p95_utilisation), "" if use.peak_memory is None else size(use.peak_memory))
            for use in one.uses
        ]  # fmt: skip
        table(("GPU TYPE", "GPUS", "WATCHED", "MEAN USE", "P95", "PEAK MEMORY"), rows)
    if one.speeds:
        say()
        speeds = [
            (
                speed.type,
                speed.gpus,
                speed.nodes,
                f"{speed.step_seconds:.4g} s",
                f"{1 / speed.step_seconds:.4g}",
            )
            for speed in one.speeds
        ]
        table(("GPU TYPE", "GPUS", "NODES", "STEP", "STEPS/S"), speeds)
    if one.pairs:
        say()
        pairs = [(pair.other, f"{pair.gain:.2f}", pair.times, local(pair.at)) for pair in one.pairs]
        table(("SHARED A GPU WITH", "GAIN", "TIMES", "LAST"), pairs)
    say()
    table(
        ("JOB", "ENDED", "RAN", "KIND", "PERIOD", "PEAK MEMORY", "USE", "DATA"),
        [_run_row(run) for run in one.last],
    )


def _run_row(run: "RunOut") -> tuple[object, ...]:
    watched = sum(use.seconds for use in run.uses if use.mean_utilisation is not None)
    busy = sum(use.seconds * (use.mean_utilisation or 0.0) for use in run.uses)
    return (
        run.job,
        run.phase,
        span(run.seconds),
        run.kind,
        _period(run.period),
        "" if run.peak_memory is None else size(run.peak_memory),
        _percent(busy / watched) if watched else "",
        run.data,
    )


# -------------------------------------------------------------------------------------------------- words


def tag_words(tag: "TagOut | None") -> str:
    """Describe the activity briefly: `training, every 12s`, `hung for 3m`, `idle`; empty if none was
    recognized.
    """
    if tag is None:
        return ""
    if tag.hung_since is not None:
        return f"hung for {between(tag.hung_since, None)}"
    if tag.kind == "unknown":
        return ""
    words = [tag.kind]
    words += [f"every {_period(tag.period)}"] if tag.period is not None else []
    words += [tag.stage] if tag.stage not in ("", "training") else []
    return ", ".join(words)


def tag_sentence(tag: "TagOut | None") -> str:
    """The same in full, for one job."""
    if tag is None:
        return ""
    words = [tag_words(tag) or tag.kind, f"since {local(tag.at)}"]
    words += [f"{_percent(tag.utilisation)} in use"] if tag.utilisation is not None else []
    words += [f"at most {size(tag.peak_memory)} on a GPU"] if tag.peak_memory is not None else []
    return ", ".join(words) + (f": {tag.note}" if tag.note else "")


def expected_words(told: "ExpectedOut | None") -> str:
    """`3 runs before it: about 12m (10m to 15m), at most 4.1GB on a GPU, 71% in use`; empty if none ran."""
    if told is None:
        return ""
    words = []
    if told.duration is not None and told.shortest is not None and told.longest is not None:
        near = told.longest - told.shortest <= 0.1 * told.duration
        reach = "" if near else f" ({span(told.shortest)} to {span(told.longest)})"
        words.append(f"about {span(told.duration)}{reach}")
    if told.memory is not None:
        words.append(f"at most {size(told.memory)} on a GPU")
    if told.host_memory is not None:
        words.append(f"{size(told.host_memory)} of host memory")
    if told.utilisation is not None:
        words.append(f"{_percent(told.utilisation)} in use")
    if told.period is not None:
        words.append(f"a period of {_period(told.period)}")
    words += [
        f"{counted(one.gpus, 'GPU')} {one.speedup:.2g}× as fast as the smallest size"
        for one in told.sizes
        if one.speedup != 1
    ]
    before = f"{told.runs} run{'s' * (told.runs != 1)} before it"
    before += "" if told.same_code else ", with other code"
    before += ", on other data" if told.new_data else ""
    return f"{before}: {', '.join(words)}" if words else ""


def hints(client: "Client", jobs: list[str]) -> list[str]:
    """Return the server's expectations of jobs that were just submitted, as far as it has any."""
    found: list[str] = []
    for job in jobs[:MOST_HINTS]:
        try:
            words = expected_words(client.learned(job).expected)
        except GrusError:
            return found  # a server that keeps no profiles; the job is submitted all the same
        found += [f"{job}: {words}"] if words else []
    return found


def _period(seconds: float | None) -> str:
    """Below a minute with what matters of a second."""
    return "" if seconds is None else f"{seconds:.3g}s" if seconds < 60 else span(seconds)


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


def _use(mean: float | None, p95: float | None) -> str:
    if mean is None:
        return ""
    return f"{_percent(mean)} of the GPUs that it holds" + ("" if p95 is None else f" (95%: {_percent(p95)})")


def _energy(joules: float | None) -> str:
    if joules is None:
        return ""
    return f"{joules / KILOWATT_HOUR:.3g} kWh" if joules >= KILOWATT_HOUR / 100 else f"{joules:.3g} J"
