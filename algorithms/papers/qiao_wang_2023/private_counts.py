r"""From noisy counts to consistent ones: the programme (3)/(4) of Qiao and Wang (2023), solved exactly.

For one (h, s, a), with the released n' (visits) and n'_1, ..., n'_S (visits by next state) and E/2 a bound on
every noise that holds with high probability, the paper asks for

    minimise over x >= 0   max_s |x_s - n'_s|   subject to   |sum_s x_s - n'| <= E/2.                 (3)

Each noise being at most E/2, the true counts are feasible, so the optimum is at most E/2, and every x_s and
the sum lie within E of the truth (Lemma C.3). That is utility. Privacy does not depend on it: x is a function
of released numbers, for any E.

**Two gaps the paper leaves.** If n' < -E/2 no x is feasible; the sum is then held as close to n' + E/2
as x >= 0 allows, that is x = 0. In short, the sum lies in [L, U] with L = max(0, n' - E/2) and
U = max(0, n' + E/2). And a minimiser of (3) need not be unique; the one taken here is the nearest to
c = (n'_1, ..., n'_S) in the Euclidean norm.

**Theorem.** The Euclidean projection p of c on {x >= 0, L <= sum x <= U} minimises (3).

*Proof.* By the KKT conditions p_s = max(0, c_s + m), where m = 0 if sum max(0, c_s) is in [L, U], else m < 0
and sum p = U, or m > 0 and sum p = L. Any feasible x has, with t = max_s |x_s - c_s|,

    (i)    t >= max_s (-c_s),                        as x >= 0;
    (ii)   sum max(0, c_s - t) <= sum x <= U,        as x_s >= max(0, c_s - t);
    (iii)  sum (c_s + t) >= sum x >= L,              as x_s <= c_s + t.

m = 0: |p_s - c_s| = max(0, -c_s), which (i) forces.
m < 0: |p_s - c_s| <= max(-m, -c_s). If U = 0, only x = 0 is feasible. If U > 0, the left side of (ii) is U at
t = -m and falls strictly while positive, so (ii) forces t >= -m, and (i) the rest.
m > 0: |p_s - c_s| = max(m, -c_s). If m <= max(-c_s), (i) forces it; else all c_s + m > 0, so
sum (c_s + m) = L and (iii) forces t >= m. In every case no feasible x deviates less. QED

So the linear programme is a sort: O(S log S) a cell, all cells at once.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.algorithms import public_parameters as public
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array


def private_counts(noisy_sa: ArrayLike, noisy_sas: ArrayLike, error_bound: float) -> Array:
    """The minimiser of (3) nearest to the noisy counts, for every cell at once: [..., S], by next state.

    Released visits of (h, s, a) are [...] and may be negative, those of (h, s, a, s') are [..., S]. The error
    bound E >= 0 is twice the bound on each noise. Infinity drops the constraint on the sum; 0 demands that
    the sum be n'. Consistent counts (zero noise) come back exactly, for any E.
    """
    visits = np.asarray(noisy_sa, dtype=np.float64)
    centre = np.asarray(noisy_sas, dtype=np.float64)
    where = "private_counts"
    if centre.ndim < 1 or centre.shape[:-1] != visits.shape or centre.shape[-1] < 1:
        what = f"noisy_sa {visits.shape}, noisy_sas {centre.shape}"
        raise InvalidParameter(what, where=where, remedy="give shapes [...] and [..., S]")
    if not (np.isfinite(visits).all() and np.isfinite(centre).all()):
        raise InvalidParameter("a count that is not finite", where=where)
    if not error_bound >= 0.0:
        raise InvalidParameter(f"error_bound = {error_bound!r}", where=where, remedy="give E >= 0")
    half = error_bound / 2.0
    least, most = np.maximum(visits - half, 0.0), np.maximum(visits + half, 0.0)  # L and U, [...]
    raised = np.maximum(centre, 0.0)  # [..., S]
    total = raised.sum(axis=-1)  # [...]
    target = np.clip(total, least, most)
    # Projection on {x >= 0, sum x = target}: the k largest entries stay positive, all shifted alike.
    descending = -np.sort(-centre, axis=-1)
    rank = np.arange(1, centre.shape[-1] + 1)
    shifts = (target[..., None] - descending.cumsum(axis=-1)) / rank  # [..., S]
    kept = np.maximum((descending + shifts > 0.0).sum(axis=-1), 1)
    shift = np.take_along_axis(shifts, kept[..., None] - 1, axis=-1)  # [..., 1]
    # Where the sum is in range already nothing moves, not even by a rounding.
    return np.where((target == total)[..., None], raised, np.maximum(centre + shift, 0.0))


def gaussian_error_bound(sigma: float, counts: int, failure_probability: float) -> float:
    """Return E: with probability 1 - delta, all Gaussian noises are at most E/2 (Lemma C.2).

    E = 2 sigma sqrt(2 log(2 counts / delta)), by the tail 2 exp(-t^2 / 2 sigma^2). With at most
    2 H S^2 A counts and sigma^2 = 2 H / rho it is the paper's 4 sqrt(H log(4 H S^2 A / delta) / rho).
    """
    _check_error_parameters(sigma, counts, failure_probability)
    return 2.0 * sigma * math.sqrt(2.0 * math.log(2.0 * counts / failure_probability))


def laplace_error_bound(scale: float, counts: int, failure_probability: float) -> float:
    """The same for Laplace noises, with the tail exp(-t / b): E = 2 b log(counts / delta)."""
    _check_error_parameters(scale, counts, failure_probability)
    return 2.0 * scale * math.log(counts / failure_probability)


def _check_error_parameters(noise: float, counts: int, failure_probability: float) -> None:
    public.require_nonnegative(noise, "noise")
    public.public_size(counts, "counts")
    public.require_failure_probability(failure_probability)
