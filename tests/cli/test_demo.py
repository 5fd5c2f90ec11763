"""`fheval demo`: five hospitals, both threat models, the truth beside them."""

from __future__ import annotations

import re
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.session import Session, real_process
from fheval.cli.demo import FILE, Hospital, hospitals, pooled_auc
from fheval_lab.demo_data import lines
from pairwise_auc import pairwise_auc


def test_hospitals_are_five_of_unequal_size_and_one_has_one_class() -> None:
    found = hospitals()
    assert len({each.samples for each in found}) == 5
    assert [each.name for each in found if each.malignant in (0, each.samples)] == ["E"]
    assert sum(each.samples for each in found) == 342


@pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed: fheval-lab")
def test_the_file_is_what_its_program_makes() -> None:
    made, kept = list(lines()), FILE.read_text(encoding="ascii").splitlines()
    assert [line.rpartition(",")[0] for line in made] == [line.rpartition(",")[0] for line in kept]
    scores, kept_scores = ([float(line.rpartition(",")[2]) for line in each[1:]] for each in (made, kept))
    # Fitting a model may differ in the last digit on another machine.
    np.testing.assert_allclose(scores, kept_scores, rtol=2e-5)


@pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed: fheval-lab")
def test_the_pooled_truth_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score

    found = hospitals()
    labels, scores = (np.concatenate(each) for each in zip(*((one.labels, one.scores) for one in found), strict=True))
    assert pooled_auc(found) == pytest.approx(roc_auc_score(labels, scores), abs=1e-15)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.25, 0.3, 0.5, 1.0])), min_size=1, max_size=9),
        min_size=1,
        max_size=4,
    )
)
def test_the_pooled_truth_is_the_share_of_pairs_in_order(drawn: list[list[tuple[int, float]]]) -> None:
    drawn[0] += [(0, 0.3), (1, 0.3)]
    parties = [([label for label, _ in own], [score for _, score in own]) for own in drawn]
    found = [Hospital("X", np.array(labels), np.array(scores)) for labels, scores in parties]
    assert pooled_auc(found) == float(pairwise_auc(parties))


def test_with_a_real_engine() -> None:
    done = real_process("demo", "--json", "-")
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
    for role in ("each party", "leader", "aggregator"):
        assert len(re.findall(rf"{role}.{{0,400}}? \d+(\.\d)? m?s", words)) >= 2, role
    assert len(re.findall(r"5 uploads of \d+\.\d kB", words)) == 2
    assert "denominator divides" in words


def test_quiet_prints_one_line_for_each_threat_model(fheval: Session) -> None:
    done = fheval("demo", "--quiet", "--decision-points", "50")
    assert re.fullmatch(r"padded 0\.\d{4}\npadded-verified 0\.\d{6}\n", done.out)
