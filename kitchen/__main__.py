"""``python -m kitchen``: measure this machine, import a bundle, show what is recorded."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from kitchen import bundle, results
from kitchen.machine import ProbeError
from kitchen.measure import MeasureError, command_line, measure, status
from kitchen.results import RecordError
from kitchen.snippet import SnippetError


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m kitchen", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    add = commands.add_parser("measure", help="measure this machine and record it (skips what is fresh)")
    add.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only snippets that match, e.g. 'overview/*' or fusion; may be given more than once",
    )
    add.add_argument(
        "--budget",
        type=_seconds,
        metavar="SECONDS",
        help="start nothing that may not end in this time; most valuable first",
    )
    add.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="also put all results of the run in one file, with those that it found fresh",
    )
    add.add_argument("--force", action="store_true", help="measure also what is fresh")
    add.add_argument(
        "--beside",
        action="store_true",
        help="this torch is not the machine's own: show the records only where versions stand side by side",
    )
    add.add_argument("--results", type=Path, metavar="FOLDER", help="where records are kept (default: results/)")
    add = commands.add_parser("import", help="merge a bundle from another machine")
    add.add_argument("file", type=Path, metavar="FILE")
    add.add_argument("--results", type=Path, metavar="FOLDER")
    add = commands.add_parser("status", help="what is recorded, where, and what is stale")
    add.add_argument("--results", type=Path, metavar="FOLDER")
    return top


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0 done, 1 failed, 2 bad arguments, 130 interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "measure":
            report = measure(
                only=arguments.only,
                force=arguments.force,
                beside=arguments.beside,
                budget_s=arguments.budget,
                bundle_file=arguments.bundle,
                root=arguments.results,
                command=command_line(argv),
            )
            return report.exit_code
        if arguments.command == "import":
            folders, count = bundle.merge(arguments.file, arguments.results)
            machine = results.load_machine(folders[0].parent)
            where = ", ".join(folder.name for folder in folders)
            print(f"{machine.title}: {count} new record{'' if count == 1 else 's'} in {where}")
        elif arguments.results and not arguments.results.is_dir():
            print(f"kitchen: there is no folder {arguments.results}", file=sys.stderr)
            return 1
        else:
            status(arguments.results)
    except (MeasureError, ProbeError, RecordError, SnippetError) as error:
        print(f"kitchen: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"kitchen: {where}{error.strerror or error}; what was recorded before is kept", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("kitchen: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
