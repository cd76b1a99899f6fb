"""Check a certificate against its ledger, with Python's standard library alone.

    python -I -S checker.py certificate.json ledger.jsonl

This file imports nothing of dpaudit, and can be copied. It reads the ledger strictly, recomputes its hashes,
and bounds its privacy loss by methods of its own. Each figure and field gets one of three answers:

holds           the bound here is no larger; or at most 1% larger, where finer steps would lower it
does not hold   the bound is larger, or a field contradicts the ledger
not checked     no bound is known here, or none that is fine enough

Numbers are multiples of 2^-224; `ONE` is 1. Functions are good to a few hundred units; results are rounded to
the safe side by far more. One run of a mechanism is a *pair*, a kind with exact parameters. A pair has a
*curve*: delta at each epsilon, convex in y = e^epsilon. Its chords between the points epsilon = i / cells are
the curve of a discrete privacy loss, which dominates (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022).
Polynomial products add discrete losses up. Each order of neighbours is composed by itself; the larger counts.
"""

import bisect
import contextlib
import functools
import hashlib
import itertools
import json
import math
import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

VERSION = "1"
TOLERANCE = 1 + Fraction(1, 10**9)  # a bound meets a figure that it exceeds by no larger factor
HOLDS, FAILS, UNKNOWN, NOTHING = "holds", "does not hold", "not checked", "nothing"
RANK = {FAILS: 0, UNKNOWN: 1, HOLDS: 2}
Answer = tuple[str, str, str]  # one of the three, what it is about, and why
Record = dict[str, Any]


class Wrong(Exception):
    """The ledger or the certificate states something that does not hold."""


class Unknown(Exception):
    """No bound is known here."""


def require(right: object, words: str, error: type[Exception] = Wrong) -> None:
    """Raise an error unless something is right."""
    if not right:
        raise error(words)


# 1. Numbers, in units of 2^-BITS

BITS = 224
ONE = 1 << BITS
GUARD = BITS + 64
LN2 = 0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D8A0D175B8BAAFA2BE7B87620  # in units of 2^-GUARD
DENSITY = 0x662114CF50D942343F2CF1402EAE38BFD3829F30512706D8C0471B48  # 1 / sqrt(2 pi)


def fixed(number: Fraction | float) -> int:
    """Return a number in units, rounded down."""
    exact = Fraction(number)
    return (exact.numerator << BITS) // exact.denominator


def up(value: int) -> Fraction:
    """Return units as a fraction, raised by far more than functions are off."""
    return Fraction(value + (abs(value) >> 150) + (1 << 32), ONE)


def exp(x: int) -> int:
    """Return e^x: x less a multiple of ln 2, over 2^8, in the series; then squared 8 times."""
    shift = (x << 64) // LN2
    part = ((x << 64) - shift * LN2) >> 8
    total, term, n = (1 << GUARD) + part, part, 2
    while term:
        term = (term * part >> GUARD) // n
        total, n = total + term, n + 1
    for _ in range(8):
        total = total * total >> GUARD
    return total << (shift - 64) if shift > 64 else total >> (64 - shift)


def ln(y: int) -> int:
    """Return the logarithm of y > 0, by two of Halley's steps, each of which triples the digits."""
    shift = y.bit_length() - 1 - BITS
    reduced = y >> shift if shift > 0 else y << -shift
    x = int(math.log(reduced / ONE) * 2**60) << (BITS - 60)
    for _ in range(2):
        power = exp(x)
        x += (2 * (reduced - power) << BITS) // (reduced + power)
    return x + (shift * LN2 >> 64)


@functools.cache
def anchor(k: int) -> tuple[int, int, int]:
    """Return z = k / 32, the normal density there, and the tail beyond, by a series of positive terms."""
    z = (k << BITS) // 32
    inverse, term, total, n = exp((z * z >> BITS) // 2), z, 0, 1
    while term:
        total, n = total + term, n + 2
        term = (term * z >> BITS) * z // (n << BITS)
    return z, (DENSITY << BITS) // inverse, ONE // 2 - total * DENSITY // inverse


def tail(z: int) -> int:
    """Return P(N > z) of a standard normal N, by the series of e^(-z s - s^2/2) from the next k / 32."""
    if z < 0:
        return ONE - tail(-z)
    if z >= 18 << BITS:
        return 0  # less than 2^-230
    at, density, beyond = anchor((32 * z + ONE // 2) >> BITS)
    power = t = z - at
    before, coefficient, total, n = ONE, -at, t, 1
    while abs(power) > 1:
        power = power * t >> BITS
        total += (coefficient * power >> BITS) // (n + 1)
        before, coefficient, n = coefficient, -((at * coefficient >> BITS) + before) // (n + 1), n + 1
    return beyond - (density * total >> BITS)


# 2. The ledger


def table(text: str) -> dict[str, str]:
    """Return the entries of a text: "name: words; name: words"."""
    return dict(entry.split(": ") for entry in " ".join(text.split()).split("; "))


#: Fields with "?" or a default, in JSON, may be left out; after a slash stand the norms of a sensitivity.
RECORDS = table("""header: schema algorithm unit neighbouring trust_model="central" schedule="fixed" budget?
    group_size=1 users? claim? run? parameters={} noise={};
    release: label mechanism count=1 partition? grid? claimed? sample?; footer: releases;
    claim: guarantee unit? neighbouring? trust_model? view="all-releases" premises=[] assumptions=[];
    noise: source="live" sampler="numpy-float64" seeded=false; partition: part split="split" by="position";
    sensitivity: value norm basis="declared"; certificate: schema claim view ledger_hash bounds profile
    releases proof audits numerics not_checked versions command statement second_opinion? process diverged?
    checks? experiment sampling publishable budget? algorithm unit neighbouring trust_model group_size
    parameters""")
GUARANTEES = table("pure-dp: epsilon; approx-dp: epsilon delta; zcdp: rho; rdp: alpha epsilon; gdp: mu")
MECHANISMS = table("""gaussian: sensitivity/l2 sigma; laplace: sensitivity/l1 scale; exponential: epsilon;
    discrete-gaussian: sensitivity/l2 sigma; discrete-laplace: sensitivity/l1 scale; shuffled: local users;
    random-allocation: mechanism steps; symmetric-gaussian: sensitivity/frobenius sigma dimension;
    tree-aggregation: sensitivity/l2/frobenius sigma steps; gaussian-process: sensitivity/rkhs sigma kernel;
    matrix: sensitivity/l2 sigma steps strategy participations=1 separation=1;
    randomized-response: epsilon categories=2; report-noisy-max: epsilon noise_law="exponential";
    sparse-vector: sensitivity/l1 answers=1 monotone=false epsilon;
    gaussian-sparse-vector: sensitivity/l2 answers=1 monotone=false sigma steps;
    private-selection: releases repetitions; key-selection: method="optimal" epsilon delta changes;
    smooth-gaussian: alpha beta dimension epsilon delta; poisson-sampled: mechanism contribution? rate;
    fixed-size-sampled: mechanism contribution? size units; sampled-matrix: mechanism contribution? rate;
    truncated-poisson-sampled: mechanism contribution? rate most units; sampled-records: mechanism rate
    records; mixture-of-gaussians: sigma sensitivities probabilities; pure-dp: epsilon justification
    sensitivity?; approx-dp: epsilon delta justification sensitivity?; zcdp: rho justification sensitivity?;
    tabulated: losses probabilities infinity=0 justification sensitivity?""")
CHOICES = table("""neighbouring: add-or-remove-one replace-one zero-out; trust_model: central local joint;
    schedule: fixed filtered; source: live; sampler: dpaudit-exact numpy-float64 opendp-discrete;
    by: position values; basis: proved clipped declared mapped; monotone: True False; seeded: True False""")
RANGES: dict[str, Callable[[Any], bool]] = {
    "value epsilon rho mu infinity": lambda x: x >= 0,
    "sigma scale contribution": lambda x: x > 0,
    "rate": lambda x: 0 < x <= 1,
    "delta": lambda x: 0 < x < 1,
    "categories": lambda x: x > 1,
    """count group_size users steps dimension participations separation categories answers changes size units
    most records""": lambda x: x >= 1 and x == int(x),
}
ON_SAMPLE = ("poisson-sampled", "fixed-size-sampled", "truncated-poisson-sampled", "sampled-records")
TRUSTED = {*ON_SAMPLE, "sampled-matrix", "mixture-of-gaussians", "random-allocation", "shuffled"}
TRUSTED |= {"key-selection"}  # mechanisms that need somebody who is trusted with the data


def parse(text: bytes) -> Any:
    """Return the value; raise `Wrong` for a repeated field, and for a number that no finite double is."""

    def unique(pairs: list[tuple[str, Any]]) -> Record:
        require(len(dict(pairs)) == len(pairs), "a field is repeated in one object")
        return dict(pairs)

    def finite(digits: str) -> float:
        require(math.isfinite(float(digits)), f"{digits} is not a finite number")
        return int(digits) if digits.removeprefix("-").isdigit() and len(digits) < 16 else float(digits)

    hooks: Record = dict.fromkeys(("parse_float", "parse_int", "parse_constant"), finite)
    try:
        return json.loads(text.decode(), object_pairs_hook=unique, **hooks)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"no JSON: {error}") from None


def filled(value: Any, fields: str, where: str) -> Record:
    """Return an object with its defaults; raise `Wrong` for an unknown, missing or impossible field."""
    found = Record()
    for entry in fields.split():
        marked, _, default = entry.partition("=")
        name, *norms = marked.rstrip("?").split("/")
        if name in value or default:
            found[name] = known(name, value[name] if name in value else parse(default.encode()), where)
            require(not norms or found[name]["norm"] in norms, f"{where}: not in {' or '.join(norms)}")
        require(name in found or marked.endswith("?"), f"{where}: the field {name} is missing")
    left = sorted(set(value) - set(found))
    require(not left, f"{where}: unknown field {left[:1]}")
    return found


def known(name: str, value: Any, where: str) -> Any:
    """Return the value of a field with its defaults; raise `Wrong` for one that the field cannot have."""
    where, right = f"{where}.{name}", True
    tests = [RANGES[names] for names in RANGES if name in names.split()]
    if name in ("mechanism", "local", "guarantee", "claimed", "budget"):
        table_of = MECHANISMS if name in ("mechanism", "local") else GUARANTEES
        kind, inner = str(value.get("kind")), where.endswith("mechanism.mechanism")
        require(kind in table_of or table_of is GUARANTEES, f"a {kind} mechanism", Unknown)
        require(kind in table_of and not (inner and kind in TRUSTED), f"{where}: {kind} is impossible here")
        value = filled(value, f"kind {table_of[value['kind']]}", where)
        right = kind != "rdp" or value["alpha"] > 1
    elif name in RECORDS:
        value = filled({"part": value} if isinstance(value, str) else value, RECORDS[name], where)
    elif name in CHOICES:
        right = str(value) in CHOICES[name].split()
    elif name in ("run", "sample"):  # 32 digits; the one spelling of a draw's name
        spelled = " ".join(normalize("NFC", str(value)).split())
        right = value == spelled != "" and spelled.isprintable() and (name == "sample" or len(value) == 32)
    elif name in ("algorithm", "unit", "label", "justification", "parameters"):
        right = isinstance(value, dict if name == "parameters" else str) and str(value).strip() != ""
    elif tests:
        right = type(value) in (int, float) and all(test(value) for test in tests)
    require(right, f"{where}: {str(value)[:60]} is impossible")
    return value


class Ledger(NamedTuple):
    """A ledger that was read whole: its header, its releases in order, and its last hash."""

    header: Record
    releases: list[Record]
    digest: str


def read_ledger(text: bytes) -> Ledger:
    """Read a ledger, every line against its hash; raise `Wrong` with what is not as it was written."""
    *lines, end = text.split(b"\n")
    digest, records = "", list[Record]()
    for place, line in enumerate(lines, start=1):
        where, kind = f"ledger line {place}", {1: "header", len(lines): "footer"}.get(place, "release")
        body, _, stated = line.rpartition(b',"hash":"')
        digest = hashlib.sha256(digest.encode() + body + b"}").hexdigest()
        require(stated == f'{digest}"}}'.encode(), f"{where}: its hash does not follow from the lines so far")
        value = parse(body + b"}")
        require(value.pop("record", None) == kind, f"{where}: not the {kind} that should be here")
        records.append(filled(value, RECORDS[kind], where))
    whole = not end and len(records) > 2 and records[-1]["releases"] == len(records) - 2
    require(whole, "the ledger: it was cut short, or has no releases, or its footer counts others")
    header, releases, trust = records[0], records[1:-1], records[0]["trust_model"]
    require(header["schema"] == "dpaudit.ledger/1", f"header.schema: {header['schema']!r} is not known here")
    require((header["schedule"] == "filtered") == ("budget" in header), "header.budget: a filter has one")
    require(trust == "local" or "users" not in header, "header.users: they are those of local trust")
    own = {**header, **header.get("claim", {})}
    require(all(own[name] == header[name] for name in header), "header.claim: it is about another ledger")
    for release in releases:
        kind, where = release["mechanism"]["kind"], f"release {release['label']!r}"
        trusted = trust == "central" or kind not in (TRUSTED if trust == "local" else ("shuffled",))
        require(trusted, f"{where}: under {trust} trust nobody is trusted to run a {kind} mechanism")
        require(release.get("grid", g := grid_of(release["mechanism"])) == g, f"{where}: another grid")
        require("sample" not in release or kind in ON_SAMPLE, f"{where}: a {kind} mechanism draws no sample")
    return Ledger(header, releases, digest)


def grid_of(mechanism: Record) -> int | None:
    """Return the exponent of the grid of a mechanism's outputs; None: they are on none."""
    inner = mechanism.get("mechanism", mechanism)
    without = inner["kind"] in ("gaussian-sparse-vector", "mixture-of-gaussians")
    scale = inner.get("scale", None if without else inner.get("sigma"))
    exponent = None if scale is None else math.frexp(scale)[1] - 33
    return 0 if inner["kind"].startswith("discrete") else exponent


# 3. Pairs: what one run of a mechanism costs at most

Pair = tuple[Any, ...]  # a kind and exact parameters
SUMS = ("gaussian", "symmetric-gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "matrix")
RAISED = 1 + Fraction(1, 10**12)  # more than a sum of doubles is off


def pairs_of(mechanism: Record, units: int = 1, bound: float | None = None) -> list[tuple[Pair, int]]:
    """Return a run's pairs, each with how often it runs; `bound` stands for the sensitivity."""
    kind, epsilon = mechanism["kind"], Fraction(mechanism.get("epsilon", 0)) * units
    value: float = mechanism.get("sensitivity", {"value": 0})["value"] if bound is None else bound
    moved, delta = Fraction(value) * units, Fraction(mechanism.get("delta", 0))
    scale, square = Fraction(mechanism.get("sigma") or mechanism.get("scale") or 1), moved**2
    if kind == "randomized-response":  # each unit of a group has an answer of its own
        return [(("response", epsilon / units, mechanism["categories"]), units)]
    if kind in (*ON_SAMPLE[:3], "sampled-matrix") and units == 1:
        return sampled_pairs(mechanism)
    if kind == "approx-dp" and units > 1:  # Vadhan 2017, Lemma 2.2
        delta *= units * up(exp(fixed(epsilon - epsilon / units)))
    if kind == "gaussian-sparse-vector":
        sides, answers = 1 if mechanism["monotone"] else 2, mechanism["answers"]
        threshold = moved / Fraction(mechanism["sigma"] / math.sqrt(sides * math.sqrt(answers)))
        return [(("sparse", threshold, moved / scale, sides, answers, mechanism["steps"]), 1)]
    if kind == "discrete-gaussian":  # the double of a root of a whole number means that root
        whole = round(square) if abs(square - round(square)) * 2**51 <= square else math.floor(square)
        return [((kind, scale, whole), 1)]
    if kind == "tabulated" and units == 1:
        losses, masses = (tuple(map(Fraction, mechanism[name])) for name in ("losses", "probabilities"))
        infinite = Fraction(mechanism["infinity"])
        off = (sum(masses) + infinite - 1) * 2**52  # what is missing, beyond rounding, counts as infinite
        require(off <= len(masses), "tabulated: its masses add up to more than 1")
        infinite += (-off if off < -1 else Fraction(0)) / 2**52
        return [(("table", tuple(zip(losses, masses, strict=True)), infinite), 1)]
    made: Record = {
        **dict.fromkeys(("gaussian", "symmetric-gaussian", "gaussian-process"), ("gauss", square / scale**2)),
        **dict.fromkeys(("report-noisy-max", "sparse-vector", "pure-dp"), ("response", epsilon, 2)),
        # An item is in at most floor(log2 steps) + 1 nodes.
        "tree-aggregation": ("gauss", square / scale**2 * mechanism.get("steps", 0).bit_length()),
        "matrix": ("gauss", square / scale**2 * reach(mechanism)) if kind == "matrix" else None,
        "laplace": ("laplace", moved / scale),
        "discrete-laplace": ("discrete-laplace", math.floor(moved), 1 / scale),
        "exponential": ("range", epsilon),
        "approx-dp": ("approx", epsilon, delta),
        "key-selection": ("approx", epsilon, delta) if units == 1 else None,
        "zcdp": ("zcdp", Fraction(mechanism.get("rho", 0)) * units**2),
    }
    require(made.get(kind), f"a {kind} mechanism" + (f" for groups of {units}" if units > 1 else ""), Unknown)
    return [(made[kind], 1)]


def sampled_pairs(mechanism: Record) -> list[tuple[Pair, int]]:
    """Return the pair on a secret sample: of a unit's change, of its own part, and how units are drawn."""
    inner, how, times = mechanism["mechanism"], mechanism["kind"], 1
    if how == "sampled-matrix":  # a turn every `separation` steps: each a run on the largest column
        how, times = "poisson-sampled", -(-inner["steps"] // inner["separation"])
        inner = {**inner, "participations": 1}
    most, units = mechanism.get("most", 0), mechanism.get("units", 0)
    rate = Fraction(mechanism["rate"]) if "rate" in mechanism else Fraction(mechanism["size"], units)
    how = "poisson-sampled" if how == "truncated-poisson-sampled" and most >= units else how
    stated = "contribution" in mechanism and inner["kind"] in SUMS
    change, own = pairs_of(inner), pairs_of(inner, bound=mechanism["contribution"] if stated else None)
    require(rate <= 1, f"a mechanism: a sample of more than its {units} units")
    return [(("sampled", how, change[0][0], own[0][0], rate, most, units, stated), times)]


def reach(mechanism: Record) -> Fraction:
    """Return the squared norm that a strategy matrix gives to one unit's changes, at most.

    Far columns share no row. Of Toeplitz that falls, the earliest steps (Kalinin and Lampert 2024).
    """
    strategy, steps, separation = mechanism["strategy"], mechanism["steps"], mechanism["separation"]
    require(steps <= 2**20, f"a matrix of {steps} steps", Unknown)
    times, sums = min(mechanism["participations"], -(-steps // separation)), [0.0] * steps
    if strategy["kind"] == "lower-triangular":
        apart = times == 1 or max(map(len, strategy["rows"])) <= separation
        require(apart, "a strategy that is written out, whose turns overlap", Unknown)
        for place, row in enumerate(strategy["rows"], start=1):
            for at, entry in enumerate(row, start=place - len(row)):
                sums[at] += entry * entry
        best = [0.0] * (steps + 1)
        for _ in range(times):  # the largest sum over steps so far apart, of the first ones
            found = [0.0]
            for at, square in enumerate(sums):
                found.append(max(found[-1], square + best[max(0, at + 1 - separation)]))
            best = found
        return Fraction(best[-1]) * RAISED
    column, powers = strategy.get("coefficients", [1.0])[:steps], [1.0] * len(strategy.get("decays", ()))
    while powers and len(column) < steps:  # a buffered strategy, whose definition says how to round
        entry = math.fsum(map(operator.mul, strategy["scales"], powers))
        column.append(entry if abs(entry) >= 2.0**-400 else 0.0)
        powers = list(map(operator.mul, powers, strategy["decays"]))
    if len(column) > separation and times > 1:
        column = list(itertools.accumulate(map(abs, reversed(column)), max))[::-1]
    for first in range(0, times * separation, separation):
        for at, entry in enumerate(column[: steps - first], start=first):
            sums[at] += entry
    return Fraction(math.fsum(x * x for x in sums)) * RAISED


# 4. Costs that add up


def pure(pair: Pair) -> Fraction:
    """Return a pair's pure epsilon; raise `Unknown` where it has none."""
    kind = pair[0]
    if kind in ("laplace", "range", "response") or (kind in ("gauss", "zcdp") and pair[1] == 0):
        return Fraction(pair[1])
    if kind == "discrete-laplace":
        return Fraction(pair[1] * pair[2])
    if kind == "sampled":  # Balle, Barthe and Gaboardi 2018, Theorem 8
        epsilon = max(pure(pair[2]), pure(pair[3]))
        return min(epsilon, up(ln(ONE + fixed(pair[4] * (up(exp(fixed(epsilon))) - 1)) + 1)))
    if kind == "table" and not pair[2]:
        return Fraction(max([0, *(loss for loss, mass in pair[1] if mass)]))
    raise Unknown(f"the pure epsilon of {kind} noise")


@functools.cache
def rho(pair: Pair) -> Fraction:
    """Return a pair's rho of zCDP.

    Gaussian mu^2 / 2 (Bun and Steinke 2016), discrete too (Canonne, Kamath and Steinke 2020); Laplace
    e + e^-e - 1 (Harrison and Manurangsi 2025); a range e^2 / 8 (Cesar and Rogers 2021); pure e tanh(e / 2).
    """
    kind = pair[0]
    if kind in ("gauss", "zcdp"):
        return Fraction(pair[1]) / (2 if kind == "gauss" else 1)
    if kind == "discrete-gaussian":
        return Fraction(pair[2] / (2 * pair[1] ** 2))
    if kind == "sparse":  # as if all values were released
        return Fraction(pair[2] ** 2 * pair[5] / 2)
    epsilon, shrunk = pure(pair), exp(-fixed(pure(pair)))
    if kind == "laplace":
        return max(Fraction(0), epsilon - 1 + up(shrunk))
    whole = epsilon * up((ONE - shrunk << BITS) // (ONE + shrunk))
    return min(whole, epsilon**2 / 8) if kind == "range" else whole


@functools.cache
def mu_squared(pair: Pair) -> Fraction:
    """Return the square of a pair's mu of GDP; of a pure epsilon mu is -2 Phi^-1(1 / (1 + e^epsilon))."""
    if pair[0] in ("gauss", "sparse"):
        return 2 * rho(pair)
    epsilon = min(pure(pair), Fraction(10**4))
    wanted, low, high = (ONE << BITS) // (ONE + exp(fixed(epsilon))) - (1 << 24), 0, 17 << BITS
    require(tail(high) < wanted, f"the mu of a pure epsilon of {float(epsilon):g}", Unknown)
    while high - low > 1 << 80:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) < wanted else (middle, high)
    return up(2 * high) ** 2 if epsilon else Fraction(0)


@functools.cache
def divergence(pair: Pair, order: Fraction, relation: str) -> Fraction:
    """Return a bound on a Renyi divergence, in both directions (Mironov 2017; Zhu and Wang 2020)."""
    kind, t, least = pair[0], order - 1, list[Fraction]()
    if kind == "sampled":
        how, inner, _ = under(pair, relation)
        if how == "mixture" and inner[0] == "gauss":
            return sampled_divergence(inner[1], pair[4], order)
        return max(divergence(one, order, relation) for one in pair[2:4])  # by convexity: no amplification
    if kind == "sparse":
        _, threshold, alone, sides, answers, steps = pair
        log = steps * Fraction(LN2 + 1, 1 << GUARD)  # of the number of outcomes, at most all sequences
        if 2 * answers < steps <= 4096:
            counts = itertools.accumulate(range(answers), lambda n, i: n * (steps - i) // (i + 1), initial=1)
            log = up(ln(sum(counts) << BITS))
        moved = threshold**2 + min(answers, steps) * (sides * alone) ** 2
        least.append(moved * order / 2 + log / t)
    if kind in ("laplace", "response") and 0 < pair[1] * order < 2000:
        high, low, one = (up(exp(fixed(x) + 1)) for x in (t * pair[1], -order * pair[1], pair[1]))
        inside = (order * high + t * low) / (order + t)
        if kind == "response":
            inside = (high * one + low * one + pair[2] - 2) / (one + pair[2] - 1) + Fraction(1, 2**150)
        least.append(up(ln(fixed(inside) + 1)) / t)
    with contextlib.suppress(Unknown):
        least.append(pure(pair))
    return min([rho(pair) * order, *least])


@functools.cache
def sampled_divergence(square: Fraction, rate: Fraction, order: Fraction) -> Fraction:
    """Return that of a Poisson-sampled Gaussian: a binomial sum (Mironov et al. 2019), or a chord of it."""
    n = math.floor(order)
    require(1 < order < 5000, f"a sampled Gaussian's divergence of order {float(order):g}", Unknown)
    if n != order:
        low = sampled_divergence(square, rate, Fraction(n)) * (n - 1) if n > 1 else 0
        high = sampled_divergence(square, rate, Fraction(n + 1)) * n
        return ((order - n) * high + (n + 1 - order) * low) / (order - 1)
    if square * n**2 > 400:
        return square * order / 2
    total, q, p = 0, fixed(rate) + 1, fixed(1 - rate) + 1
    for k in range(n + 1):
        chosen, left = (one**m << BITS >> BITS * m for one, m in ((q, k), (p, n - k)))
        weight = math.comb(n, k) * (chosen + 1) * (left + 1) >> BITS
        total += ((weight + 1) * exp(fixed(square * k * (k - 1) / 2) + 1) >> BITS) + 1
    return min(up(ln(total)) / (order - 1), square * order / 2)


# 5. Curves: delta at epsilon = x, where y = e^x

Function = Callable[[int, int], int]  # (x, y) -> delta, in units
Curve = tuple[Function, Function | None]  # for x >= 0; and for x < 0, where a pair's directions differ


def rows_curve(rows: Sequence[tuple[int, int]], infinite: int) -> Function:
    """Return the curve of losses, which decrease, each with its mass; in units."""
    above, below, places = [0], [0], [-loss for loss, _ in rows]
    for loss, mass in rows:
        above.append(above[-1] + mass)
        below.append(below[-1] + (mass * exp(-loss) >> BITS))

    def upper(x: int, y: int) -> int:
        place = bisect.bisect_left(places, -x)
        return infinite + above[place] - (y * below[place] >> BITS)

    return upper


@functools.cache
def curve(pair: Pair, relation: str) -> Curve:
    """Return a pair's curve; raise `Unknown` where it has none."""
    kind = pair[0]
    if kind == "sampled":
        return sampled(pair, relation)
    if kind == "gauss":
        return gaussian(pair[1]), None
    if kind in ("laplace", "range"):  # of all choices of a range (after Dong, Durfee and Rogers 2020)
        epsilon = fixed(pair[1]) + 1
        whole, half = exp(epsilon), exp(epsilon // 2)
        if kind == "laplace":
            return lambda x, _: ONE - exp((x - epsilon) // 2) if x < epsilon else 0, None
        return lambda x, _: (half - exp(x // 2)) ** 2 // (whole - ONE) if x < epsilon else 0, None
    if kind in ("response", "approx"):
        epsilon, extra = fixed(pair[1]), fixed(pair[2]) if kind == "approx" else 0
        parts = [exp(epsilon), (pair[2] - 2) * ONE if kind == "response" else 0, ONE]
        masses = [(ONE - extra) * part // sum(parts) for part in parts]
        return rows_curve(list(zip((epsilon, 0, -epsilon), masses, strict=True)), extra), None
    if kind == "discrete-laplace" and pair[1] <= 4096:  # the output, clamped to 0, ..., moves
        moves, step, ratio = pair[1], fixed(pair[2]), exp(-fixed(pair[2]))
        masses = [(ONE if k in (0, moves) else ONE - ratio) * exp(-step * k) for k in range(moves + 1)]
        rows = [((moves - 2 * k) * step, m // (ONE + ratio)) for k, m in enumerate(masses)]
        return rows_curve(rows, 0), None
    if kind == "discrete-laplace":
        return curve(("response", pure(pair), 2), relation)
    if kind == "discrete-gaussian" and pair[2] == 1 and Fraction(1, 100) < pair[1] < 2000:
        return discrete_gaussian(pair[1]), None
    if kind == "table":
        rows = [(fixed(loss), fixed(mass)) for loss, mass in reversed(pair[1]) if mass]
        return rows_curve(rows, fixed(pair[2])), None
    raise Unknown(f"the privacy curve of {kind} noise")


def gaussian(square: Fraction) -> Function:
    """Return the curve of N(mu, 1) against N(0, 1), by mu squared (Balle and Wang 2018, Theorem 8)."""
    mu = math.isqrt(fixed(square) << BITS)

    def upper(x: int, y: int) -> int:
        middle = (x << BITS) // max(mu, 1)
        beyond = y * tail(middle + mu // 2) >> BITS if y < ONE << 100 else 0  # if it is known well enough
        return max(0, tail(middle - mu // 2) - beyond) + (ONE + y >> 206) if mu else 0

    return upper


def discrete_gaussian(sigma: Fraction) -> Function:
    """Return the curve of discrete Gaussian noise moved by 1; losses beyond 15 sigma count as infinite."""
    step, last = fixed(1 / sigma**2), math.ceil(15 * sigma) + 1
    ratio, weights = exp(-step // 2), [ONE]
    while len(weights) <= last + 1:
        weights.append(weights[-1] * ratio >> BITS)
        ratio = ratio * exp(-step) >> BITS
    total, places = 2 * sum(weights[: last + 1]) - ONE, range(-last, last + 1)
    rows = [((1 - 2 * k) * step // 2, (weights[abs(k)] << BITS) // total) for k in places]
    return rows_curve(rows, 4 * math.ceil(sigma) * weights[-1] + (1 << 40))


def under(pair: Pair, relation: str) -> tuple[str, Pair, Pair]:
    """Return how a relation has a sampled pair, and the pairs of a unit's change and of its own part.

    mixture: (1 - q) Q + q P against Q, if a unit is added, removed, or zeroed in a Poisson sample of a sum.
    swap: both sides are mixtures. opposite: of Gaussian noise, with a bound on own parts; alone: without it.
    """
    _, how, change, own, rate, _, _, stated = pair
    sums = change[0] in ("gauss", "laplace", "discrete-laplace", "discrete-gaussian")
    bounded = how != "poisson-sampled"  # the number of units in a sample
    if relation == "add-or-remove-one" or (relation == "zero-out" and not bounded and sums):
        return "mixture", change if how == "fixed-size-sampled" else own, own
    if relation == "zero-out" and sums:
        change = max(change, own, key=lambda one: one[2] if one[0] == "discrete-gaussian" else one[1])
    if how == "fixed-size-sampled":
        return "swap", change, change
    if change[0] != "gauss" or bounded or rate == 1:
        return "swap", change, own
    if stated and own[1] <= change[1] and (2 * rate <= 1 or change[1] * TOLERANCE**2 >= 4 * own[1]):
        return "opposite", change, own
    return "swap" if stated and own[1] > change[1] else "alone", change, own


def sampled(pair: Pair, relation: str) -> Curve:
    """Return the curve of a mechanism on a secret sample in which a unit is with a probability q at most.

    mixture: delta'(log(1 + q (y - 1))) = q delta(x), for all y > 0 (Zhu, Dong and Wang 2022, Theorem 11).
    swap: with y' = 1 + q (y - 1) and b = y' / y, at most q times the smaller of (1 - b) delta_own(y) + b
    delta_change(y) and delta_change(y') (Balle, Barthe and Gaboardi 2018, Theorem 2, and convexity).
    """
    how, change, own = under(pair, relation)
    q: int = fixed(pair[4]) + (pair[4] < 1)
    if pair[1] == "truncated-poisson-sampled":
        return truncated(pair, relation)
    if how in ("alone", "opposite"):
        return curve(change, relation) if how == "alone" else (opposite(own[1], q), None)
    inner, outer = curve(change, relation)[0], curve(own, relation)[0]

    def upper(x: int, y: int) -> int:
        wide = ONE + ((y - ONE) << BITS) // q
        far = ln(wide)
        if how == "mixture" or change == own:
            return q * inner(far, wide) >> BITS
        share = (y << BITS) // wide
        parted = (ONE - share) * outer(far, wide) + share * inner(far, wide) >> BITS
        return q * min(parted, inner(x, y)) >> BITS

    def down(_: int, y: int) -> int:
        wide = ONE - ((ONE - y) << BITS) // q
        if wide <= ONE >> 64:
            return ONE - y
        return q * (ONE - wide + (inner(-ln(wide), (ONE << BITS) // wide) * wide >> BITS)) >> BITS

    return upper, down if how == "mixture" else None


def opposite(square: Fraction, q: int) -> Function:
    """Return the curve of (1 - q) N(0, 1) + q N(mu, 1) against the same of -mu: P - y Q beyond a point t.

    There the densities' ratio is y: q c w^2 - (1 - q) (y - 1) w - y q c = 0, w = e^(mu t), c = e^(-mu^2 / 2).
    """
    mu, rest, both = math.isqrt(fixed(square) << BITS), ONE - q, q * exp(-fixed(square / 2)) >> BITS
    require(mu < 14 * ONE, "a unit's part of more than 14 standard deviations in a Poisson sample", Unknown)

    def upper(_: int, y: int) -> int:
        linear = rest * (y - ONE) >> BITS
        w = ((linear + math.isqrt(linear**2 + (4 * both**2 * y >> BITS))) << BITS) // (2 * both)
        t = (ln(w) << BITS) // mu
        parted = q * tail(t - mu) - linear * tail(t) - (y * q >> BITS) * tail(t + mu) >> BITS
        return max(0, parted) + (ONE + y >> 204)

    return upper if mu else lambda _x, _y: 0


def truncated(pair: Pair, relation: str) -> Curve:
    """Return the curve of a Poisson sample of `units`, cut to `most`: by revealing whether others fill it.

    If k >= most do, a unit has a place with probability rate most / (k + 1), as in a sample of fixed size.
    """
    _, _, change, own, rate, most, units, _ = pair
    others, q, p = units - 1, fixed(rate), ONE - fixed(rate)
    share = term = ONE  # the probability of a full sample, a binomial tail that is added up from its start
    if most > others * rate and rate < 1:
        share = term = exp(ln(math.comb(others, most) << BITS) + most * ln(q) + (others - most) * ln(p))
        for k in range(most, others):
            term = term * (others - k) * q // ((k + 1) * p)
            share += term
    share = min(ONE, share + (share >> 50) + (units << 64))
    some = curve(("sampled", "poisson-sampled", change, own, rate, 0, 0, True), relation)
    crowd = ("sampled", "fixed-size-sampled", change, change, rate * most / (most + 1), 0, 0, True)
    many = curve(crowd, relation)

    def mixed(one: Function, other: Function) -> Function:
        return lambda x, y: (one(x, y) * ONE + share * max(0, other(x, y) - one(x, y)) >> BITS) + 1

    return mixed(some[0], many[0]), mixed(some[1], many[1]) if some[1] and many[1] else None


# 6. Discrete losses, and their sums

DIGITS = 36  # of a mass, which is a multiple of 1 / UNIT
UNIT = 10**DIGITS
SLOT = 2 * DIGITS + 4
LARGEST = 50  # losses above it count as infinite
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
Exposure = frozenset[tuple[Pair, int]]


#: The first of some losses, their masses, and that of infinite loss: losses are multiples of 1 / cells.
Losses = tuple[int, list[int], int]


@functools.lru_cache(1 << 18)
def power_of_e(i: int, cells: int) -> int:
    """Return e^(i / cells)."""
    return exp((i << BITS) // cells)


@functools.lru_cache(1 << 10)
def discrete(pair: Pair, relation: str, cells: int, spare: Fraction) -> list[Losses]:
    """Return a pair's two directions by the chords of its curve, up to where less than `spare` is left.

    A mass is a change of slope, rounded up; where a bound's slope falls, masses are only larger.
    """
    (upper, down), heights = curve(pair, relation), list[int]()
    while not heights or (heights[-1] > fixed(spare) + 1 and len(heights) <= LARGEST * cells):
        height = upper((len(heights) << BITS) // cells, power_of_e(len(heights), cells))
        heights.append(min(ONE, height, *heights[-1:]))
    last = len(heights) - 1
    points = [power_of_e(i, cells) for i in range(-last, last + 1)]
    below = [ONE - y + (heights[last - i] * y >> BITS) for i, y in enumerate(points[:last])]
    if down:
        below = [max(ONE - y, down(((i - last) << BITS) // cells, y)) for i, y in enumerate(points[:last])]
    heights = below + heights
    first, second, before = list[int](), list[int](), (heights[0] - ONE << BITS) // points[0]
    lost = max(0, ONE + before)  # the other side's mass where this one has none
    for i, y in enumerate(points):
        slope = (heights[i + 1] - heights[i] << BITS) // (points[i + 1] - y) if i < 2 * last else 0
        turn, before = max(0, slope - before), slope
        first.append((turn * y * UNIT >> 2 * BITS) + 2)
        second.append((turn * UNIT >> BITS) + 2)
    one = (-last, first, (heights[-1] * UNIT >> BITS) + 2)
    return [one, (-last, second[::-1], (lost * UNIT >> BITS) + 2) if down else one]


def product(one: Losses, other: Losses, spare: int) -> Losses:
    """Return both losses added up; up to `spare` becomes infinite at the top, and moves up at the bottom."""
    packed = [
        Decimal("".join([str(mass).zfill(SLOT) for mass in reversed(each[1])])) for each in (one, other)
    ]
    count, top, bottom, start = len(one[1]) + len(other[1]) - 1, 0, 0, 0
    fits = count < 300_000 and sum(one[1]) * sum(other[1]) < 10 ** (SLOT - 1)
    require(fits, "losses of so many cells, or of so much mass", Unknown)
    digits = str(EXACT.multiply(*packed)).zfill(count * SLOT)
    masses = [int(digits[at - SLOT : at - DIGITS]) + 1 for at in range(count * SLOT, 0, -SLOT)]
    while count > 1 and top + masses[count - 1] <= spare:
        count -= 1
        top += masses[count]
    while start < count - 1 and bottom + masses[start] <= spare:
        bottom += masses[start]
        start += 1
    masses[start] += bottom
    return one[0] + other[0] + start, masses[start:count], one[2] + other[2] + top


def power(loss: Losses, runs: int, spare: int) -> Losses:
    """Return a loss added up so many times; of mass at most `spare` is cut off, by halves."""
    if runs == 1:
        return loss
    half, rest = power(loss, runs // 2, spare // 3), max(1, spare // 6)
    return product(product(half, half, rest), loss, rest) if runs % 2 else product(half, half, rest)


@functools.lru_cache(64)
def compose(exposure: Exposure, relation: str, cells: int, delta: Fraction) -> list[Function]:
    """Return the curves of all that a unit is exposed to, by direction; a millionth of delta is cut off."""
    runs, gauss = Counter[Pair](), Fraction(0)
    for pair, count in exposure:
        alone = pair[0] == "sampled" and under(pair, relation)[0] == "alone"
        if alone or pair[0] in ("gauss", "sparse"):
            gauss += mu_squared(under(pair, relation)[1] if alone else pair) * count
        elif pair[0] == "discrete-gaussian" and 0 < pair[2] <= 3:  # up to 3 entries that move by 1, none by 2
            runs[pair[0], pair[1], 1] += count * pair[2]
        else:
            runs[pair] += count
    runs |= {("gauss", gauss): 1} if gauss or not runs else {}
    spare, found = delta / 10**6 / len(runs), list[Function]()
    parts = [(discrete(pair, relation, cells, spare / count), count) for pair, count in runs.items()]
    for side in range(1 if all(both[0] is both[1] for both, _ in parts) else 2):
        losses = [power(both[side], count, int(spare * UNIT)) for both, count in parts]
        while len(losses) > 1:  # as in a queue
            losses = [*losses[2:], product(losses[0], losses[1], int(spare * UNIT) // 2 + 1)]
        first, masses, infinite = losses[0]
        rows = [((first + i << BITS) // cells, (mass << BITS) // UNIT + 1) for i, mass in enumerate(masses)]
        found.append(rows_curve(rows[::-1], (infinite << BITS) // UNIT + (1 << 110)))
    return found


# 7. What one unit is exposed to, and the bounds that follow

Account = tuple[set[Exposure], str]  # all that a unit can be exposed to, and the relation for sampled pairs


def together(mechanisms: list[Record], relation: str) -> Pair:
    """Return the pair of all mechanisms on one sample: their mu^2, pure epsilons or rhos are added up."""
    each = [pair for mechanism in mechanisms for pair, _ in pairs_of(mechanism)]
    _, how, change, own, *rest, stated = each[0]
    both, replaced = [pair[2:4] for pair in each], how == "poisson-sampled" and relation == "replace-one"
    if all(one[0] == "gauss" for pair in both for one in pair):
        stated = (all if replaced else any)(pair[-1] for pair in each)
        change, own = (("gauss", sum(one[1] for one in side)) for side in zip(*both, strict=True))
        return ("sampled", how, change, own if stated else change, *rest, stated)
    try:
        change = "response", sum(max(map(pure, pair)) for pair in both), 2
    except Unknown:
        if how != "poisson-sampled" or replaced:
            raise Unknown("mechanisms of several kinds on one sample") from None
        change = "zcdp", sum(max(map(rho, pair)) for pair in both)
    return ("sampled", how, change, change, *rest, stated)


def text_of(value: Any) -> str:
    """Return a value as text, whatever the order of its fields."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@functools.cache
def seen(counts: frozenset[tuple[str | Pair, int]], units: int) -> Exposure:
    """Return how often pairs run: of mechanisms, which are texts, and of samples, which are pairs already."""
    found = Counter[Pair]()
    for key, count in counts:
        if units > 1 and not isinstance(key, str):
            raise Unknown(f"a sample for groups of {units}")
        for pair, times in pairs_of(json.loads(key), units) if isinstance(key, str) else [(key, 1)]:
            found[pair] += times * count
    return frozenset(found.items())


def added(*some: Exposure) -> Exposure:
    """Return several exposures as one."""
    return frozenset(sum((Counter(dict(one)) for one in some), Counter[Pair]()).items())


def account_of(header: Record, releases: list[Record]) -> Account:
    """Compose releases; of a split a unit is in one part, or in two where values decide, and may change."""
    relation, units = header["neighbouring"], 1 if "budget" in header else header["group_size"]
    places: dict[Any, Counter[Any]] = {None: Counter()}
    samples, draws = dict[Any, list[Record]](), dict[Any, Any]()
    by_values = [one for one in releases if one.get("partition", {}).get("by") == "values"]
    moving = {one["partition"]["split"] for one in by_values} if relation != "add-or-remove-one" else set()
    if moving and any({"size", "most"} & set(one["mechanism"]) for one in by_values):
        raise Unknown("a sample of bounded size from a part that a unit may leave")
    if moving and any(one["mechanism"]["kind"] in TRUSTED for one in by_values):
        relation = "replace-one"
    for place, release in enumerate(releases):
        own, name = release["mechanism"], release.get("sample", place)
        draw = [{**own, "mechanism": 0, "contribution": 0}, release["count"], release.get("partition")]
        if draws.setdefault(name, draw) != draw:
            raise Wrong(f"sample {name!r}: its releases state different draws")
        samples.setdefault(name, []).append(release)
    for several in samples.values():
        part, mechanisms = several[0].get("partition"), [one["mechanism"] for one in several]
        key = together(mechanisms, relation) if len(several) > 1 else text_of(mechanisms[0])
        places.setdefault(part and (part["split"], part["part"]), Counter())[key] += several[0]["count"]
    found = {seen(frozenset(places.pop(None).items()), units)}
    for split in dict.fromkeys(split for split, _ in places):
        parts = Counter(frozenset(counts.items()) for (of, _), counts in places.items() if of == split)
        touched, ways = units * (2 if split in moving else 1), set[Exposure]()
        alike = [(i, part) for part, many in parts.items() for i in range(min(many, touched))]
        for chosen in itertools.combinations_with_replacement(alike, min(touched, units * len(alike))):
            if max(Counter(chosen).values()) <= units:
                ways.add(added(*(seen(part, size) for (_, part), size in Counter(chosen).items())))
            if len(ways) * len(found) > 4096:
                raise Unknown("more than 4096 ways to meet the parts of the splits")
        found = {added(one, way) for one in found for way in ways}
    return found, relation


def total(account: Account, cost: Callable[[Pair], Fraction]) -> Fraction:
    """Return the largest sum of a cost that adds up."""
    return max(sum((cost(pair) * count for pair, count in one), Fraction(0)) for one in account[0])


def renyi(account: Account, order: Fraction) -> Fraction:
    """Return the largest Renyi divergence of an order."""
    return total(account, lambda pair: divergence(pair, order, account[1]))


def renyi_curve(account: Account) -> Function:
    """Return the curve by the best of many orders (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    lines = list[tuple[int, int]]()
    for order in (1 + Fraction(int(2**16 * 1.04**k), 2**18) for k in range(230)):
        height = (order - 1) * (renyi(account, order) + up(ln(fixed(1 - 1 / order))))
        lines.append((fixed(order - 1), fixed(height) - ln(fixed(order)) + 9))
    return lambda x, _: exp(min(0, *(height - (t * x >> BITS) for t, height in lines)))


def value_at(function: Function, epsilon: Any, delta: Any) -> Fraction:
    """Return a curve's delta at an epsilon; or, if that is None, the least epsilon at a delta."""
    if epsilon is not None:
        return up(function(fixed(epsilon), exp(fixed(epsilon))))
    wanted, low, high = fixed(delta * RAISED), 0, ONE  # delta to a part in 10^12
    if function(0, ONE) <= wanted:
        return Fraction(0)
    while function(high, exp(high)) > wanted:
        low, high = high, 2 * high
        if high > 2000 * ONE:
            raise Unknown(f"an epsilon at delta {float(delta):g}: losses above {LARGEST} are too likely")
    while high - low > high >> 36:
        middle = (low + high) // 2
        low, high = (low, middle) if function(middle, exp(middle)) <= wanted else (middle, high)
    return up(high)


def approximate(account: Account, epsilon: Any, delta: Any, enough: Fraction) -> tuple[Fraction, Any]:
    """Return the least known value as `value_at`, and what finer losses may take off it; None: anything.

    By mu, pure epsilon, Renyi orders, and losses of ever finer cells, until one gives `enough`.
    """
    found, pairs = list[Fraction](), {pair for one in account[0] for pair, _ in one}
    kinds = {pair[0] for pair in pairs}
    ways: list[Callable[[], Function]] = [lambda: gaussian(total(account, mu_squared))]
    ways += [lambda: curve(("response", total(account, pure), 2), "")[0]] if kinds != {"gauss"} else []
    ways += [lambda: renyi_curve(account)] if kinds & {"zcdp", "sparse", "range", "discrete-gaussian"} else []
    for way in ways:
        with contextlib.suppress(Unknown):
            found.append(value_at(way(), epsilon, delta))
        if found and (min(found) <= enough or kinds == {"gauss"}):
            return min(found), Fraction(0) if (epsilon or min(found)) < 60 else None  # see `gaussian`
    least, part, change = (delta, 2500, delta) if epsilon is None else (Fraction(1, 10**12), 100, epsilon)
    now = list[Fraction]()
    try:
        for cells in (2**k for k in range(5, 20)):
            functions = [each for one in account[0] for each in compose(one, account[1], cells, least)]
            now.append(max(value_at(each, epsilon, delta) for each in functions))
            change = abs(now[-1] - now[-2]) if now[1:] else now[-1]
            if now[-1] <= enough or change * part <= now[-1] or cells * (len(pairs) + 5) > 50_000:
                break
    except Unknown:
        if not found:
            raise
        finer = min(found) / (2000 if epsilon is None else 20)  # by orders in between
        return min(found), finer if kinds <= {"gauss", "zcdp", "discrete-gaussian"} else None
    loose = any(pair[0] == "range" or "truncated-poisson-sampled" in pair for pair in pairs)
    return min([now[-1], *found]), None if loose else 3 * change


def figure(account: Account, guarantee: Record, enough: Fraction) -> tuple[Fraction, Any]:
    """Return a bound on a guarantee's leading figure, and the rest as `approximate`."""
    kind = guarantee["kind"]
    if kind in ("approx-dp", "curve"):
        epsilon = Fraction(guarantee["epsilon"]) if kind == "curve" else None
        return approximate(account, epsilon, Fraction(guarantee["delta"]), enough)
    if kind == "rdp":
        order, exact = Fraction(guarantee["alpha"]), {"gauss", "zcdp", "discrete-gaussian", "laplace"}
        rough = any(pair[0] not in exact for one in account[0] for pair, _ in one)
        return renyi(account, order), None if rough else Fraction(0)
    if kind == "gdp":
        return up(math.isqrt(fixed(total(account, mu_squared)) + 1 << BITS)), Fraction(0)
    return total(account, pure if kind == "pure-dp" else rho), Fraction(0)


# 8. What is taken on trust

#: What figures of mechanisms rest on, beside a declared sensitivity.
RESTS_ON = table("""hidden-sample: poisson-sampled fixed-size-sampled truncated-poisson-sampled
    sampled-records mixture-of-gaussians; hidden-turns: sampled-matrix random-allocation;
    justified-guarantee: pure-dp approx-dp zcdp tabulated; one-answer-per-unit: randomized-response shuffled;
    score-sensitivity: exponential report-noisy-max; stream-places: tree-aggregation;
    stream-participations: matrix; independent-trials: private-selection; smooth-bound: smooth-gaussian""")
FRESH = ("fresh-samples", None)
NOT_DRAWN = {*RESTS_ON["justified-guarantee"].split(), "mixture-of-gaussians"}  # exactly, by dpaudit


def rests_on(mechanism: Record, drawn: object) -> Iterator[tuple[str, Any]]:
    """Yield the codes and texts of what figures rest on; `drawn`: whether a curator drew the sample."""
    kind, basis = mechanism["kind"], basis_of(mechanism)
    if basis == "declared":
        yield "declared-sensitivity", None
    yield from ((code, mechanism.get("justification")) for code in RESTS_ON if kind in RESTS_ON[code].split())
    if kind in ON_SAMPLE and not (drawn and (basis == "mapped" or kind == "sampled-records")):
        yield "sample-summed", None
    inside = [mechanism[name] for name in ("mechanism", "local") if name in mechanism]
    for one in [*inside, *(part["mechanism"] for part in mechanism.get("releases", ()))]:
        yield from rests_on(one, drawn)


def basis_of(mechanism: Record) -> Any:
    """Return what shows the sensitivity of a mechanism, or of the one inside it; None: it has none."""
    return mechanism.get("mechanism", mechanism).get("sensitivity", {}).get("basis")


def in_floating_point(ledger: Ledger) -> bool:
    """Return whether some release's noise was drawn in floating point."""
    kinds, sampler = {one["mechanism"]["kind"] for one in ledger.releases}, ledger.header["noise"]["sampler"]
    if sampler == "numpy-float64":
        return not kinds <= {"discrete-gaussian", "discrete-laplace"}
    return sampler == "dpaudit-exact" and bool(kinds & NOT_DRAWN)


def conditions(ledger: Ledger, certificate: Record) -> Iterator[Record]:
    """Yield every condition that follows from the ledger, and from what the certificate's sections say."""
    header, releases, audits = ledger.header, ledger.releases, certificate["audits"]
    process, labels, runs = certificate["process"], dict[tuple[str, Any], list[str]](), 0
    replays = [one for one in audits if one["method"] == "replay" and not one["inconclusive"]]
    untested = any(left["code"] == "samples-untested" for one in replays for left in one["not_checked"])
    for release in releases:
        mechanism, label = release["mechanism"], release["label"]
        own = mechanism.get("mechanism", mechanism)["kind"] in NOT_DRAWN  # drawn by the algorithm's own code
        drawn = ("run" in header or header["noise"]["seeded"]) and not own
        for one in dict.fromkeys(rests_on(mechanism, drawn)):
            labels.setdefault(one, []).append(label)
        if mechanism["kind"] in ON_SAMPLE and not drawn:
            runs += release["count"]
            labels.setdefault(FRESH, []).extend([label] if "sample" not in release else [])
    for (code, text), names in labels.items():
        first = list(dict.fromkeys(names))
        which = {"number": len(names), "labels": sorted(first[:5]), "more_labels": len(first) > 5}
        found = {"code": code, "releases": which} | ({"text": text} if text is not None else {})
        found |= {"replayed": bool(replays) and not untested} if code == "sample-summed" else {}
        yield from [found] if names and (runs > 1 or (code, text) != FRESH) else []
    codes = {f"split-by-{one['partition']['by']}" for one in releases if "partition" in one}
    codes |= {"records-stop-nothing", "in-process" if process["kind"] == "in-process" else "honest-worker"}
    if process["kind"] == "twin":
        yield {"code": "public-stand-in", "text": process.get("stand_in", "")}
        mapped = all(basis_of(one["mechanism"]) == "mapped" for one in releases)
        codes |= {"nothing-shared", "mapped-records" if mapped else "own-record"}
    else:
        yield {"code": "only-through-ledger", "replayed": bool(replays)}
        yield from [{"code": "fixed-sequence", "replayed": bool(replays)}] * (header["schedule"] == "fixed")
    cases = [(header["noise"]["seeded"], "seeded-noise"), (in_floating_point(ledger), "floating-point-noise")]
    codes |= {code for applies, code in (*cases, (not audits, "no-audit")) if applies}
    yield from ({"code": code} for code in sorted(codes))
    trusted, own = header["parameters"].get("taken on trust"), certificate["statement"]["assumptions"]
    claimed = certificate["claim"]["assumptions"]
    for code, texts in (("stated", trusted), ("assumed", claimed), ("assumed", own)):
        yield from ({"code": code, "text": text} for text in (texts if isinstance(texts, list) else ()))
    for one in audits:
        yield from one["not_checked"]
        if verdict_of(one) == "INCONCLUSIVE":
            why = f"{one['method']}: {'; '.join(one['inconclusive'])}"
            yield {"code": "audit-judged-nothing", "text": why}
    if certificate.get("second_opinion", {}).get("agrees") is False:
        yield {"code": "accountants-disagree", "accountant": certificate["second_opinion"]["method"]}


# 9. The certificate


def leading(guarantee: Record) -> Fraction:
    """Return the number that a guarantee, or a point of a curve, is about."""
    names = {"zcdp": "rho", "gdp": "mu", "curve": "delta"}
    return Fraction(guarantee[names.get(guarantee["kind"], "epsilon")])


def verdict_of(audit: Record) -> str:
    """Return the verdict that follows from an audit's own figures."""
    mu = (audit.get("claim") or {}).get("guarantee", {}).get("mu")
    pairs = [("epsilon_lower", audit.get("epsilon_claimed")), ("mu_lower", mu)]
    above = [audit[low] > most * (1 + 1e-9) for low, most in pairs if None not in (audit.get(low), most)]
    above.append("confidence" in audit and audit.get("p_value", 1) <= 1 - audit["confidence"])
    lacking = "INCONCLUSIVE" if audit["inconclusive"] else "NOT_REFUTED"
    return "REFUTED" if audit["findings"] or any(above) else lacking


def meets(one: Record, other: Record) -> bool:
    """Return whether a guarantee is at least as strong as another, on the same scale."""
    same = one["kind"] == other["kind"] or (one["kind"], other["kind"]) == ("pure-dp", "approx-dp")
    pairs = [(leading(one), leading(other)), (one.get("delta", 0), other.get("delta", 0))]
    pairs.append((other.get("alpha", 0), one.get("alpha", 2)))
    return same and all(float(low) <= float(high) * (1 + 1e-9) for low, high in pairs)


def compared(account: Account, guarantee: Record, about: str, close: Fraction = TOLERANCE) -> Answer:
    """Compare a figure with the bound here; it holds if the bound is larger by a factor `close` at most."""
    stated = max(leading(guarantee), Fraction(1, 10**11) if guarantee["kind"] == "curve" else 0)
    about += f": {guarantee['kind']} " + " ".join(f"{k} {v:.9g}" for k, v in guarantee.items() if k != "kind")
    try:
        own, finer = figure(account, guarantee, stated * TOLERANCE)
        above = float(own / stated - 1) if stated else math.inf
        words = f"the bound here is {float(own):.9g}, {above:.3%} above it"
    except (Unknown, OverflowError) as error:
        return UNKNOWN, about, f"no bound is known here on {error}"
    if own <= stated * TOLERANCE:
        return HOLDS, about, ""
    fails = finer is not None and stated < own - finer
    return FAILS if fails else HOLDS if own <= stated * close else UNKNOWN, about, words


def figures_of(ledger: Ledger, certificate: Record) -> Iterator[Answer]:
    """Yield an answer about the claim, each bound, each release and each curve."""
    header, claim, ones = ledger.header, certificate["claim"]["guarantee"], dict[str, Answer]()
    account = account_of(header, ledger.releases)
    if budget := header.get("budget"):
        yield compared(account, budget, "the budget")
        held, size = leading(budget) * TOLERANCE / RAISED, header["group_size"]  # what a filter lets through
        pairs: dict[str, Pair] = {"zcdp": ("zcdp", held * size**2), "pure-dp": ("response", held * size, 2)}
        pairs["gdp"] = "gauss", (held * size) ** 2
        require(budget["kind"] in pairs, f"what a budget of the kind {budget['kind']} implies", Unknown)
        account = {frozenset({(pairs[budget["kind"]], 1)})}, ""
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    given = certificate["claim"]["premises"]
    premises = [compare[one["relation"]](one["left"], one["right"]) for one in given]
    proved = all(premises) and any(meets(bound["guarantee"], claim) for bound in certificate["bounds"])
    if certificate["proof"] != ("PROVED" if proved else "NOT_PROVED"):
        yield FAILS, f"proof: {certificate['proof']}", "the bounds and premises say otherwise"
    if proved:
        yield compared(account, claim, "the claim")
    for bound in certificate["bounds"]:
        yield compared(account, bound["guarantee"], f"the bound by {bound['method']}", Fraction(101, 100))
    alone = {name: header[name] for name in header if name != "budget"}
    for release in certificate["releases"]:
        bare, claimed = {"mechanism": release["mechanism"], "count": release["count"]}, release.get("claimed")
        about, key = f"release {release['label']!r}", text_of([bare, release["proved"]])
        if key not in ones:
            ones[key] = compared(account_of(alone, [bare]), release["proved"], "", Fraction(101, 100))
        yield ones[key][0], about + ones[key][1], ones[key][2]
        if claimed and (release["verdict"] == "PROVED") != meets(release["proved"], claimed):
            yield FAILS, f"{about}: {release['verdict']}", "its own figures say otherwise"
    for stated in certificate["profile"]:
        about, worst = f"the curve by {stated['method']}", [(HOLDS, "", "")]
        for epsilon, delta in stated["points"]:
            point = {"kind": "curve", "epsilon": epsilon, "delta": delta}
            worst.append(compared(account, point, about, Fraction(11, 10)))
        worst.sort(key=lambda one: RANK[one[0]])
        yield worst[0][0], about, worst[0][2]


def fields_of(ledger: Ledger, certificate: Record) -> Iterator[Answer]:
    """Yield what does not follow from the ledger, or from the certificate's own sections, beside figures."""
    header, claim, audits = ledger.header, certificate["claim"], certificate["audits"]
    noise, bounds, releases = header["noise"], certificate["bounds"], certificate["releases"]
    own = header.get("claim", {"view": claim["view"], "premises": [], "assumptions": []})
    bare = [{name: one[name] for name in one if name not in ("proved", "verdict")} for one in releases]
    lower = [one.get("at_least", 0) <= leading(one["guarantee"]) for one in bounds]
    verdicts, order = [verdict_of(one) for one in audits], ["REFUTED", "INCONCLUSIVE", "NOT_REFUTED"]
    proved = certificate["proof"] == "PROVED" and all(one.get("verdict") != "NOT_PROVED" for one in releases)
    experiment = min(verdicts or ["INCONCLUSIVE"], key=order.index)
    fit = proved and experiment != "REFUTED" and not noise["seeded"] and "diverged" not in certificate
    numerics = {"sampler": noise["sampler"], "seeded": noise["seeded"], "claim_tolerance": 1e-9}
    repeated = ("algorithm", "group_size", "budget", "parameters")
    exact = noise["sampler"] == "dpaudit-exact"
    grids = [grid_of(one["mechanism"]) if exact else one.get("grid") for one in releases]
    judged = [one["claim"]["guarantee"] for one in audits if one.get("claim")]
    expected: list[tuple[str, Any, Any]] = [
        *((name, certificate.get(name), header.get(name)) for name in repeated),
        *(
            (name, [certificate[name], claim.get(name)], [header[name]] * 2)
            for name in ("unit", "neighbouring", "trust_model")
        ),
        ("claim.view", [claim["view"], certificate["view"]], [own["view"]] * 2),
        ("schema", certificate["schema"], "dpaudit.certificate/2"),
        ("ledger_hash", certificate["ledger_hash"], ledger.digest),
        ("numerics", certificate["numerics"], numerics | {"floating_point": in_floating_point(ledger)}),
        ("releases: their number", len(releases), len(ledger.releases)),
        *((f"release {b['label']!r}", a, b) for a, b in zip(bare, ledger.releases, strict=False)),
        ("releases: their grids", [one.get("grid") for one in releases], grids),
        ("bounds: their order", bounds, sorted(bounds, key=lambda one: leading(one["guarantee"]))),
        ("bounds: their ends", [all(lower), {one["direction"] for one in bounds} <= {"upper"}], [True, True]),
        ("audits: their verdicts", [one["verdict"] for one in audits], verdicts),
        ("audits: their claims", judged, [claim["guarantee"]] * len(judged)),
        ("experiment", certificate["experiment"], experiment),
        ("publishable", certificate["publishable"], fit),
    ]
    for about, stated, wanted in expected:
        if stated != wanted:
            yield FAILS, about, f"it is {text_of(stated)[:80]}, and should be {text_of(wanted)[:80]}"
    lacking = [one for name in ("premises", "assumptions") for one in own[name] if one not in claim[name]]
    yield from ((FAILS, "claim", f"the ledger's claim has {text_of(one)}") for one in lacking)
    for one in conditions(ledger, certificate):
        if one not in certificate["not_checked"]:
            yield FAILS, f"not_checked: it lacks {one['code']}", text_of(one)[:200]


def answers(certificate_text: bytes, ledger_text: bytes) -> list[Answer]:
    """Return every answer about a certificate and its ledger, the worst ones first."""
    found = list[Answer]()
    try:
        ledger = read_ledger(ledger_text)
        found.append((HOLDS, f"the ledger: {len(ledger.releases)} releases and their hash chain", ""))
        certificate = filled(parse(certificate_text), RECORDS["certificate"], "certificate")
        found += fields_of(ledger, certificate)
        found += figures_of(ledger, certificate)
        stated, own = certificate.get("checks"), checks(found)
        if stated and stated != own:
            answer = FAILS if stated["sha256"] == own["sha256"] else UNKNOWN  # of another version
            found.append((answer, "checks", f"it is {text_of(stated)[:200]}, and should be {text_of(own)}"))
    except Wrong as error:
        found.append((FAILS, *str(error).partition(": ")[::2]))
    except Unknown as error:
        found.append((UNKNOWN, "the bounds", f"none is known here on {error}"))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, ArithmeticError) as error:
        found.append((FAILS, "a field", f"one is missing or has another type: {error!r}"))
    return sorted(found, key=lambda one: RANK[one[0]])


def checks(found: list[Answer]) -> Record:
    """Return what a certificate keeps: the claim that holds, and this file, with its non-blank lines."""
    text, start = Path(__file__).read_bytes(), "the claim: "
    file: Record = {"version": VERSION, "sha256": hashlib.sha256(text).hexdigest()}
    file["lines"] = sum(line.strip() != b"" for line in text.splitlines())
    kept = [about.removeprefix(start) for answer, about, _ in found if answer == HOLDS and start in about]
    return {"confirmed": kept[0] if kept else NOTHING, **file}


def main(arguments: Sequence[str]) -> int:
    """Print the answers; return 0 if all hold, 1 if one does not, 4 if one is not checked, 2 for bad use."""
    try:
        certificate, ledger = (Path(name).read_bytes() for name in arguments)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\nusage: checker.py certificate.json ledger.jsonl\n")
        return 2
    found = answers(certificate, ledger)
    for answer, about, words in found:
        sys.stdout.write(f"{answer:14} {about}" + (f": {words}\n" if words else "\n"))
    sys.stdout.write(f"{found[0][0]}\n")
    return {HOLDS: 0, FAILS: 1, UNKNOWN: 4}[found[0][0]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
