"""The package keeps its shape; and each rule, shown code that breaks it, says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from architecture import rules
from architecture.imports import Module, imported, modules, parse

TEST_NAMES = sorted({path.stem for path in Path(__file__).resolve().parents[1].iterdir()} - {"__pycache__"})


@pytest.fixture(scope="module")
def package() -> list[Module]:
    return modules()


def test_the_package_was_found(package: list[Module]) -> None:
    names = {module.name for module in package}
    assert {"fheval.secrets", "fheval.engines", "fheval.engines.openfhe", "fheval.engines.seal"} <= names


def test_every_part_has_a_layer(package: list[Module]) -> None:
    assert list(rules.parts_without_layer(package)) == []


def test_imports_point_one_way(package: list[Module]) -> None:
    assert list(rules.imports_pointing_up(package)) == []


def test_parts_do_not_import_each_other_in_a_circle(package: list[Module]) -> None:
    assert list(rules.circles(package)) == []


def test_wrapped_libraries_are_imported_in_one_place(package: list[Module]) -> None:
    assert list(rules.libraries_away_from_home(package)) == []


def test_wrapped_engines_are_seen_at_home(package: list[Module]) -> None:
    """Were the import not seen in its home, the rule above could not see it elsewhere either."""
    seen = {
        library
        for library, home in rules.HOMES.items()
        for module in package
        if f"{module.name}.".startswith(f"{home}.") and any(name.startswith(library) for name in imported(module))
    }
    assert {"openfhe", "tenseal"} <= seen


def test_no_predictable_randomness(package: list[Module]) -> None:
    assert list(rules.predictable_randomness(package)) == []


def test_the_package_does_not_import_its_tests(package: list[Module]) -> None:
    assert list(rules.imports_of_tests(package, TEST_NAMES)) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("fheval.errors", "import fheval.secrets"),
        ("fheval.counting.counts", "from fheval.protocols.messages import Round"),
        ("fheval.engines.seal", "from fheval import protocols"),
        ("fheval.engines.seal", "from ..protocols import padded"),
        ("fheval.protocols.padded", "def late():\n    from fheval.party import core"),
        ("fheval.protocols.padded", "import importlib\nimportlib.import_module('fheval.cli')"),
        ("fheval.consortium.bundles", "from fheval.party.core import VaultCore"),
        ("fheval.report.page", "from fheval import evaluate"),
        ("fheval", "from fheval.cli import main"),
    ],
)
def test_an_import_pointing_up_is_found(name: str, source: str) -> None:
    assert len(list(rules.imports_pointing_up([parse(name, source, is_package=name == "fheval")]))) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "fheval.engines.seal",
            "from fheval.engines.base import Keys\nfrom .base import Engine\nfrom ..errors import A",
        ),
        ("fheval.cli", "from fheval import evaluate\nimport fheval.report.page"),
        ("fheval.protocols.padded", "import fhevaluate\nfrom cli import main"),
    ],
)
def test_an_import_pointing_down_is_fine(name: str, source: str) -> None:
    assert list(rules.imports_pointing_up([parse(name, source)])) == []


def test_a_part_without_layer_is_found() -> None:
    assert list(rules.parts_without_layer([parse("fheval.helpers", "")])) != []


def test_a_circle_is_found() -> None:
    one = parse("fheval.counting.counts", "from fheval.metrics import registry")
    other = parse("fheval.metrics.registry", "from fheval.counting.grid import even")
    assert list(rules.circles([one])) == []
    assert len(list(rules.circles([one, other]))) == 1


@pytest.mark.parametrize("source", ["import openfhe", "from openfhe import PKE", "__import__('openfhe')"])
def test_a_library_away_from_home_is_found(source: str) -> None:
    assert len(list(rules.libraries_away_from_home([parse("fheval.engines.openfhe_keys", source)]))) == 1
    assert list(rules.libraries_away_from_home([parse("fheval.engines.openfhe", source)])) == []


def test_a_folder_may_be_a_home() -> None:
    assert list(rules.libraries_away_from_home([parse("fheval.flower.shim", "from flwr.app import Message")])) == []
    assert list(rules.libraries_away_from_home([parse("fheval.queue", "from flwr.app import Message")])) != []


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import randrange",
        "import numpy.random as draws",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy as np\nrng = np.random.default_rng()",
        "import numpy\nnumpy.random.seed(1)",
    ],
)
def test_predictable_randomness_is_found(source: str) -> None:
    assert list(rules.predictable_randomness([parse("fheval.protocols.padded", source)])) != []


def test_randomness_as_an_argument_is_fine() -> None:
    source = "import numpy as np\ndef draw(random: object) -> None:\n    random.draw(3)\n    np.randomly"
    assert list(rules.predictable_randomness([parse("fheval.protocols.padded", source)])) == []


@pytest.mark.parametrize(
    "source", ["from tests.unit import oracle", "from architecture import rules", "import conftest"]
)
def test_an_import_of_the_tests_is_found(source: str) -> None:
    assert len(list(rules.imports_of_tests([parse("fheval.counting.counts", source)], TEST_NAMES))) == 1
