"""Every function that people call refuses what it cannot use with an error that says what to give instead."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import ZCDP, ApproxDP, Claim, Pair
from dpaudit.auditors.sampling.one_run import Canaries
from dpaudit.errors import InputError, InvalidParameter, UsageError
from tests import make

CLAIM = Claim(ZCDP(rho=0.5))
PAIR = Pair(np.zeros(1), np.ones(1))
NOISE = make.gaussian(1.0)
RUN = dpaudit.run(lambda data, curator: curator.release(data, NOISE, label="x"), np.zeros(1), claim=CLAIM)


def algorithm(data: Any, curator: Any) -> Any:
    return curator.release(data, NOISE, label="x")


def with_claim(claim: Any) -> Any:
    def claiming(data: Any, curator: Any) -> Any:
        return algorithm(data, curator)

    vars(claiming)["claim"] = claim
    return claiming


CANARIES = Canaries(10, lambda coins: coins[:1].astype(float), lambda _: np.zeros(10))

CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "run": (dpaudit.run, (algorithm, np.zeros(1)), {}),
    "certify": (dpaudit.certify, (algorithm, np.zeros(1)), {"claim": CLAIM, "pairs": PAIR}),
    "audit": (dpaudit.audit, (algorithm, PAIR), {"claim": CLAIM, "trials": 2}),
    "replay": (dpaudit.replay, (algorithm, [PAIR]), {"claim": CLAIM, "replays": 2}),
    "one_run": (dpaudit.one_run, (algorithm, CANARIES), {"claim": CLAIM}),
    "account": (dpaudit.account, (RUN.ledger,), {}),
    "verify": (dpaudit.verify, ("ledger.jsonl",), {}),
    "calibrate": (dpaudit.calibrate, (NOISE, ApproxDP(epsilon=1.0, delta=1e-6)), {}),
    "convert": (dpaudit.convert, (ZCDP(rho=0.5),), {}),
}
#: What no parameter of a name takes.
NO_CLAIM = ["0.5-zCDP", "", 0.5, 0, False, {}, (), ZCDP(rho=0.5), Claim, object(), np.zeros(2)]
NO_NUMBER = ["0.5", "", True, 1j, (), [0.5], {}, object(), np.zeros(2), np.bool_(True), float]
NO_WHOLE = [*NO_NUMBER, 1.5, 2.0, np.float64(3.0), float("nan"), float("inf"), -1]
NO_FRACTION = [*NO_NUMBER, float("nan"), float("inf"), -0.5, 2.0]
ODD = ["x", 5, 0.5, True, (), {}, object(), int]
REFUSED: dict[str, list[Any]] = {
    **dict.fromkeys(("confidence", "delta"), NO_FRACTION),
    **dict.fromkeys(("trials", "replays", "guesses", "seed", "users", "count", "most_rows"), NO_WHOLE),
    "claim": NO_CLAIM,
    "pairs": [5, "ab", True, object(), [1, 2], np.zeros((2, 2)), [PAIR, 3], Pair],
    "deltas": [1e-5, "ab", ["x"], [True], object(), [2.0], [float("nan")]],
    "orders": [2.0, "ab", ["x"], [True], object(), [0.5], [float("nan")]],
    "neighbouring": ["replace-one", "x", 5],
    "guarantee": [*ODD, CLAIM],
    "target": [*ODD, CLAIM],
    "prototype": ODD,
    "ledger": ["ledger.jsonl", *ODD],
    "canaries": ODD,
    "algorithm": [5, "x", 0.5, {}, object(), True],
    "path": [5, 0.5, {}, object()],
    "auditor": [5, "replay", object()],
}


def make_pair() -> Pair:
    return PAIR


def cases() -> list[tuple[str, str, Any]]:
    found = []
    for name, (function, _, _) in CALLS.items():
        for parameter in inspect.signature(function).parameters:
            found += [(name, parameter, value) for value in REFUSED.get(parameter, [])]
    return [case for case in found if case[:2] != ("run", "neighbouring")]  # which takes words


@pytest.mark.parametrize(("name", "parameter", "value"), cases())
def test_what_cannot_be_used_is_refused_with_a_remedy(name: str, parameter: str, value: Any) -> None:
    function, positional, options = CALLS[name]
    bound = inspect.signature(function).bind(*positional, **options)
    bound.arguments[parameter] = value
    with pytest.raises(InputError) as caught:
        function(*bound.args, **bound.kwargs)
    assert caught.value.remedy
    if parameter != "pairs" and not isinstance(value, float | list):
        assert isinstance(caught.value, InvalidParameter)
        assert f"{name}({parameter}=)" in caught.value.where


@pytest.mark.parametrize("name", ["run", "certify", "audit", "replay", "one_run"])
@pytest.mark.parametrize("claim", [value for value in NO_CLAIM if value is not Claim])
def test_an_algorithms_own_claim_is_checked_too(name: str, claim: Any) -> None:
    function, (_, data), options = CALLS[name]
    given = {option: value for option, value in options.items() if option != "claim"}
    with pytest.raises(InvalidParameter, match="attribute claim"):
        function(with_claim(claim), data, **given)


@pytest.mark.parametrize("replays", [0, 10**10, 10**400])
def test_so_few_or_many_replays_are_refused_at_once(replays: int) -> None:
    with pytest.raises(InvalidParameter, match="1 to 1000000000 replays"):
        dpaudit.audit(algorithm, PAIR, claim=CLAIM, trials=replays)


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_another_name_or_number_are_refused_with_the_names(name: str) -> None:
    function, positional, options = CALLS[name]
    parameters = inspect.signature(function).parameters
    wrong: list[tuple[Any, dict[str, int]]] = [((), {}), ((*positional, 1, 2, 3, 4, 5), {})]
    if all(one.kind is not one.VAR_KEYWORD for one in parameters.values()):
        wrong.append((positional, {"no_such_argument": 1}))
    for args, more in wrong:
        with pytest.raises(InvalidParameter, match=f"it takes {next(iter(parameters))}"):
            function(*args, **options, **more)


def test_an_argument_that_is_misspelled_is_named() -> None:
    misspelled: dict[str, Any] = {"claim": CLAIM, "pair": PAIR}
    with pytest.raises(InvalidParameter, match="unexpected keyword argument 'pair'") as caught:
        dpaudit.certify(algorithm, np.zeros(1), **misspelled)
    assert "did you mean 'pairs'?" in caught.value.remedy


def test_an_error_shows_no_data() -> None:
    """An argument in the wrong place may be the private data; a line of a log must not hold them."""
    secret = np.array([123456789.0, 987654321.0])
    values: list[Any] = [secret, [secret], Pair(secret, secret), {"x": 123456789}, "123456789" * 20]
    for value in values:
        with pytest.raises(InvalidParameter) as caught:
            dpaudit.certify(value, algorithm)
        assert "of type" in str(caught.value)
        assert "12345" not in str(caught.value)


def test_what_was_probably_meant_is_named() -> None:
    with pytest.raises(InvalidParameter, match=r"did you mean Claim\(ZCDP\(rho=0.5\)\)\?"):
        dpaudit.audit(algorithm, PAIR, claim=ZCDP(rho=0.5))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"did you mean 100\?"):
        dpaudit.audit(algorithm, PAIR, claim=CLAIM, trials="100")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"pairs of type function[^?]*did you mean make_pair\(\)\?"):
        dpaudit.audit(algorithm, make_pair, claim=CLAIM)
    with pytest.raises(InvalidParameter, match="-20 is not a whole number >= 0"):  # a type that fits
        dpaudit.audit(algorithm, PAIR, claim=CLAIM, trials=-20)
    with pytest.raises(InvalidParameter, match="did you mean the claim's guarantee"):
        dpaudit.convert(CLAIM)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"did you mean <Neighbouring.REPLACE_ONE"):
        dpaudit.calibrate(NOISE, ZCDP(rho=0.5), neighbouring="replace-one")  # type: ignore[arg-type]


def test_what_can_be_used_still_is(tmp_path: Path) -> None:
    """Numbers of numpy, functions as claims, and everything left out or None."""
    options: Any = {"trials": np.int64(2), "seed": np.uint8(3), "confidence": np.float32(0.9), "delta": None}
    found = dpaudit.audit(algorithm, PAIR, claim=CLAIM, **options)
    assert found.seed == 3
    dpaudit.run(algorithm, np.zeros(1), claim=CLAIM, path=tmp_path / "ledger.jsonl")
    assert dpaudit.verify(str(tmp_path / "ledger.jsonl"), lambda own: own).accounting.claim is not None
    assert dpaudit.convert(ZCDP(rho=0.5), deltas=np.array([1e-5]), orders=(2,))
    assert dpaudit.calibrate(NOISE, ZCDP(rho=0.5), count=np.int64(2)).count == 2
