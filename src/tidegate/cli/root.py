"""The root command group. `--help` lists the commands from a table and imports none of them."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from tidegate import __version__
from tidegate.cli.exits import Exit

# command -> (module that defines it, text for the list)
VERBS = {
    "init": ("tidegate.cli.config", "Write a settings file to start from."),
    "demo": ("tidegate.cli.demo", "Show in three minutes what it does, on simulated services."),
    "serve": ("tidegate.cli.serve", "Serve the page and the API, and work on jobs."),
    "worker": ("tidegate.cli.serve", "Work on the jobs of a program."),
    "jobs": ("tidegate.cli.jobs", "List, show, retry, cancel and forget jobs."),
    "bulk": ("tidegate.cli.bulk", "Show what was done to many jobs at once, and cancel what is under way."),
    "activity": ("tidegate.cli.monitoring", "Show who did what, from where, before and after."),
    "targets": ("tidegate.cli.targets", "Show how targets are; pause, test, clear, enable, disable or reset them."),
    "channels": ("tidegate.cli.monitoring", "List where notices go beside the page, and test one of them."),
    "explain": ("tidegate.cli.targets", "Say why a job is not running, or what stands before a target."),
    "user": ("tidegate.cli.accounts", "Say who may sign in, and as what."),
    "token": ("tidegate.cli.accounts", "Make and remove what programs show instead of a password."),
    "db": ("tidegate.cli.db", "Migrate, copy, restore and check a database."),
    "config": ("tidegate.cli.config", "Show every setting that counts, and where it comes from."),
    "doctor": ("tidegate.cli.doctor", "Check settings, database, workers and targets; change nothing."),
    "classify": ("tidegate.cli.classify", "Say what an answer or an error message means."),
    "export": ("tidegate.cli.monitoring", "Write rules for alerts, and dashboards."),
    "simulate": ("tidegate.cli.simulate", "Play an outage on a virtual clock and show what the gates do."),
}

# Texts for the included applications. Each defines its own, but is not imported for the list.
OURS = {
    "convert": "Turns PDF files into XML.",
    "feeds": "Adds feeds, lists them, polls them, and switches them on and off.",
    "lidarr": "Shows what waits for Lidarr, wakes the sender, and retries what was given up.",
    "music": "Connects services, syncs them, and lists what they brought.",
    "tautulli": "Keeps what was played on Plex, from the history of Tautulli.",
}

MAX_SENTENCE = 200  # characters of the first sentence, so that click does not shorten it
_NOT_WRITTEN = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


class Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS, *_apps()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            from tidegate.cli.options import AtServer

            ctx.obj = AtServer(cmd_name)
            return _command_of(cmd_name)
        command = getattr(import_module(VERBS[cmd_name][0]), cmd_name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-") and args[0] not in _apps():
            raise click.UsageError(f"there is no verb {args[0]!r}; {suggestion(args[0], self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])
        apps = [name for name in _apps() if name not in VERBS]
        if apps:
            with formatter.section("Applications"):
                formatter.write_dl([(name, OURS.get(name, f"See `tidegate {name} --help`.")) for name in apps])


def _apps() -> list[str]:
    """Return the installed applications by their entry points, without importing them."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group="tidegate.apps")})


def _command_of(app: str) -> click.Command | None:
    """Return the command of an application, or None."""
    from tidegate.apps import load
    from tidegate.errors import TidegateError

    try:
        where = load(app).commands
        if where is None:
            return None
        module, _, name = where.partition(":")
        command = getattr(import_module(module), name)
    except TidegateError as error:
        raise click.UsageError(f"the application {app!r} cannot be used: {error}") from error
    except Exception as error:  # a defect of an application must not break the command line
        raise click.UsageError(f"the application {app!r} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        return None
    _keep_whole_help(command)
    return command


def _keep_whole_help(command: click.Command) -> None:
    """Show the whole first sentence of each command in a group's list, as the root group does."""
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        subcommand.short_help = subcommand.get_short_help_str(MAX_SENTENCE)
        _keep_whole_help(subcommand)


@click.group(
    cls=Verbs,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="tidegate %(version)s")
def tidegate() -> None:
    """Keeps a program working while the services it calls do not.

    \b
    curl -si https://api.example.org/thing | tidegate classify
    tidegate simulate --profile sync --outage "2h down"
    """  # noqa: D301 - the mark keeps the lines of an example apart


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code. A user error prints one line on stderr."""
    try:
        code = tidegate.main(args=args, prog_name="tidegate", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # missing in older versions of click
            error.show()
            return Exit.USAGE
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else "tidegate"
        click.echo(f"{where}: {' '.join(error.format_message().split())}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except OSError as error:
        if isinstance(error, PermissionError) and error.filename is not None:  # such as the folder of a service
            click.echo(f"tidegate: {error.filename}: permission denied for this user", err=True)
            return Exit.CONFIGURATION
        if error.errno not in _NOT_WRITTEN:
            raise
        # Otherwise the interpreter reports the closed stream again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # the reader closed the pipe, as `head` does
            with contextlib.suppress(OSError):
                click.echo(f"tidegate: the output or a file cannot be written ({os.strerror(error.errno)})", err=True)
        return Exit.NEGATIVE
    return int(code or Exit.OK)


def suggestion(name: str, known: Sequence[str] | dict[str, tuple[str, str]]) -> str:
    """Return a "did you mean" text, or the list of all names."""
    close = get_close_matches(name.lower(), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"


# A command with subcommands, such as `tidegate jobs list`. An unknown one gets a suggestion.


class CommandGroup(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.commands[name].get_short_help_str(MAX_SENTENCE)) for name in self.list_commands(ctx)]
        with formatter.section("Verbs"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(f"there is no {args[0]!r}; {suggestion(args[0], list(self.commands))}", ctx)
        return super().resolve_command(ctx, args)
