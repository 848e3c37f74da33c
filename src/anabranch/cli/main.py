"""The command line: its commands, and the one place where it ends.

Exit status: 0 done; 1 it failed while running; 2 the job, a query or the command line is wrong; 130
interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from anabranch.cli.cancel import cancel
from anabranch.cli.demo import demo
from anabranch.cli.explain import explain
from anabranch.cli.list import list_subscriptions
from anabranch.cli.place import Addressed
from anabranch.cli.rebalance import rebalance
from anabranch.cli.reoptimize import reoptimize
from anabranch.cli.results import results
from anabranch.cli.run import run
from anabranch.cli.serve import serve
from anabranch.cli.simulate import app as simulate
from anabranch.cli.subscribe import subscribe
from anabranch.cli.token import app as token
from anabranch.cli.translate import translate
from anabranch.model.errors import AnabranchError

TRACEBACK = "ANABRANCH_TRACEBACK"
INTERRUPTED = 130

app = typer.Typer(
    name="anabranch",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"anabranch {version('anabranch')}")
    except PackageNotFoundError:
        typer.echo("anabranch (not installed)")
    raise typer.Exit


@app.callback()
def anabranch(
    shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Thousands of standing queries, answered from one Spark stream.

    Example: anabranch run job.toml --once, then anabranch results out NAME
    """


def _into_a_pipe(command: Callable[..., None]) -> Callable[..., None]:
    """The command, done when nobody reads its output any more: `| head` has seen enough."""

    @wraps(command)
    def wrapped(*args: Any, **settings: Any) -> None:
        try:
            command(*args, **settings)
            sys.stdout.flush()
        except BrokenPipeError:  # what is still buffered goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return wrapped


app.command("run")(run)
app.command("serve")(serve)
app.command("results", cls=Addressed)(_into_a_pipe(results))
app.command("subscribe", cls=Addressed)(subscribe)
app.command("cancel", cls=Addressed)(cancel)
app.command("list", cls=Addressed)(_into_a_pipe(list_subscriptions))
app.command("explain")(_into_a_pipe(explain))
app.command("rebalance")(rebalance)
app.command("reoptimize")(_into_a_pipe(reoptimize))
app.command("translate")(translate)
app.command("demo")(demo)
app.add_typer(simulate, name="simulate")
app.add_typer(token, name="token")


def main(arguments: list[str] | None = None) -> None:
    """Runs a command and leaves the process with its exit status."""
    sys.exit(status(arguments))


def status(arguments: list[str] | None = None) -> int:
    """Runs a command. Whatever goes wrong is said on standard error."""
    try:
        return _invoke(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except AnabranchError as error:
        return _failed(f"anabranch: {error}", error.exit_status)
    except Exception as error:
        hint = f"Set {TRACEBACK}=1 to see where it happened."
        return _failed(f"anabranch: unexpected {type(error).__name__}: {_line(error)}. {hint}", 1)


def _invoke(arguments: list[str] | None) -> int:
    """typer's own errors are usage errors; it says them itself and leaves with 2."""
    try:
        app(arguments, prog_name="anabranch")
    except SystemExit as left:
        return _code(left.code)
    return 0


def _code(code: Any) -> int:
    return code if isinstance(code, int) else int(code is not None)


def _failed(message: str, code: int) -> int:
    if os.environ.get(TRACEBACK):
        traceback.print_exc()
    print(message, file=sys.stderr)
    return code


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")


if __name__ == "__main__":
    main()
