"""The root command group. `--help` lists the commands from a table and imports none of them."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tidegate import __version__
from tidegate.cli.exits import Exit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# command -> (module that defines it, text for the list)
COMMANDS = {
    "init": ("tidegate.cli.config", "Write a settings file to start from."),
    "demo": ("tidegate.cli.demo", "Show a three-minute demo on simulated services."),
    "serve": ("tidegate.cli.serve", "Serve the page and the API, and run jobs."),
    "worker": ("tidegate.cli.serve", "Run the jobs of a module or of the applications."),
    "jobs": ("tidegate.cli.jobs", "List, show, retry, cancel and forget jobs; pause queues."),
    "bulk": ("tidegate.cli.bulk", "List, show and cancel bulk actions."),
    "activity": ("tidegate.cli.monitoring", "List who changed what, newest first."),
    "targets": ("tidegate.cli.targets", "List targets; pause, test, clear, enable, disable or reset them."),
    "channels": ("tidegate.cli.monitoring", "List notification channels, or test one."),
    "explain": ("tidegate.cli.targets", "Explain why a job is not running, or what holds a target."),
    "user": ("tidegate.cli.accounts", "Manage the users who can sign in."),
    "token": ("tidegate.cli.accounts", "Manage API tokens for programs."),
    "db": ("tidegate.cli.db", "Migrate, check, back up and restore the database."),
    "config": ("tidegate.cli.config", "Show every setting and its source, or check them."),
    "doctor": ("tidegate.cli.doctor", "Check settings, database, workers, targets and security."),
    "classify": ("tidegate.cli.classify", "Classify a response or an error message."),
    "export": ("tidegate.cli.monitoring", "Export alert rules and dashboards."),
    "simulate": ("tidegate.cli.simulate", "Simulate an outage, with and without Tidegate."),
    "completion": ("tidegate.cli.completion", "Print the completion script for a shell."),
}

# Texts for the included applications. Each defines its own, but is not imported for the list.
APPS = {
    "convert": "Convert PDF files to XML.",
    "feeds": "Add, list, poll, enable and disable feeds.",
    "lidarr": "List, retry and cancel what waits for Lidarr.",
    "music": "Connect and sync music services, and list the library.",
    "tautulli": "Sync the play history from Tautulli.",
}

MAX_SENTENCE = 200  # characters of the first sentence, so that click does not shorten it
_NOT_WRITTEN = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


# -- commands and groups -----------------------------------------------------------------------------------------------


def _write_examples(command: click.Command, formatter: click.HelpFormatter) -> None:
    if command.epilog:
        with formatter.section("Examples"), formatter.indentation():
            formatter.write("".join(f"  {line.strip()}\n" for line in command.epilog.strip().splitlines()))


class Command(click.Command):
    """A command whose epilog is its examples, one per line."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self, formatter)


class CommandGroup(click.Group):
    """Commands with subcommands, such as `tidegate jobs list`. An unknown one gets a suggestion."""

    command_class = Command
    group_class = type

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.commands[name].get_short_help_str(MAX_SENTENCE)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(f"unknown command {args[0]!r}; {suggestion(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


class RootGroup(CommandGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_apps()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from tidegate.cli.options import AtServer

            ctx.obj = AtServer(cmd_name)
            return _command_of(cmd_name)
        command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
        apps = [name for name in _apps() if name not in COMMANDS]
        if apps:
            with formatter.section("Commands of applications"):
                formatter.write_dl([(name, _text_of_app(name)) for name in apps])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete from the table, so that pressing Tab imports no command."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        texts = {
            name: COMMANDS[name][1] if name in COMMANDS else _text_of_app(name) for name in self.list_commands(ctx)
        }
        return [CompletionItem(name, help=text) for name, text in texts.items() if name.startswith(incomplete)]


def _text_of_app(name: str) -> str:
    return APPS.get(name, f"See `tidegate {name} --help`.")


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
        raise click.UsageError(f"the application {app!r} cannot be used; fix it: {error}") from error
    except Exception as error:  # a defect of an application must not break the command line
        raise click.UsageError(
            f"the application {app!r} cannot be used; fix it: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(command, click.Command):
        return None
    _keep_whole_help(command)
    return command


def _keep_whole_help(command: click.Command) -> None:
    """Show the whole first sentence of each command in a group's list, as the root group does."""
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        subcommand.short_help = subcommand.get_short_help_str(MAX_SENTENCE)
        _keep_whole_help(subcommand)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a "did you mean" text, or the list of all names."""
    from tidegate.validation import similar

    close = similar(name, known)
    return f"did you mean {close!r}?" if close else f"choose one of: {', '.join(known)}"


@click.group(
    cls=RootGroup,
    subcommand_metavar="COMMAND ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""
    tidegate demo
    tidegate serve
    tidegate simulate --profile sync --outage "2h down"
    curl -si https://api.example.org/thing | tidegate classify
    """,
)
@click.version_option(__version__, "-V", "--version", message="tidegate %(version)s")
def tidegate() -> None:
    """Keep a program working while the services it calls fail."""


# -- run ---------------------------------------------------------------------------------------------------------------


def uses_colour() -> bool | None:
    """Return False if the user turned colour off, else None: click then uses it on terminals only."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code. A user error prints one line on stderr."""
    options: dict[str, Any] = {"prog_name": "tidegate", "standalone_mode": False, "color": uses_colour()}
    try:
        code = tidegate.main(args=args, **options)
        sys.stdout.flush()
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # missing in older versions of click
            error.show()
            return Exit.USAGE
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else "tidegate"
        prefix = click.style(f"{where}:", fg="red")
        click.echo(f"{prefix} {_message(error, where)}", err=True, color=uses_colour())
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


def _message(error: click.ClickException, where: str) -> str:
    """Return the error as one line. A message of click itself says what was wrong; add where to read what is right."""
    if isinstance(error, click.NoSuchOption):
        from tidegate.validation import similar

        close = similar(error.option_name, error.possibilities or ())
        return f"unknown option {error.option_name}; " + (f"did you mean {close}?" if close else f"see {where} --help")
    message = " ".join(error.format_message().split())
    advised = not isinstance(error, click.UsageError) or any(mark in message for mark in (";", "?"))
    return message if advised else f"{message.rstrip('.')}; see {where} --help"
