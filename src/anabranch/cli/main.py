"""The command line: its commands, and how it ends.

Each command is one module and is imported only when it is called: `anabranch list` needs neither numba nor
pandas. Exit status: 0 done; 1 it failed while running; 2 the job, a query or the command line is wrong; 130
interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer

from anabranch.model.errors import AnabranchError

TRACEBACK = "ANABRANCH_TRACEBACK"
INTERRUPTED = 130

#: command -> the function or, for a group of commands, the typer.Typer in its module; in the order of --help
COMMANDS = {
    "run": "run:run",
    "try": "try_query:try_query",
    "serve": "serve:serve",
    "results": "results:results",
    "subscribe": "subscribe:subscribe",
    "cancel": "cancel:cancel",
    "list": "list:list_subscriptions",
    "secret": "secret:secret",
    "explain": "explain:explain",
    "rebalance": "rebalance:rebalance",
    "rescale": "rescale:rescale",
    "reoptimize": "reoptimize:reoptimize",
    "translate": "translate:translate",
    "demo": "demo:demo",
    "sites": "sites:app",
    "simulate": "simulate:app",
    "token": "token:app",
}
#: Their TARGET may be given as --url ADDRESS.
WITH_ADDRESS = ("results", "subscribe", "cancel", "list", "secret")
#: Their output may be cut off by a reader such as `head`.
PRINTING = ("results", "list", "explain", "reoptimize", "try")
#: They need no pandas; Arrow would import it at the first chance, which takes a quarter of a second.
WITHOUT_PANDAS = ("results", "subscribe", "try")


def application(command: str | None = None) -> typer.Typer:
    """Returns the command line with this command, or with all of them if there is no such one."""
    app = typer.Typer(
        name="anabranch",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_anabranch)
    for name in [command] if command in COMMANDS else COMMANDS:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    module, _, attribute = COMMANDS[name].partition(":")
    found: Any = getattr(import_module(f"anabranch.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
        return
    settings: dict[str, Any] = {}
    if name in WITH_ADDRESS:
        from anabranch.cli.target import CommandWithAddress

        settings["cls"] = CommandWithAddress
    app.command(name, **settings)(_ending_with_its_reader(found) if name in PRINTING else found)


def _version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        typer.echo(f"anabranch {version('anabranch')}")
    except PackageNotFoundError:
        typer.echo("anabranch (not installed)")
    raise typer.Exit


def _anabranch(
    shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Thousands of standing queries, answered from one Spark stream.

    Example: anabranch run job.toml --once, then anabranch results out NAME
    """


def _ending_with_its_reader(command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command, done as soon as nobody reads its output: `| head` has seen enough."""

    @wraps(command)
    def wrapped(*args: Any, **settings: Any) -> None:
        try:
            command(*args, **settings)
            sys.stdout.flush()
        except BrokenPipeError:  # what is still buffered goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return wrapped


def main(arguments: list[str] | None = None) -> None:
    """Runs a command and leaves the process with its exit status."""
    # starting creates many objects that stay; looking for garbage among them takes a tenth of the time
    gc.set_threshold(100_000)
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in WITHOUT_PANDAS:
        _keep_arrow_from_pandas()
    sys.exit(status(given))


def _keep_arrow_from_pandas() -> None:
    """Has Arrow find out now, and once for this process, that there is no pandas."""

    class NoPandas:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "pandas":
                raise ImportError("this command does without pandas")

    finder: Any = NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.scalar("")
    finally:
        sys.meta_path.remove(finder)


def status(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit status. Whatever goes wrong is said on standard error."""
    try:
        return _invoke(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except AnabranchError as error:
        return _failed(f"anabranch: {error}", error.exit_status)
    except Exception as error:
        hint = f"Set {TRACEBACK}=1 to see where it happened."
        return _failed(f"anabranch: unexpected {type(error).__name__}: {_line(error)}. {hint}", 1)


def _invoke(arguments: list[str]) -> int:
    """typer's own errors are usage errors; it says them itself and leaves with 2."""
    try:
        application(arguments[0] if arguments else None)(arguments, prog_name="anabranch")
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
