"""``steepest``: the one command line. It knows its commands by name and short help, and imports the one that is called.

It owns how errors and broken pipes leave the process. It must never import a command, or what commands need, by itself.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from steepest.standard_streams import give_up_output

COMMANDS: Mapping[str, str] = {
    "demo": "Run real training jobs on an emulated cluster, and report what happened.",
    "up": "Run the system on this machine until SIGTERM or SIGINT.",
    "down": "Stop the running system and its jobs; they resume at the next start.",
    "submit": "Submit a job.",
    "cancel": "Cancel jobs.",
    "hold": "Keep waiting jobs from starting.",
    "release": "Let held jobs go on.",
    "suspend": "Save and stop running jobs, until they are resumed.",
    "resume": "Let suspended jobs go on.",
    "move": "Move running jobs to another node.",
    "retry": "Submit jobs again that have failed.",
    "priority": "Change the priority of jobs.",
    "jobs": "Show every job: node, phase, category, progress.",
    "trials": "Show the trials of a sweep, the best first.",
    "logs": "Show what a job printed.",
    "top": "Show a pool live.",
    "nodes": "Show every node: capacity, reservations, use, jobs.",
    "profiles": "Show what was measured of jobs that have trained, by model.",
    "report": "Show the hours that jobs held without effect, by week and queue.",
    "events": "Show what happened, one line per event.",
    "explain": "Explain why a job is where it is, from its events.",
    "parse": "Show what Steepest reads from a training log.",
    "record": "Copy the topics to a recording.",
    "replay": "Replay a recording through the same decision code, and compare byte for byte.",
    "shadow": "Run another policy beside the live one, and show where they differ.",
    "simulate": "Compare policies on a workload, in virtual time.",
    "reproduce": "Run the published experiments again, and compare the results.",
    "check": "Check a recording against the invariants.",
    "pool": "List and add pools.",
    "doctor": "Tell what this machine or a Kubernetes cluster lacks, and how to mend it.",
    "topics": "Create, change and trim the topics on Kafka.",
    "upgrade": "Switch on what this version can do and a pool does not use yet.",
    "dead-letters": "List, show and resend records that could not be read.",
    "config": "Show the settings in force, and where each comes from.",
    "schema": "Print the topics and events as an AsyncAPI 3 document.",
}
"""Each command's short help; it is the function of that name in the module of that name."""

HOMES: Mapping[str, str] = dict.fromkeys(("release", "suspend", "resume", "priority", "move"), "hold")
"""Commands that are in the module of another one."""

OF_THE_LAB = ("demo", "reproduce", "simulate")
"""Commands of the package ``steepest-lab``, which an installation may lack."""

EPILOG = """\b
Examples:
  steepest up                                  in one terminal
  steepest submit -- python train.py           in another
  steepest jobs
  steepest explain JOB
  steepest COMMAND --help

Exit status: 0 done, 1 what was asked about does not hold (a job failed, a replay differs), 2 the call or its input is
wrong.
"""


class UsageRefusal(click.ClickException):
    """One line on standard error, and exit status 2."""

    exit_code = 2


class Commands(click.Group):
    """A group whose commands are imported when they are called, so that each starts fast and help needs none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own form
        """Their names, in the order in which one needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's own form
        """A stand-in that is good for help and completion only."""
        help_text = COMMANDS.get(cmd_name)
        return None if help_text is None else click.Command(cmd_name, help=help_text, short_help=help_text)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command itself."""
        if args and args[0] not in COMMANDS and (meant := _meant(args[0])):
            raise click.UsageError(f"No such command {args[0]!r}; did you mean {meant}?", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else _load(str(command.name)), rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error is one line."""
        from steepest.errors import BugError, SteepestError

        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (click.exceptions.NoArgsIsHelpError, BugError):
            raise
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else ctx.command_path
            raise UsageRefusal(_one_line(f"{error.format_message().rstrip('.')} (see `{where} --help`)")) from error
        except SteepestError as error:
            raise UsageRefusal(error_line(str(error), error.hint)) from error
        except FileNotFoundError as error:
            if _is_somewhere():
                raise
            raise UsageRefusal("the current folder is not there any more; change to another one") from error
        except BrokenPipeError:
            give_up_output()  # who reads us has seen enough
            return None
        return result


OTHER_WORDS: Mapping[str, str] = {
    "jobs": "ps list ls status squeue queue",
    "cancel": "kill rm scancel delete",
    "submit": "run sbatch srun add",
    "cancel or down": "stop",
    "logs": "log output tail",
}
"""What other schedulers call these commands."""


def _meant(word: str) -> str:
    """The commands that a word which is none may stand for; empty: none is close."""
    import difflib

    for command, words in OTHER_WORDS.items():
        if word in words.split():
            return command
    return " or ".join(difflib.get_close_matches(word, COMMANDS, n=2, cutoff=0.7))


def error_line(message: str, hint: str) -> str:
    """An error and its first step on one line."""
    first_step = f"; {hint[:1].lower()}{hint[1:]}" if hint else ""
    return _one_line(f"{message.rstrip('.')}{first_step}")


def _is_somewhere() -> bool:
    """Whether the current folder is there."""
    try:
        os.getcwd()  # noqa: PTH109 - spares each start pathlib
    except FileNotFoundError:
        return False
    return True


def _one_line(text: str) -> str:
    from steepest.cli.printing.output import printable

    return " ".join(printable(text).split())


def _load(name: str) -> click.Command:
    from steepest.cli.quiet import quiet

    function = name.replace("-", "_")
    module = HOMES.get(name, function)
    if name in OF_THE_LAB:
        from steepest.app.extras import refuse_without

        refuse_without(("steepest_lab",), f"`steepest {name}` needs", "install libs/steepest-lab")
    package = "steepest_lab" if name in OF_THE_LAB else "steepest.cli"
    command: click.Command = getattr(importlib.import_module(f"{package}.commands.{module}"), function)
    quiet()
    return command


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="steepest", prog_name="steepest")
def main() -> None:
    """Schedule deep-learning training jobs by how fast they still learn."""
