"""The rules of the package's shape; each takes modules and says, a sentence a place, where it is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from architecture.imports import PACKAGE, Module, attributes, imported, part_of

# From the ground up. A part may import its own layer and those below.
LAYERS = (
    {"errors", "version"},
    {"secrets", "wire", "field", "drawing"},
    {"counting", "engines"},
    {"privacy"},
    {"protocols"},
    {"metrics"},
    {"study"},
    {"forecast"},
    {"disclosure"},
    {"evaluation"},
    {"consortium"},
    {"databases"},
    {"party"},
    {"aggregator"},
    {"direct", "flower"},
    {"report"},
    {PACKAGE},
    {"cli", "__main__"},
)
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}

# Where each library that we hide behind an interface is imported: that module, or that folder.
HOMES = {
    "openfhe": "fheval.engines.openfhe",
    "tenseal": "fheval.engines.seal",
    "flwr": "fheval.flower",
    "grpc": "fheval.direct",
}

PREDICTABLE = ("random", "numpy.random")


def parts_without_layer(modules: Iterable[Module]) -> Iterator[str]:
    """Every part of the package has its place in LAYERS."""
    for module in modules:
        if module.part not in HEIGHT:
            yield f"{module.name}: give {module.part!r} its place in LAYERS"


def imports_pointing_up(modules: Iterable[Module]) -> Iterator[str]:
    """No part imports from a layer above its own."""
    for module, part, name in _between_parts(modules):
        if HEIGHT.get(part, 0) > HEIGHT.get(module.part, 0):
            yield f"{module.name} imports {name}, which lies above it"


def circles(modules: Iterable[Module]) -> Iterator[str]:
    """Parts of one layer may import each other, but not in a circle."""
    needs: dict[str, set[str]] = {}
    for module, part, _ in _between_parts(modules):
        needs.setdefault(module.part, set()).add(part)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        yield "these parts import each other in a circle: " + ", ".join(error.args[1])


def _between_parts(modules: Iterable[Module]) -> Iterator[tuple[Module, str, str]]:
    modules = list(modules)
    known = {module.part for module in modules} | set(HEIGHT)
    for module in modules:
        for name in imported(module):
            if _is_within(name, PACKAGE):
                # `from fheval import evaluate` takes from the root what is not a part of it.
                part = part_of(name) if part_of(name) in known else PACKAGE
                if part != module.part:
                    yield module, part, name


def libraries_away_from_home(modules: Iterable[Module]) -> Iterator[str]:
    """openfhe, tenseal and flwr are each imported in one place."""
    for module in modules:
        for name in imported(module):
            home = HOMES.get(name.split(".")[0])
            if home and not _is_within(module.name, home):
                yield f"{module.name} imports {name}; only {home} may"


def predictable_randomness(modules: Iterable[Module]) -> Iterator[str]:
    """No Mersenne Twister anywhere, so that none can end up in a secret."""
    for module in modules:
        for name in sorted({*imported(module), *attributes(module)}):
            if any(_is_within(name, source) for source in PREDICTABLE):
                yield f"{module.name} uses {name}; draw from fheval.secrets instead"


def imports_of_tests(modules: Iterable[Module], test_names: Iterable[str]) -> Iterator[str]:
    """The package does not know its tests, though such an import would work while they run."""
    forbidden = {"tests", "conftest", *test_names}
    for module in modules:
        for name in imported(module):
            if name.split(".")[0] in forbidden:
                yield f"{module.name} imports {name} from the tests"


def _is_within(name: str, ancestor: str) -> bool:
    return name == ancestor or name.startswith(ancestor + ".")
