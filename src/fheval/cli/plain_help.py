"""Help in one style for every version of typer: no boxes, no option cut short, examples that can be copied.

Typer's own help draws tables whose first columns it truncates on a narrow terminal, and newer versions put `<bool>`
behind every flag. Versions differ in whose click they bring along, hence `Any` where click's classes would stand.
"""

from __future__ import annotations

import re
from typing import Any

# Longer names stand on a line of their own.
_LONGEST_NAME = 26
# Stands for a hyphen while lines are wrapped, so that no name is broken at one.
_HYPHEN = "\ue000"
# What a line of an example has besides the command: its indentation, and a backslash.
_AROUND_EXAMPLES = 6
_REQUIRED, _OPTIONS, _ARGUMENTS, _COMMANDS = "Required", "Options", "Arguments", "Commands"


def write_help(command: Any, context: Any, formatter: Any) -> None:
    """Usage, sentences, commands, arguments and options by their parts, and examples."""
    command.format_usage(context, formatter)
    for paragraph in (command.help or "").strip().split("\n\n"):
        formatter.write_paragraph()
        formatter.write_text(_unbroken(paragraph))
    parts: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = _record(parameter, context)
        if record:
            parts.setdefault(_part_of(parameter), []).append(record)
    for name in getattr(command, "list_commands", lambda _: [])(context):
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            parts.setdefault(_COMMANDS, []).append((name, _unbroken(below.get_short_help_str(200))))
    for heading in (*(heading for heading in parts if heading != _OPTIONS), _OPTIONS):
        if parts.get(heading):
            with formatter.section(heading):
                formatter.write_dl(parts[heading], col_max=_LONGEST_NAME)
    _write_epilog(command.epilog or "", formatter)
    formatter.buffer[:] = [written.replace(_HYPHEN, "-") for written in formatter.buffer]


def _unbroken(text: str) -> str:
    return " ".join(text.split()).replace("-", _HYPHEN)


def _part_of(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _ARGUMENTS
    return _REQUIRED if parameter.required else getattr(parameter, "rich_help_panel", None) or _OPTIONS


def _record(parameter: Any, context: Any) -> tuple[str, str] | None:
    record: tuple[str, str] | None = parameter.get_help_record(context)
    if record is None or getattr(parameter, "hidden", False):
        return None
    name, said = record
    name = re.sub(r" (INTEGER|FLOAT)( RANGE)?$", " N", name)
    # Typer marks what rich would take for markup, and writes ranges as formulas.
    said = re.sub(r"([\d.]+)<=x<=([\d.]+)", r"\1 to \2", said.replace("\\[", "["))
    return name, _unbroken(re.sub(r"x>=([\d.]+)", r"at least \1", said))


def _write_epilog(epilog: str, formatter: Any) -> None:
    """Sentences are wrapped; a long command goes on behind a backslash, so that it can be copied."""
    for paragraph in epilog.strip().split("\n\n"):
        line = " ".join(paragraph.split())
        if line.startswith("Example: "):
            formatter.write("\nExample:\n")
            line = line.removeprefix("Example: ")
        if line.startswith("fheval "):
            formatter.write("  " + " \\\n    ".join(_lines(line, formatter.width - _AROUND_EXAMPLES)) + "\n")
        elif line:
            formatter.write_paragraph()
            formatter.write_text(_unbroken(line))


def _lines(command: str, width: int) -> list[str]:
    """A command in lines that are no wider; an option stays with its value, and what is quoted together.

    >>> _lines("fheval consortium init ./authority --name 'Sepsis study' --months 12", 34)
    ['fheval consortium init ./authority', "--name 'Sepsis study' --months 12"]
    """
    value = r"(?:'[^']*'|\S+)"
    first, *words = re.findall(rf"--\S+(?: (?!--){value})?|{value}", command)
    lines = [first]
    for word in words:
        if len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
