"""Help in one style for every version of typer: no boxes, no option cut short, examples that can be copied.

Typer's own help draws tables whose first columns it truncates on a narrow terminal, and newer versions put `<bool>`
behind every flag. Versions differ in whose click they bring along, hence `Any` where click's classes would stand.
"""

from __future__ import annotations

import re
from typing import Any

# Longer names stand on a line of their own.
_LONGEST_NAME = 26
_REQUIRED, _OPTIONS, _ARGUMENTS, _COMMANDS = "Required", "Options", "Arguments", "Commands"


def write_help(command: Any, context: Any, formatter: Any) -> None:
    """Usage, sentences, commands, arguments and options by their parts, and examples."""
    command.format_usage(context, formatter)
    for paragraph in (command.help or "").strip().split("\n\n"):
        formatter.write_paragraph()
        formatter.write_text(" ".join(paragraph.split()))
    parts: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = _record(parameter, context)
        if record:
            parts.setdefault(_part_of(parameter), []).append(record)
    for name in getattr(command, "list_commands", lambda _: [])(context):
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            parts.setdefault(_COMMANDS, []).append((name, below.get_short_help_str(200)))
    for heading in (*(heading for heading in parts if heading != _OPTIONS), _OPTIONS):
        if parts.get(heading):
            with formatter.section(heading):
                formatter.write_dl(parts[heading], col_max=_LONGEST_NAME)
    _write_epilog(command.epilog or "", formatter)


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
    return name, " ".join(re.sub(r"x>=([\d.]+)", r"at least \1", said).split())


def _write_epilog(epilog: str, formatter: Any) -> None:
    """Sentences are wrapped; commands stay on one line, however long, so that they can be copied."""
    for paragraph in epilog.strip().split("\n\n"):
        line = " ".join(paragraph.split())
        if line.startswith("Example: "):
            formatter.write("\nExample:\n")
            line = line.removeprefix("Example: ")
        if line.startswith("fheval "):
            formatter.write(f"  {line}\n")
        elif line:
            formatter.write_paragraph()
            formatter.write_text(line)
