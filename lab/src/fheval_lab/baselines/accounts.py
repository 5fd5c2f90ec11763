"""What is told about an evaluation by a baseline: the same account as of a protocol, with what it gives away."""

from __future__ import annotations

from collections.abc import Sequence

from fheval.report.account import Account, Number, Role
from fheval.report.wording import MOST_DECIMALS, duration, fixed, size
from fheval_lab.baselines.dpauc import STATISTICS, DpAucResult
from fheval_lab.baselines.mpc import MpcResult


def dpauc_upload(result: DpAucResult) -> int:
    """The bytes that a party sends: four statistics at each decision point, as 64-bit integers."""
    return STATISTICS * result.decision_points * 8


def account_of_dpauc(result: DpAucResult, data: Sequence[str] = ()) -> Account:
    """Tell about DPAUC, run once."""
    numbers = STATISTICS * result.decision_points
    return Account(
        title="AUC over all parties, under noise",
        headlines=(Number("AUC", fixed(result.mean, MOST_DECIMALS)),),
        release=f"differentially private: noise of scale {result.noise_scale:g} on each of {numbers} counts of a party",
        facts=(
            ("protocol", "dpauc"),
            ("aggregator", "follows the protocol, and sees every party's noisy counts"),
            ("verified", "no: whoever adds up may return anything"),
            ("privacy budget", f"ε = {result.epsilon:g}, {result.epsilon_per_statistic:g} for each count"),
            ("parties", str(result.parties)),
            ("decision points", str(result.decision_points)),
            *([("data", ", ".join(data))] if data else []),
        ),
        steps=(
            f"Every party counts its true and false positives and negatives at {result.decision_points:,} public "
            "decision points.",
            "It adds Laplace noise to every count, the more the more points there are and whatever the size of its "
            "data, and sends all of them in the clear.",
            "The aggregator adds them up, draws the curve and tells everybody the area under it.",
        ),
        roles=(
            Role("each party", "its own data, and the noisy AUC", size(dpauc_upload(result))),
            Role(
                "aggregator",
                f"{numbers} noisy counts from every party, hence about how many samples it has, how they divide into "
                "classes and how the model does on them; the noisy AUC",
            ),
            Role("everybody together", "", worked=duration(result.seconds)),
        ),
        caution="The noise does not shrink with the data: on few samples the figure is noise, and may lie outside of "
        "0 to 1. Every evaluation spends the budget again.",
    )


def account_of_mpc(result: MpcResult, data: Sequence[str] = ()) -> Account:
    """Tell about the exact AUC by secret sharing."""
    return Account(
        title="AUC over all parties",
        headlines=(Number("AUC", fixed(result.auc, MOST_DECIMALS)),),
        release=f"exact, ties included: {result.numerator}/{result.denominator}",
        facts=(
            ("protocol", "mpc"),
            ("computing processes", f"{result.processes}, which follow the protocol and of which no two collude"),
            ("verified", "no: this protocol relies on processes that follow it"),
            ("parties", str(result.parties)),
            ("samples", f"{result.samples:,}"),
            ("secure comparisons", f"{result.comparisons:,} of {result.score_bits} bits"),
            *([("data", ", ".join(data))] if data else []),
        ),
        steps=(
            "Every party sorts its samples by score and splits each score and label into random shares, one for each "
            "of three computing processes.",
            "The processes merge the sorted lists and add up the area on shares, comparing scores that none of them "
            "can read.",
            "They open the AUC as a fraction, and nothing else.",
        ),
        roles=(
            Role("each party", "its own data, and the AUC as a fraction"),
            Role(
                "each computing process",
                "how many samples each party has, the format of scores, and the AUC as a fraction; shares that look "
                "random; everything, if two of them put theirs together",
                f"{size(result.bytes_sent)} by all of them",
                duration(result.computing_seconds),
            ),
            Role("everybody together, start of processes included", "", worked=duration(result.seconds)),
        ),
        caution="The AUC is exact, which says more than its digits: its denominator divides twice the positives times "
        "the negatives. The processes ran on this machine over loopback: this measures the computation, and "
        "protects nobody.",
    )
