"""The wheels: what lies in them, and what the product does where nothing but its own wheel was installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email import message_from_bytes
from pathlib import Path

import pytest

from architecture.imports import imported, parse
from bare_environment import Bare, build_wheel, contents, install
from fheval.cli import COMMANDS, OF_THE_LAB
from fheval.version import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

# What only the laboratory and the tests import.
FOREIGN = {"fheval_lab", "sklearn", "scipy", "mpyc", "opendp", "tensorflow", "pytest", "hypothesis"}
# What may not be found beside the product's wheel, lest the tests below show nothing.
ABSENT = ("flwr", "ray", "h11", "sklearn", "scipy", "fheval_lab", "mpyc", "opendp", "openfhe", "pytest")

IMPORT_SECONDS = 0.1
IMPORTING = """
import sys, time
start = time.process_time()
import fheval
print(time.process_time() - start, *(name for name in ("numpy", "polars", "typer", "rich") if name in sys.modules))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheels")


@pytest.fixture(scope="module")
def product(folder: Path) -> Path:
    return build_wheel(ROOT, folder)


@pytest.fixture(scope="module")
def lab(folder: Path) -> Path:
    return build_wheel(ROOT / "lab", folder)


@pytest.fixture(scope="module")
def fheval(product: Path, folder: Path) -> Bare:
    """The product alone, without any extra."""
    return install(folder / "product", [product])


def tops(wheel: Path) -> set[str]:
    """The folders at the top of a wheel, but for its metadata."""
    return {name.split("/")[0] for name in contents(wheel)} - {f"{wheel.name.rsplit('-', 3)[0]}.dist-info"}


def foreign_imports(files: Mapping[str, bytes]) -> Iterator[str]:
    """The places where sources import what is not of the product."""
    for name, source in files.items():
        if name.endswith(".py"):
            module = parse(name.removesuffix(".py").replace("/", "."), source.decode())
            yield from (f"{name}: {each}" for each in imported(module) if each.split(".")[0] in FOREIGN)


def metadata(wheel: Path, file: str) -> bytes:
    (found,) = (text for name, text in contents(wheel).items() if name.endswith(f".dist-info/{file}"))
    return found


# What lies in the wheels


def test_the_products_wheel_holds_the_product_only(product: Path) -> None:
    files = contents(product)
    assert tops(product) == {"fheval"}
    assert {"fheval/py.typed", "fheval/cli/demo.csv", "fheval/report/style.css"} <= files.keys()
    assert "fheval/flower/app/pyproject.toml" in files
    assert not [name for name in files if "test" in name or "__pycache__" in name]
    assert list(foreign_imports(files)) == []


@pytest.mark.parametrize(
    "source",
    [
        b"import sklearn.metrics",
        b"def late():\n    from sklearn import metrics",
        b"import importlib\nimportlib.import_module('fheval_lab.cli.attack')",
    ],
)
def test_a_foreign_import_is_found(source: bytes) -> None:
    assert len(list(foreign_imports({"fheval/cli/demo.py": source, "fheval/a.csv": source}))) == 1


def test_the_laboratorys_wheel_holds_the_laboratory_only(lab: Path) -> None:
    assert tops(lab) == {"fheval_lab"}
    assert not [name for name in contents(lab) if "test" in name or "__pycache__" in name]


def test_what_the_wheels_ask_for(product: Path, lab: Path) -> None:
    of_product, of_lab = (message_from_bytes(metadata(wheel, "METADATA")) for wheel in (product, lab))
    assert (of_product["Version"], of_lab["Version"]) == (__version__, __version__)
    asked = " ".join(of_product.get_all("Requires-Dist", []))
    assert not [name for name in ("scikit-learn", "mpyc", "opendp", "fheval-lab") if name in asked]
    assert of_product.get_all("Provides-Extra") == ["databases", "dev", "examples", "flower", "lock", "openfhe"]
    assert f"fheval=={__version__}" in of_lab.get_all("Requires-Dist", [])
    assert of_lab.get_all("Provides-Extra") == ["baselines"]


# The product alone


def test_nothing_else_is_there(fheval: Bare) -> None:
    program = f"from importlib.util import find_spec; print([name for name in {ABSENT!r} if find_spec(name)])"
    assert fheval.execute(program).out == "[]\n"
    where = fheval.execute("import fheval; print(fheval.__file__)").out
    assert where.startswith(str(fheval.folder))


def test_the_demo(fheval: Bare) -> None:
    done = fheval("demo", "--json", "-")
    assert (done.status, done.err) == (0, "")
    found = done.json()
    assert found["rounds"][1]["auc"] == pytest.approx(found["pooled"]["counts"], abs=1e-12)


def test_evaluate_and_simulate(fheval: Bare, tmp_path: Path) -> None:
    parties = []
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("label,score\n1,0.9\n0,0.2\n1,0.4\n0,0.6\n")
        parties += ["--party", f"{tmp_path}/{name}.csv"]
    (tmp_path / "labels.txt").write_text("1\n0\n1\n0\n")
    (tmp_path / "scores.txt").write_text("0.9\n0.2\n0.4\n0.6\n")
    files = ["--labels", f"{tmp_path}/labels.txt", "--scores", f"{tmp_path}/scores.txt", "--parties", "3"]
    evaluated, simulated = fheval.several(
        ["evaluate", *parties, "--protocol", "padded-verified", "--quiet", "--report", f"{tmp_path}/page.html"],
        ["simulate", *files, "--protocol", "padded-verified", "--json", "-"],
    )
    assert (evaluated.status, evaluated.out, evaluated.err) == (0, "0.750000\n", "")
    assert "0.75" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (simulated.status, simulated.err) == (0, "")
    assert simulated.json()["auc"] == 0.75


def test_a_consortium(fheval: Bare, tmp_path: Path) -> None:
    made, listed = fheval.several(
        ["consortium", "init", f"{tmp_path}/authority", "--name", "north"],
        ["consortium", "list", f"{tmp_path}/authority"],
    )
    assert (made.status, made.err, listed.status, listed.err) == (0, "", 0, "")
    assert (tmp_path / "authority").is_dir()


def test_every_command_has_help(fheval: Bare) -> None:
    commands = [[name] for name, _, _ in COMMANDS]
    commands += [["aggregator", "up"], ["aggregator", "evaluate"], ["party", "up"], ["vault", "rounds"]]
    for words, done in zip(commands, fheval.several(*([*words, "--help"] for words in commands)), strict=True):
        assert (done.status, done.err) == (0, "")
        assert f"Usage: fheval {' '.join(words)}" in done.out


def test_what_runs_on_flower_says_which_extra_to_install(fheval: Bare) -> None:
    over = ["--transport", "flower", "--state", "state"]
    up = ["aggregator", "up", "--kit", "hub", *over]
    party = ["party", "up", "--kit", "kit", "--vault", "v.sock", "--hub", "hub:9092", *over]
    for done in fheval.several(up, party):
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith("This command needs Flower, which is not installed")
        assert "Install fheval[flower]" in done.err
        assert len(done.err.splitlines()) == 1


def test_what_the_laboratory_adds_says_what_to_install(fheval: Bare) -> None:
    done = fheval("attack", "--protocol", "padded")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("The command attack is part of fheval-lab, which is not installed.")
    assert len(done.err.splitlines()) == 1
    assert "attack" not in fheval("--help").out


def test_importing_fheval_is_quick_and_loads_nothing_large(fheval: Bare) -> None:
    fheval.execute(IMPORTING)  # writes byte code
    seconds, *loaded = zip(*(fheval.execute(IMPORTING).out.split() for _ in range(5)), strict=True)
    assert loaded == []
    assert min(map(float, seconds)) < IMPORT_SECONDS


# Product and laboratory


def test_with_both_wheels_the_laboratorys_commands_are_there(product: Path, lab: Path, folder: Path) -> None:
    both = install(folder / "both", [product, lab])
    listed = both("--help")
    assert (listed.status, listed.err) == (0, "")
    assert [name for name in OF_THE_LAB if f" {name} " not in listed.out] == []
    for name, done in zip(OF_THE_LAB, both.several(*([name, "--help"] for name in OF_THE_LAB)), strict=True):
        assert (done.status, done.err) == (0, "")
        assert f"Usage: fheval {name}" in done.out
