"""Each accountant's answer to a workload, an epsilon, and to a calibration, a noise.

Run as a program it answers one question, `contenders.py NAME WORKLOAD`, and prints the seconds of every
repetition with the answer: `compare.py` starts it, and ends it when it takes too long.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import resource
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from workloads import CALIBRATIONS, DELTA, WORKLOADS, Calibration, Workload

#: An answer is repeated until so many seconds have gone, at least once and at most so many times.
SECONDS, MOST = 1.5, 9


class CannotSay(Exception):
    """The accountant has no answer to this question."""


def dpaudit_arrays(workload: Workload) -> float:
    from dpaudit.accountants.privacy_loss import Composed, PrivacyLoss

    noise, rate, steps = workload.phases.T
    composed = Composed(
        gaussian=(1.0 / workload.sigma, 1),
        laplace=(1.0 / workload.scale, 1),
        randomized_response=(workload.response, 1),
        sampled_gaussian=(1.0 / noise, rate, steps),
    )
    return PrivacyLoss.from_arrays(composed).epsilon(DELTA).upper


def dpaudit_mechanisms(workload: Workload) -> float:
    """The same through validated mechanisms and releases, as an algorithm writes them."""
    from dpaudit import L1, L2, Gaussian, Laplace, Neighbouring, Release
    from dpaudit.accountants.composition.composition import compose
    from dpaudit.accountants.curves.curves import pld_profile
    from dpaudit.mechanisms import PoissonSampled, RandomizedResponse

    mechanisms = [
        *(Gaussian(sigma=sigma, sensitivity=L2(1.0)) for sigma in workload.sigma.tolist()),
        *(Laplace(scale=scale, sensitivity=L1(1.0)) for scale in workload.scale.tolist()),
        *(RandomizedResponse(epsilon=epsilon) for epsilon in workload.response.tolist()),
    ]
    releases = [Release(label="release", mechanism=mechanism) for mechanism in mechanisms]
    for sigma, rate, steps in workload.phases.tolist():
        sampled = PoissonSampled(rate=rate, mechanism=Gaussian(sigma=sigma, sensitivity=L2(1.0)))
        releases.append(Release(label="phase", mechanism=sampled, count=int(steps)))
    return pld_profile(compose(releases, Neighbouring.ADD_OR_REMOVE_ONE)).epsilon(DELTA)


def dp_accounting(workload: Workload) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    if len(workload.response):  # its events of randomized response know another relation
        return _dp_accounting_distributions(workload)
    accountant = PLDAccountant()
    for sigma in workload.sigma.tolist():
        accountant.compose(dp_accounting.GaussianDpEvent(sigma))
    for scale in workload.scale.tolist():
        accountant.compose(dp_accounting.LaplaceDpEvent(scale))
    for sigma, rate, steps in workload.phases.tolist():
        event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
        accountant.compose(event, int(steps))
    return float(accountant.get_epsilon(DELTA))


def _dp_accounting_distributions(workload: Workload) -> float:
    from dp_accounting.pld import privacy_loss_distribution as distributions

    total = distributions.identity()
    for sigma in workload.sigma.tolist():
        total = total.compose(distributions.from_gaussian_mechanism(sigma))
    for scale in workload.scale.tolist():
        total = total.compose(distributions.from_laplace_mechanism(scale))
    for epsilon in workload.response.tolist():
        total = total.compose(distributions.from_randomized_response(2.0 / (1.0 + math.exp(epsilon)), 2))
    return float(total.get_epsilon_for_delta(DELTA))


def prv(workload: Workload) -> float:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import (
        GaussianMechanism,
        LaplaceMechanism,
        PoissonSubsampledGaussianMechanism,
        PureDPMechanism,
    )

    runs = [
        *((GaussianMechanism(sigma), 1) for sigma in workload.sigma.tolist()),
        *((LaplaceMechanism(1.0 / scale), 1) for scale in workload.scale.tolist()),
        *((PureDPMechanism(epsilon), 1) for epsilon in workload.response.tolist()),
        *(
            (PoissonSubsampledGaussianMechanism(rate, sigma), int(steps))
            for sigma, rate, steps in workload.phases.tolist()
        ),
    ]
    variables, times = zip(*runs, strict=True)
    accountant = PRVAccountant(
        list(variables), eps_error=0.01, delta_error=DELTA / 1000.0, max_self_compositions=list(times)
    )
    return float(accountant.compute_epsilon(DELTA, list(times))[2])


def opacus(workload: Workload) -> float:
    from opacus.accountants.analysis import rdp

    if len(workload.scale) or len(workload.response):
        raise CannotSay("Gaussian noise only")
    orders = [1.0 + x / 10.0 for x in range(1, 100)] + list(range(12, 64))  # its accountant's own
    total = np.zeros(len(orders))
    runs = [(sigma, 1.0, 1) for sigma in workload.sigma.tolist()] + workload.phases.tolist()
    for sigma, rate, steps in runs:
        total += rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=int(steps), orders=orders)
    return float(rdp.get_privacy_spent(orders=orders, rdp=total, delta=DELTA)[0])


def dpaudit_noise(wanted: Calibration) -> float:
    from dpaudit import L2, ApproxDP, Gaussian, Neighbouring
    from dpaudit.accountants.calibration.calibration import calibrate
    from dpaudit.mechanisms import PoissonSampled

    mechanism: Gaussian | PoissonSampled = Gaussian(sigma=1.0, sensitivity=L2(1.0))
    if wanted.rate < 1.0:
        mechanism = PoissonSampled(rate=wanted.rate, mechanism=mechanism)
    goal = ApproxDP(epsilon=wanted.epsilon, delta=DELTA)
    found = calibrate(mechanism, goal, count=wanted.steps, neighbouring=Neighbouring.ADD_OR_REMOVE_ONE)
    return found.value


def dp_accounting_noise(wanted: Calibration) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def event(sigma: float) -> dp_accounting.DpEvent:
        one: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(sigma)
        if wanted.rate < 1.0:
            one = dp_accounting.PoissonSampledDpEvent(wanted.rate, one)
        return dp_accounting.SelfComposedDpEvent(one, wanted.steps)

    bracket = dp_accounting.ExplicitBracketInterval(0.5, 10.0)
    found = dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, wanted.epsilon, DELTA, bracket)
    return float(found)


def opacus_noise(wanted: Calibration) -> float:
    from opacus.accountants.utils import get_noise_multiplier

    return float(
        get_noise_multiplier(
            target_epsilon=wanted.epsilon,
            target_delta=DELTA,
            sample_rate=wanted.rate,
            steps=wanted.steps,
            accountant="rdp",
            epsilon_tolerance=1e-4,
        )
    )


#: What each contender is called in the table, and what it computes.
EPSILON: dict[str, Callable[[Workload], float]] = {
    "dpaudit, arrays": dpaudit_arrays,
    "dpaudit, releases": dpaudit_mechanisms,
    "dp-accounting PLD": dp_accounting,
    "prv-accountant": prv,
    "Opacus RDP": opacus,
}
NOISE: dict[str, Callable[[Calibration], float]] = {
    "dpaudit": dpaudit_noise,
    "dp-accounting PLD": dp_accounting_noise,
    "Opacus RDP": opacus_noise,
}


def _repeated(answer: Callable[[], float]) -> dict[str, object]:
    seconds: list[float] = []
    while True:
        start = time.process_time()
        found = answer()
        seconds.append(time.process_time() - start)
        if sum(seconds) > SECONDS or len(seconds) >= MOST:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    return {"seconds": seconds, "answer": found, "megabytes": peak}


def _main(contender: str, workload: str) -> None:
    warnings.simplefilter("ignore")
    try:
        # A contender may print while it is imported; the only line here is the answer.
        with contextlib.redirect_stdout(io.StringIO()):
            if workload in CALIBRATIONS:
                noise, wanted = NOISE[contender], CALIBRATIONS[workload]
                noise(CALIBRATIONS["W6-one"])  # imports are not what is measured
                answer = _repeated(lambda: noise(wanted))
            else:
                epsilon, given = EPSILON[contender], WORKLOADS[workload]()
                epsilon(Workload("", "", sigma=np.ones(2)))
                answer = _repeated(lambda: epsilon(given))
    except CannotSay as reason:
        answer = {"refused": str(reason)}
    except ImportError as missing:
        answer = {"refused": f"not installed ({missing.name})"}
    except Exception as failed:  # noqa: BLE001 - whatever another library raises is its answer
        answer = {"refused": f"{type(failed).__name__}: {failed}"[:100]}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
