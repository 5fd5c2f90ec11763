"""Decision points: their values, their description, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from fheval.counting import Grid, as_grid
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.wire import Message, decode, encode

ALL_GRIDS = [
    Grid.wide(2),
    Grid.wide(3),
    Grid.wide(1000),
    Grid.wide(100, scores="logit"),
    Grid.even(2),
    Grid.even(100),
    Grid.even(101, scores="logit"),
    Grid.logit(2),
    Grid.logit(3),
    Grid.logit(1000),
    Grid.logit(100, scores="logit"),
    Grid.explicit([3.5, 0.0, -2.25]),
]


@pytest.mark.parametrize("n", [2, 3, 11, 25, 50, 100, 1000, 4097])
def test_even_points_are_the_floats_nearest_to_the_quotients(n: int) -> None:
    points = Grid.even(n).points
    assert points[0] == 1.0
    assert points[-1] == 0.0
    assert points.tolist() == [float(Fraction(n - 1 - i, n - 1)) for i in range(n)]


def test_decimal_thresholds_are_the_floats_that_a_file_gives() -> None:
    assert Grid.even(11).points.tolist() == [float(f"{i / 10:.1f}") for i in range(10, -1, -1)]


@pytest.mark.parametrize("grid", ALL_GRIDS, ids=repr)
def test_points_strictly_decrease_and_are_read_only(grid: Grid) -> None:
    assert len(grid) == len(grid.points) == len(grid.cuts)
    assert grid.points.dtype == grid.cuts.dtype == np.float64
    assert (np.diff(grid.points) < 0).all()
    assert (grid.cuts[1:] < grid.cuts[:-1]).all()
    with pytest.raises(ValueError, match="read-only"):
        grid.points[0] = 2.0


def test_wide_points_have_logits_that_are_even_in_arsinh() -> None:
    points = Grid.wide(101).points
    assert (points[0], points[50], points[-1]) == (1.0, 0.5, 0.0)
    logits = Grid.wide(101, scores="logit").cuts[1:-1]
    np.testing.assert_allclose(np.arcsinh(logits / 4), np.arcsinh(7.5) * np.linspace(1, -1, 99), atol=1e-13)
    np.testing.assert_allclose(points[51:-1], 1 / (1 + np.exp(-logits[50:])), rtol=1e-14)


def test_a_wide_grid_has_no_more_points_than_floats_can_tell_apart() -> None:
    assert (np.diff(Grid.wide(1 << 16).points) < 0).all()
    with pytest.raises(ConfigError, match="at most 65536 points"):
        Grid.wide((1 << 16) + 1)


def test_logit_points_are_evenly_spaced_logits_between_one_and_zero() -> None:
    points = Grid.logit(101).points
    assert (points[0], points[50], points[-1]) == (1.0, 0.5, 0.0)
    logits = np.log(points[1:-1]) - np.log1p(-points[1:-1])
    np.testing.assert_allclose(logits, np.linspace(16, -16, 99), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 100, 101])
def test_even_points_for_logits_are_cut_at_their_logits(n: int) -> None:
    cuts = Grid.even(n, scores="logit").cuts
    assert (cuts[0], cuts[-1]) == (math.inf, -math.inf)
    points = Grid.even(n).points[1:-1]
    np.testing.assert_allclose(cuts[1:-1], np.log(points / (1 - points)), rtol=1e-12, atol=1e-15)


def test_explicit_points_are_taken_as_they_are() -> None:
    grid = Grid.explicit(np.array([2.0, -0.0, -7.5]))
    assert grid.points.tolist() == [2.0, 0.0, -7.5]
    assert grid == Grid.explicit([2, 0, -7.5])
    assert msgspec.msgpack.encode(grid) == msgspec.msgpack.encode(Grid.explicit([2, 0, -7.5]))


@pytest.mark.parametrize("grid", ALL_GRIDS, ids=repr)
def test_description_survives_the_wire_and_tells_grids_apart(grid: Grid) -> None:
    data = msgspec.msgpack.encode(grid)
    copy = msgspec.msgpack.decode(data, type=Grid)
    assert copy == grid
    assert hash(copy) == hash(grid)
    assert msgspec.msgpack.encode(copy) == data
    assert copy.cuts.tolist() == grid.cuts.tolist()
    assert data not in {msgspec.msgpack.encode(other) for other in ALL_GRIDS if other is not grid}


@pytest.mark.parametrize("n", [1, 0, -5, (1 << 20) + 1, 2.5, "100", True, None])
def test_impossible_numbers_of_points_are_refused(n: Any) -> None:
    with pytest.raises(ConfigError, match="decision points"):
        as_grid(n)
    with pytest.raises(ConfigError, match="decision points"):
        Grid.logit(n)


@pytest.mark.parametrize(
    "points", [[], [1.0], [0.0, 1.0], [1.0, 1.0], [1.0, math.nan, 0.0], [math.inf, 0.0], [1.0, -math.inf]]
)
def test_lists_that_are_no_grid_are_refused(points: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"[Dd]ecision points"):
        Grid.explicit(points)


@pytest.mark.parametrize(
    "description",
    [
        ["even", 1, "probability", []],
        ["even", 10**12, "probability", []],
        ["even", 3, "any", []],
        ["even", 3, "probability", [1.0, 0.5, 0.0]],
        ["explicit", 3, "any", [1.0, 0.0]],
        ["explicit", 2, "probability", [1.0, 0.0]],
        ["explicit", 2, "any", [0.0, 1.0]],
        ["cubic", 3, "probability", []],
        ["even", 3, "probability", [], "extra"],
        "even",
    ],
)
def test_hostile_descriptions_are_refused(description: object) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(description), type=Grid)


class Announcement(Message, frozen=True):
    grid: Grid


def test_a_grid_rides_in_a_message_and_a_bad_one_is_the_senders_fault() -> None:
    honest = encode(Announcement(grid=Grid.even(100)))
    assert decode(honest, Announcement, sender="aggregator").grid == Grid.even(100)
    hostile = honest.replace(bytes([100]), bytes([1]))
    with pytest.raises(RemoteProtocolError, match="malformed Announcement"):
        decode(hostile, Announcement, sender="aggregator")


def test_repr_is_how_to_make_it_again() -> None:
    assert repr(Grid.even(10)) == "Grid.even(10)"
    assert repr(Grid.logit(10, scores="logit")) == "Grid.logit(10, scores='logit')"
    assert repr(Grid.explicit([1, 0])) == "Grid.explicit([1.0, 0.0])"
    assert repr(Grid.explicit(range(100, 0, -1))) == "Grid.explicit(<100 points from 100.0 to 1.0>)"
