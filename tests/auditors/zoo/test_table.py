"""Every verdict over a zoo is right, and a wrong one would be seen."""

from dataclasses import replace

import pytest

from dpaudit.auditors.zoo.zoo import ZOO, zoo_rows
from dpaudit.certificate.verdicts import Experiment
from dpaudit.errors import InvalidParameter

QUICK = {name: ZOO[name] for name in ("sparse-vector-2", "sparse-vector-4", "half-the-noise")}


def test_the_guilty_are_refuted_and_the_innocent_are_not(nightly: bool) -> None:
    trials = 10_000 if nightly else 4_000
    rows = {row.name: row for row in zoo_rows(QUICK, trials=trials)}
    assert {name: row.refuted for name, row in rows.items()} == dict(
        zip(QUICK, (False, True, True), strict=True)
    )
    assert all(row.right for row in rows.values())
    assert all(row.trials == trials and row.seconds > 0 for row in rows.values())
    # Below the truth, by every method.
    for row in rows.values():
        for audit in row.audits:
            assert audit.epsilon_lower is not None
            assert audit.epsilon_lower <= row.specimen.pair_epsilon
    assert rows["half-the-noise"].epsilon_lower("replay") == pytest.approx(9.997, abs=1e-3)
    assert rows["half-the-noise"].audits[2].trials == 12  # the page says 6 or 12
    assert rows["sparse-vector-4"].epsilon_lower("replay") is None


def test_a_wrong_verdict_is_seen(nightly: bool) -> None:
    # The truth misstated, either way round.
    for name, wrong in (("sparse-vector-4", 0.5), ("sparse-vector-2", 1.5)):
        (row,) = zoo_rows({name: replace(ZOO[name], pair_epsilon=wrong)}, trials=10_000 if nightly else 4_000)
        assert not row.right


@pytest.mark.nightly
def test_the_error_is_split_over_the_audits_of_a_table() -> None:
    audits = [audit for row in zoo_rows(QUICK, trials=200) for audit in row.audits]
    assert len(audits) == 7
    assert sum(1 - (audit.confidence or 0.0) for audit in audits) == pytest.approx(0.05)


def test_slow_mechanisms_are_run_less_often() -> None:
    slow = replace(ZOO["sparse-vector-4"], most_trials=300)
    (row,) = zoo_rows({"slow": slow}, trials=1000)
    assert row.trials == 300
    assert {audit.trials for audit in row.audits} == {300}


def test_a_quiet_day_is_no_refutation() -> None:
    (row,) = zoo_rows({"few": ZOO["sparse-vector-4"]}, trials=2)
    assert not row.refuted
    assert all(audit.verdict is Experiment.INCONCLUSIVE for audit in row.audits)


def test_nonsense_is_refused_before_anything_is_run() -> None:
    with pytest.raises(InvalidParameter):
        zoo_rows(QUICK, trials=100, confidence=1.0)
    with pytest.raises(InvalidParameter):
        next(zoo_rows(QUICK, trials=0))
    with pytest.raises(InvalidParameter):
        next(zoo_rows(QUICK, trials=100, seed=-1))
