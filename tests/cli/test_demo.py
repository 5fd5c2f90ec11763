"""`fheval demo`: five hospitals, both threat models, the truth beside them."""

from __future__ import annotations

import re
from time import monotonic

import numpy as np
import pytest

from cli.session import Session, real_process
from fheval.cli.hospitals import hospitals


def test_hospitals_are_five_of_unequal_size_and_one_has_one_class() -> None:
    found = hospitals()
    assert len({each.samples for each in found}) == 5
    assert [each.name for each in found if each.malignant in (0, each.samples)] == ["E"]
    assert sum(each.samples for each in found) == 342


def test_the_data_are_the_same_every_time() -> None:
    for once, again in zip(hospitals(), hospitals(), strict=True):
        np.testing.assert_array_equal(once.labels, again.labels)
        np.testing.assert_array_equal(once.scores, again.scores)


def test_with_a_real_engine_in_time() -> None:
    start = monotonic()
    done = real_process("demo", "--json", "-")
    assert monotonic() - start < 30
    assert (done.status, done.err) == (0, "")
    found = done.json()
    assert len(found["hospitals"]) == 5
    semi_honest, malicious = found["rounds"]
    assert (semi_honest["protocol"], malicious["protocol"]) == ("padded", "padded-verified")
    assert semi_honest["auc"] == pytest.approx(found["pooled"]["counts"], abs=semi_honest["precision"])
    assert malicious["auc"] == pytest.approx(found["pooled"]["counts"], abs=1e-12)
    assert malicious["verified"] is True
    # A thousand decision points stand for the curve to a few times 10^-5.
    assert found["pooled"]["counts"] == pytest.approx(found["pooled"]["scikit_learn"], abs=1e-4)


def test_the_page_shows_truth_private_result_and_what_each_role_saw(fheval: Session) -> None:
    done = fheval("demo")
    assert (done.status, done.err) == (0, "")
    words = " ".join(re.sub("[│─╭╮╰╯]", " ", done.out).split())
    truth = re.search(r"Were the data pooled, the AUC would be (0\.\d{6})\.", words)
    counted = re.search(r"Counted at 1000 decision points, as it is below, it is (0\.\d{6})\.", words)
    assert truth is not None
    assert counted is not None
    assert f"private AUC {counted[1]} exact" in words
    rounded = re.search(r"private AUC (0\.\d{4}) to within 0\.0001", words)
    assert rounded is not None
    assert float(rounded[1]) == pytest.approx(float(counted[1]), abs=2e-4)
    assert "undefined: one class" in words
    for role in ("each hospital", "leader", "aggregator"):
        assert len(re.findall(rf"{role}.{{0,400}}? \d+(\.\d)? m?s", words)) >= 2, role
    assert len(re.findall(r"5 uploads of \d+\.\d kB", words)) == 2
    assert "denominator divides" in words


def test_quiet_prints_one_line_for_each_threat_model(fheval: Session) -> None:
    done = fheval("demo", "--quiet", "--decision-points", "50")
    assert re.fullmatch(r"padded 0\.\d{4}\npadded-verified 0\.\d{6}\n", done.out)
