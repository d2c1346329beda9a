"""A verb with verbs of its own, such as `tidegate jobs list`; an unknown one gets a suggestion."""

from __future__ import annotations

import click

from tidegate.cli.root import MAX_SENTENCE, suggestion


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
