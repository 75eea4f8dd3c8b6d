"""The `grus` command: its verbs, and the one place where an error becomes a few lines and an exit code.

Exit codes: 0 ok, 1 failed, 2 bad input, 3 does not fit, 4 not found, 5 not allowed, 6 server unreachable.
`run` and `attach` return the job's own code, so their own errors are 120 + the code. Nothing heavy is
imported here or in the verbs' modules: `grus --help` answers at once.
"""

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from grus.cli.commands import (
    artifacts,
    cluster_nodes,
    compare,
    contexts,
    dashboard,
    estimate,
    jobs,
    notebook_session,
    notifications,
    predict,
    profile_stats,
    queue_admin,
    runs,
    secrets,
    simulate,
    split_plan,
    sweeps,
    usage_report,
    users,
    utilization_forecast,
    workflow_stages,
)
from grus.cli.demo_run import demo
from grus.cli.kubernetes import install_commands as kubernetes
from grus.cli.render.output import FORMAT, Format, hint, say, show_error
from grus.cli.selftest import command as selftest
from grus.cli.server import backup_restore, daemon_start_stop, systemd_service
from grus.model.errors import BadInput, GrusError, Mistake

OWN_ERRORS = 120
"""Added to the code of an error of a verb that otherwise returns the job's own."""
RETURN_THE_JOBS_CODE = frozenset({"run", "attach"})
INTERRUPTED = 130

UsageError: Any = typer.BadParameter.__bases__[0]
"""Any error on the command line; typer exports only this one of its kinds."""


class Verbs(TyperGroup):
    """All verbs; errors that people are meant to read leave here as lines on stderr."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except GrusError as error:
            show_error(error, ctx.meta.get(FORMAT, Format.TABLE))
            raise typer.Exit(self._own(ctx, error.exit_code)) from None
        except UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                raise
            where = error.ctx.command_path if error.ctx else "grus"
            hint(f"error: {error.format_message()}\n  see `{where} --help`")
            raise typer.Exit(self._own(ctx, error.exit_code)) from None

    def _own(self, ctx: Any, code: int) -> int:
        return OWN_ERRORS + code if ctx.invoked_subcommand in RETURN_THE_JOBS_CODE else code


app = typer.Typer(
    cls=Verbs,
    name="grus",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="One pool out of a team's GPUs: quotas that lend, jobs that pause and resume, "
    "decisions that explain themselves.\n\n"
    "First steps: [bold]grus up[/], then [bold]grus run --gpu 1 -- python train.py[/].",
    epilog="Exit codes: 0 ok · 1 failed · 2 bad input · 3 does not fit · 4 not found · 5 not allowed · "
    "6 server unreachable",
)


def _version(wanted: bool) -> None:
    if wanted:
        import grus

        say(f"grus {grus.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    server: Annotated[str, typer.Option(help="Address of the server, if not the one found here.")] = "",
    context: Annotated[
        str, typer.Option(help="Use this login (`grus context list`), not the current one.")
    ] = "",
    kubernetes_: Annotated[
        bool, typer.Option("--kubernetes", help="Use a cluster's own API, with my kubeconfig.")
    ] = False,
    namespace: Annotated[
        str, typer.Option(help="With --kubernetes: which one; * for all. The context's by default.")
    ] = "",
    version: Annotated[  # noqa: ARG001 - its callback has done it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context and server:
        raise BadInput([Mistake("context", "names a server; leave out --server", context)])
    if server:
        os.environ["GRUS_SERVER"] = server
        os.environ.pop("GRUS_CONTEXT", None)
    if context:
        os.environ["GRUS_CONTEXT"] = context
    if kubernetes_:
        os.environ["GRUS_KUBERNETES"] = "1"
    if namespace:
        os.environ["GRUS_NAMESPACE"] = namespace


daemon_start_stop.add_to(app)
systemd_service.add_to(app)
backup_restore.add_to(app)
selftest.add_to(app)
dashboard.add_to(app)
jobs.add_to(app)
sweeps.add_to(app)
workflow_stages.add_to(app)
notebook_session.add_to(app)
profile_stats.add_to(app)
predict.add_to(app)
runs.add_to(app)
artifacts.add_to(app)
cluster_nodes.add_to(app)
queue_admin.add_to(app)
utilization_forecast.add_to(app)
estimate.add_to(app)
users.add_to(app)
contexts.add_to(app)
secrets.add_to(app)
notifications.add_to(app)
kubernetes.add_to(app)
simulate.add_to(app)
usage_report.add_to(app)
compare.add_to(app)
split_plan.add_to(app)
demo.add_to(app)


def main() -> None:
    """Entry point of the installed command."""
    try:
        app(prog_name="grus")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if os.environ.get("GRUS_DEBUG"):
            raise
        if isinstance(error, OSError):  # a full disk, files of another user: not a bug of Grus
            hint(f"error: the system refuses: {error}\n  GRUS_DEBUG=1 shows where")
        else:
            what = f"{type(error).__name__}: {error}"
            hint(f"error: {what}\n  this is a defect in Grus; GRUS_DEBUG=1 shows where")
        sys.exit(1)


if __name__ == "__main__":
    main()
