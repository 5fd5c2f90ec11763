"""What a module imports, read from its source without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "fheval"
SOURCE = Path(__file__).resolve().parents[2] / "src"
IMPORTING_CALLS = {"import_module", "__import__"}


@dataclass(frozen=True)
class Module:
    """A module of the package: its dotted name, its parsed source, and whether it is an `__init__`."""

    name: str
    tree: ast.Module
    is_package: bool = False

    @property
    def part(self) -> str:
        """The part of the package that it belongs to."""
        return part_of(self.name)


def part_of(dotted: str) -> str:
    """The first name below the package: `engines` for fheval.engines.seal; the package's own for its root."""
    return PACKAGE if dotted == PACKAGE else dotted.split(".")[1]


def parse(name: str, source: str, *, is_package: bool = False) -> Module:
    """A module made from source text."""
    return Module(name, ast.parse(source), is_package)


def modules() -> list[Module]:
    """Every module of the package as it lies on disk."""
    return [_read(path) for path in sorted((SOURCE / PACKAGE).rglob("*.py"))]


def _read(path: Path) -> Module:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return parse(name, path.read_text(encoding="utf-8"), is_package=is_package)


def imported(module: Module) -> Iterator[str]:
    """All that the module imports, anywhere in it, as dotted names: `from ..b import c` in a.x.y is a.b.c."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            yield from _imported_by_call(node)


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    above = module.name.split(".")
    base = above[: len(above) - node.level + module.is_package]
    return ".".join([*base, node.module] if node.module else base)


def _imported_by_call(call: ast.Call) -> Iterator[str]:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    if called in IMPORTING_CALLS and call.args:
        name = call.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value


def attributes(module: Module) -> Iterator[str]:
    """All that the module reads off its imports, aliases resolved: `np.random.rand` is numpy.random.rand."""
    aliases = _aliases(module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            root, _, rest = dotted.partition(".")
            if root in aliases:
                yield f"{aliases[root]}.{rest}"


def _aliases(module: Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{_origin(module, node)}.{a.name}" for a in node.names}
    return found
