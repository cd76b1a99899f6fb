"use strict";
/* Check a certificate against its ledger: `node checker.js certificate.json ledger.jsonl`, or inside a report.

The logic is that of checker.py, written a second time, with the language's own integers and no library. An
answer is "holds", "does not hold" or "not checked"; checker.py says what each means. Numbers are multiples of
2^-224, and ONE is 1. Functions are good to a few hundred of these units; costs, masses and figures are
rounded to the safe side by far more. */

const HOLDS = "holds", FAILS = "does not hold", UNKNOWN = "not checked";
const RANK = { [FAILS]: 0, [UNKNOWN]: 1, [HOLDS]: 2 };

class Wrong extends Error {} // the ledger or the certificate states something that does not hold
class Unknown extends Error {} // no bound is known here

function require_(right, words, error = Wrong) {
  if (!right) throw new error(words);
}

// 1. Numbers

const BITS = 224n, GUARD = BITS + 64n, ONE = 1n << BITS;
const LN2 = 0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D8A0D175B8BAAFA2BE7B87620n; // of 2^-GUARD
const DENSITY = 0x662114CF50D942343F2CF1402EAE38BFD3829F30512706D8C0471B48n; // 1 / sqrt(2 pi)

const abs = (x) => (x < 0n ? -x : x);
const least = (...all) => all.reduce((a, b) => (b < a ? b : a));
const most = (...all) => all.reduce((a, b) => (b > a ? b : a));

/** The quotient, rounded down; the language's own is rounded to zero. */
function div(a, b) {
  const quotient = a / b;
  return quotient * b !== a && a < 0n !== b < 0n ? quotient - 1n : quotient;
}

function bitLength(x) {
  const digits = x.toString(16);
  return x === 0n ? 0 : 4 * digits.length - Math.clz32(parseInt(digits[0], 16)) + 28;
}

/** The square root, rounded down, by Newton's steps. */
function root(x) {
  if (x < 2n) return x;
  let now = 1n << BigInt((bitLength(x) + 1) >> 1);
  for (;;) {
    const next = (now + x / now) >> 1n;
    if (next >= now) return now;
    now = next;
  }
}

/** An exact fraction of two integers, in lowest terms. */
class Fraction {
  constructor(n, d = 1n) {
    let [a, b] = [abs(n), d];
    if (d > 1n && (d & (d - 1n)) === 0n) [a, b] = [least(a & -a || d, d), 0n]; // a power of two
    while (b) [a, b] = [b, a % b];
    [this.n, this.d] = a > 1n ? [n / a, d / a] : [n, d];
  }
  /** The exact value of a number. */
  static of(x) {
    if (x instanceof Fraction) return x;
    if (typeof x === "bigint") return new Fraction(x);
    if (typeof x !== "number" || !Number.isFinite(x)) throw new TypeError(`${x} is no number`);
    let shift = 0n;
    while (!Number.isInteger(x)) [x, shift] = [x * 2, shift + 1n];
    return new Fraction(BigInt(x), 1n << shift);
  }
  get key() { return `${this.n.toString(36)}/${this.d.toString(36)}`; }
  plus(x) { x = Fraction.of(x); return new Fraction(this.n * x.d + x.n * this.d, this.d * x.d); }
  minus(x) { return this.plus(Fraction.of(x).times(-1n)); }
  times(x) { x = Fraction.of(x); return new Fraction(this.n * x.n, this.d * x.d); }
  over(x) {
    x = Fraction.of(x);
    if (x.n === 0n) throw new TypeError("a division by zero");
    return x.n < 0n ? new Fraction(-this.n * x.d, -this.d * x.n) : new Fraction(this.n * x.d, this.d * x.n);
  }
  square() { return this.times(this); }
  less(x) { x = Fraction.of(x); return this.n * x.d < x.n * this.d; }
  atMost(x) { return !Fraction.of(x).less(this); }
  is(x) { x = Fraction.of(x); return this.n === x.n && this.d === x.d; }
  floor() { return div(this.n, this.d); }
  ceil() { return -div(-this.n, this.d); }
  /** The nearest double. */
  number() {
    const shift = 66 + bitLength(this.d) - bitLength(abs(this.n));
    const [n, d] = shift > 0 ? [abs(this.n) << BigInt(shift), this.d] : [abs(this.n), this.d << BigInt(-shift)];
    const half = Math.trunc(shift / 2), found = Number((n / d) | (n % d ? 1n : 0n));
    return (this.n < 0n ? -1 : 1) * found * 2 ** -half * 2 ** (half - shift);
  }
}

const F = (n, d) => Fraction.of(n).over(d ?? 1n);
const smallest = (all) => all.reduce((a, b) => (b.less(a) ? b : a));
const largest = (all) => all.reduce((a, b) => (a.less(b) ? b : a));
const TOLERANCE = F(1n, 10n ** 9n).plus(1n); // a bound meets a figure that it exceeds by no larger factor
const RAISED = F(1n, 10n ** 12n).plus(1n); // more than a sum of doubles is off

/** Arguments as text, by which results are kept. */
function keyOf(value) {
  if (Array.isArray(value)) return (value.key ??= `(${value.map(keyOf).join()})`);
  return value instanceof Fraction || value?.key !== undefined ? value.key : String(value);
}

function kept(compute) {
  const found = new Map();
  return (...inputs) => {
    const key = inputs.map(keyOf).join("|");
    if (!found.has(key)) found.set(key, compute(...inputs));
    return found.get(key);
  };
}

/** A number in units, rounded down. */
function fixed(number) {
  const exact = Fraction.of(number);
  return div(exact.n << BITS, exact.d);
}

/** Units as a fraction, raised by far more than functions are off. */
const up = (value) => new Fraction(value + (abs(value) >> 150n) + (1n << 32n), ONE);

/** e^x: x less a multiple of ln 2, over 2^8, in the series; then squared 8 times. */
function exp(x) {
  const shift = div(x << 64n, LN2), part = ((x << 64n) - shift * LN2) >> 8n;
  let total = (1n << GUARD) + part, term = part;
  for (let n = 2n; term; n++) {
    term = ((term * part) >> GUARD) / n;
    total += term;
  }
  for (let i = 0; i < 8; i++) total = (total * total) >> GUARD;
  return shift > 64n ? total << (shift - 64n) : total >> (64n - shift);
}

/** The logarithm of y > 0, by two of Halley's steps, each of which triples the digits. */
function ln(y) {
  const shift = BigInt(bitLength(y) - 1) - BITS, reduced = y >> shift;
  let x = BigInt(Math.trunc(Math.log(Number(reduced) * 2 ** -224) * 2 ** 60)) << (BITS - 60n);
  for (let i = 0; i < 2; i++) {
    const power = exp(x);
    x += div((2n * (reduced - power)) << BITS, reduced + power);
  }
  return x + ((shift * LN2) >> 64n);
}

/** z = k / 32, the normal density there, and the tail beyond, by a series of positive terms. */
const anchor = kept((k) => {
  const z = (k << BITS) / 32n, inverse = exp(((z * z) >> BITS) / 2n);
  let total = 0n;
  for (let term = z, n = 1n; term; n += 2n) {
    total += term;
    term = (((term * z) >> BITS) * z) / ((n + 2n) << BITS);
  }
  return [z, (DENSITY << BITS) / inverse, ONE / 2n - (total * DENSITY) / inverse];
});

/** P(N > z) of a standard normal N, by the series of e^(-z s - s^2/2) from the next k / 32. */
function tail(z) {
  if (z < 0n) return ONE - tail(-z);
  if (z >= 18n << BITS) return 0n; // less than 2^-230
  const [at, density, beyond] = anchor((32n * z + ONE / 2n) >> BITS), t = z - at;
  let power = t, before = ONE, coefficient = -at, total = t;
  for (let n = 1n; abs(power) > 1n; n++) {
    power = (power * t) >> BITS;
    total += div((coefficient * power) >> BITS, n + 1n);
    [before, coefficient] = [coefficient, div(-(((at * coefficient) >> BITS) + before), n + 1n)];
  }
  return beyond - ((density * total) >> BITS);
}

function binomial(n, k) {
  let found = 1n;
  for (let i = 1n; i <= k; i++) found = (found * (n - k + i)) / i;
  return found;
}

// 2. The ledger

/** SHA-256 of bytes, in hexadecimal digits (FIPS 180-4). */
const sha256 = (() => {
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  /** The first 32 bits behind the point of a root of a prime. */
  const bits = (p, power) => {
    let [low, high] = [0n, 1n << 40n]; // the root of p 2^(32 power), rounded down
    while (high - low > 1n) {
      const middle = (low + high) / 2n;
      [low, high] = middle ** power <= BigInt(p) << (32n * power) ? [middle, high] : [low, middle];
    }
    return Number(low & 0xFFFFFFFFn) | 0;
  };
  const K = primes.map((p) => bits(p, 3n)), START = primes.slice(0, 8).map((p) => bits(p, 2n));
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  return (bytes) => {
    const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6), w = new Int32Array(64);
    padded.set(bytes);
    padded[bytes.length] = 128;
    const view = new DataView(padded.buffer), state = Int32Array.from(START);
    view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
    for (let block = 0; block < padded.length; block += 64) {
      for (let i = 0; i < 64; i++) {
        if (i < 16) {
          w[i] = view.getInt32(block + 4 * i);
          continue;
        }
        const [x, y] = [w[i - 15], w[i - 2]];
        w[i] = w[i - 16] + w[i - 7] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3));
        w[i] += turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let i = 0; i < 64; i++) {
        const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
        const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((x, i) => (state[i] += x));
    }
    return Array.from(state, (x) => (x >>> 0).toString(16).padStart(8, "0")).join("");
  };
})();

/** The entries of a text: "name: words; name: words". */
function table(text) {
  const entries = text.trim().split(/\s+/).join(" ").split("; ");
  return new Map(entries.map((entry) => entry.split(": ")));
}

// The fields of each record; those with a default, in JSON, or with "?" may be left out.
const RECORDS = table(`header: schema algorithm unit neighbouring trust_model="central" schedule="fixed" budget?
  group_size=1 users? claim? run? parameters={} noise={};
  release: label mechanism count=1 partition? grid? claimed? sample?; footer: releases;
  claim: guarantee unit? neighbouring? trust_model? view="all-releases" premises=[] assumptions=[];
  noise: source="live" sampler="numpy-float64" seeded=false; partition: part split="split" by="position";
  sensitivity: value norm basis="declared"; certificate: schema claim view ledger_hash bounds profile
  releases proof audits numerics not_checked versions command statement second_opinion? process diverged?
  checks? experiment sampling publishable budget? algorithm unit neighbouring trust_model group_size
  parameters`);
const GUARANTEES = table("pure-dp: epsilon; approx-dp: epsilon delta; zcdp: rho; rdp: alpha epsilon; gdp: mu");
// After a slash stand the norms of a sensitivity; an opaque mechanism's may be any.
const MECHANISMS = table(`gaussian: sensitivity/l2 sigma; laplace: sensitivity/l1 scale; exponential: epsilon;
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
  tabulated: losses probabilities infinity=0 justification sensitivity?`);
const CHOICES = table(`neighbouring: add-or-remove-one replace-one zero-out; trust_model: central local joint;
  schedule: fixed filtered; source: live; sampler: dpaudit-exact numpy-float64 opendp-discrete;
  by: position values; basis: proved clipped declared mapped`);
const RANGES = [
  ["value epsilon rho mu infinity", (x) => x >= 0],
  ["sigma scale contribution", (x) => x > 0],
  ["rate", (x) => 0 < x && x <= 1],
  ["delta", (x) => 0 < x && x < 1],
  ["categories", (x) => x > 1],
  [`count group_size users steps dimension participations separation categories answers changes size units most
    records`, (x) => x >= 1 && Number.isInteger(x)],
].map(([names, test]) => [names.split(/\s+/), test]);
const TEXTS = ["algorithm", "unit", "label", "sample", "justification"];
const ON_SAMPLE = ["poisson-sampled", "fixed-size-sampled", "truncated-poisson-sampled", "sampled-records"];
// Mechanisms whose figures need somebody who is trusted with the data.
const TRUSTED = [...ON_SAMPLE, "sampled-matrix", "mixture-of-gaussians", "random-allocation", "shuffled",
  "key-selection"];

const has = (object, name) => Object.hasOwn(object, name);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const same = (left, right) => textOf(left) === textOf(right);

/** A field that must be there. */
function need(object, name) {
  if (!isObject(object) || !has(object, name)) throw new TypeError(`${name} is missing`);
  return object[name];
}

function list(value) {
  if (!Array.isArray(value)) throw new TypeError(`${textOf(value).slice(0, 60)} is no list`);
  return value;
}

/** The value; raises Wrong for a repeated field, and for a number that no finite double is. */
function parse(text) {
  require_(text !== undefined, "no JSON: it is not UTF-8");
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Wrong(`no JSON: ${error.message}`);
  }
  const open = [];
  for (const [token] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(?:\s*:)?|[{}[\]]|-?\d[-+.\deE]*/g)) {
    if (token === "{" || token === "[") open.push(new Set());
    else if (token === "}" || token === "]") open.pop();
    else if (token.endsWith(":")) {
      const name = JSON.parse(token.slice(0, -1)), names = open.at(-1);
      require_(!names.has(name), "a field is repeated in one object");
      names.add(name);
    } else if (token[0] !== '"') require_(Number.isFinite(Number(token)), `${token} is not a finite number`);
  }
  return value;
}

/** An object with its defaults; raises Wrong for an unknown, missing or impossible field. */
function filled(value, fields, where) {
  if (!isObject(value)) throw new TypeError(`${where} is no object`);
  const found = {};
  for (const entry of fields.split(" ")) {
    const [marked, fallback] = entry.split(/=(.*)/), [name, ...norms] = marked.replace(/\?$/, "").split("/");
    if (has(value, name) || fallback) {
      found[name] = known(name, has(value, name) ? value[name] : JSON.parse(fallback), where);
      const fits = !norms.length || norms.includes(found[name].norm);
      require_(fits, `${where}: not in ${norms.join(" or ")}`);
    }
    require_(has(found, name) || marked.endsWith("?"), `${where}: the field ${name} is missing`);
  }
  const left = Object.keys(value).filter((name) => !has(found, name)).sort();
  require_(!left.length, `${where}: unknown field [${left.slice(0, 1).map(quoted)}]`);
  return found;
}

/** The value of a field with its defaults; raises Wrong for one that the field cannot have. */
function known(name, value, where) {
  where = `${where}.${name}`;
  let right = true;
  const tests = RANGES.filter(([names]) => names.includes(name)).map(([, test]) => test);
  if (["mechanism", "local", "guarantee", "claimed", "budget"].includes(name)) {
    const kinds = name === "mechanism" || name === "local" ? MECHANISMS : GUARANTEES;
    const kind = need(value, "kind"), inner = where.endsWith("mechanism.mechanism");
    require_(kinds.has(kind) || kinds === GUARANTEES, `a ${kind} mechanism`, Unknown);
    require_(kinds.has(kind) && !(inner && TRUSTED.includes(kind)), `${where}: ${kind} is impossible here`);
    value = filled(value, `kind ${kinds.get(kind)}`, where);
    if (kind === "tabulated") tabulated(value);
    right = !(value.size > value.units) && (kind !== "rdp" || value.alpha > 1);
  } else if (RECORDS.has(name)) {
    value = filled(typeof value === "string" ? { part: value } : value, RECORDS.get(name), where);
  } else if (CHOICES.has(name)) {
    right = typeof value === "string" && CHOICES.get(name).split(" ").includes(value);
  } else if (name === "monotone" || name === "seeded") right = typeof value === "boolean";
  else if (name === "parameters") right = isObject(value);
  else if (name === "run") right = typeof value === "string" && /^[0-9a-f]{32}$/.test(value);
  else if (TEXTS.includes(name)) right = typeof value === "string" && value.trim() !== "";
  else if (tests.length) right = typeof value === "number" && tests.every((test) => test(value));
  if (name === "sample" && right) { // as Unicode has it once, in characters that are seen
    right = value === value.normalize("NFC").trim().split(/\s+/u).join(" ") && !/\p{C}|[^\P{Z} ]/u.test(value);
  }
  require_(right, `${where}: ${String(value).slice(0, 60)} is impossible`);
  return value;
}

/** Read a ledger, every line against its hash; raises Wrong with what is not as it was written. */
function readLedger(text) {
  require_(text !== undefined, "the ledger: it is not UTF-8");
  const lines = text.split("\n"), end = lines.pop(), records = [];
  let digest = "";
  lines.forEach((line, i) => {
    const kind = i === 0 ? "header" : i === lines.length - 1 ? "footer" : "release";
    const where = `ledger line ${i + 1}`, at = line.lastIndexOf(',"hash":"');
    const body = `${line.slice(0, Math.max(at, 0))}}`;
    digest = sha256(new TextEncoder().encode(digest + body));
    const follows = at >= 0 && line.slice(at) === `,"hash":"${digest}"}`;
    require_(follows, `${where}: its hash does not follow from the lines so far`);
    const { record, ...value } = parse(body);
    require_(record === kind, `${where}: not the ${kind} that should be here`);
    records.push(filled(value, RECORDS.get(kind), where));
  });
  const whole = !end && records.length > 1 && records.at(-1).releases === records.length - 2;
  require_(whole, "the ledger: it was cut short, or its footer counts others");
  const header = records[0], releases = records.slice(1, -1), trust = header.trust_model, draws = new Map();
  require_(header.schema === "dpaudit.ledger/1", `header.schema: ${quoted(header.schema)} is not known here`);
  require_((header.schedule === "filtered") === has(header, "budget"), "header.budget: a filter has one");
  require_(trust === "local" || !has(header, "users"), "header.users: they are those of local trust");
  for (const name of ["unit", "neighbouring", "trust_model"]) {
    require_((header.claim?.[name] ?? header[name]) === header[name], "header.claim: it is about another ledger");
  }
  for (const release of releases) {
    const kind = release.mechanism.kind, where = `release ${quoted(release.label)}`;
    const trusted = trust === "central" || !(trust === "local" ? TRUSTED : ["shuffled"]).includes(kind);
    require_(trusted, `${where}: under ${trust} trust nobody is trusted to run a ${kind} mechanism`);
    const grid = gridOf(release.mechanism);
    require_((release.grid ?? grid) === grid, `${where}: another grid`);
    const { sample } = release, draw = drawOf(release);
    require_(sample === undefined || ON_SAMPLE.includes(kind), `${where}: a ${kind} mechanism draws no sample`);
    const alike = sample === undefined || (draws.get(sample) ?? draw) === draw;
    require_(alike, `sample ${quoted(sample ?? "")}: its releases state different draws`);
    draws.set(sample, draw);
  }
  return { header, releases, digest };
}

/** The exponent of the grid of a mechanism's outputs; undefined: they are on none. */
function gridOf(mechanism) {
  const inner = mechanism.mechanism ?? mechanism;
  if (inner.kind.startsWith("discrete")) return 0;
  const bare = ["gaussian-sparse-vector", "mixture-of-gaussians"].includes(inner.kind);
  const scale = inner.scale ?? (bare ? undefined : inner.sigma);
  if (scale === undefined) return undefined;
  const exact = Fraction.of(scale); // 2^(e - 1) <= scale < 2^e, and one of its parts is a power of two
  return bitLength(exact.n) - bitLength(exact.d) + 1 - 33;
}

// 3. Pairs: what one run of a mechanism costs at most

const SUMS = ["gaussian", "symmetric-gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "matrix"];

/** The pairs of a run for data sets that differ in some units, each with how often it runs.

`bound` stands for the sensitivity. A pair is a list: a kind and exact parameters. */
function pairsOf(mechanism, units = 1n, bound = mechanism.sensitivity?.value ?? 0) {
  const kind = mechanism.kind, whole = F(mechanism.epsilon ?? 0), epsilon = whole.times(units);
  const moved = F(bound).times(units), scale = F(mechanism.sigma ?? mechanism.scale ?? 1);
  const square = moved.square(), mu = () => square.over(scale.square());
  if (kind === "randomized-response") return [[["response", whole, mechanism.categories], units]];
  if ([...ON_SAMPLE.slice(0, 3), "sampled-matrix"].includes(kind) && units === 1n) return sampledPairs(mechanism);
  const once = () => {
    switch (kind) {
      case "gaussian": case "symmetric-gaussian": case "gaussian-process": return ["gauss", mu()];
      case "tree-aggregation": // an item is in at most floor(log2 steps) + 1 nodes
        return ["gauss", mu().times(bitLength(BigInt(mechanism.steps)))];
      case "matrix": return ["gauss", mu().times(reach(mechanism))];
      case "gaussian-sparse-vector": {
        const sides = mechanism.monotone ? 1 : 2, { answers, steps } = mechanism;
        const threshold = moved.over(F(mechanism.sigma / Math.sqrt(sides * Math.sqrt(answers))));
        return ["sparse", threshold, moved.over(scale), sides, answers, steps];
      }
      case "discrete-gaussian": { // the double of a root of a whole number means that root
        const nearest = square.plus(F(1n, 2n)).floor(), off = square.minus(nearest);
        const near = (off.n < 0n ? off.times(-1n) : off).times(2n ** 51n).atMost(square);
        return [kind, scale, near ? nearest : square.floor()];
      }
      case "tabulated": return units === 1n && tabulated(mechanism);
      case "report-noisy-max": case "sparse-vector": case "pure-dp": return ["response", epsilon, 2];
      case "laplace": return [kind, moved.over(scale)];
      case "discrete-laplace": return [kind, moved.floor(), F(1n).over(scale)];
      case "exponential": return ["range", epsilon];
      case "approx-dp": { // for groups, Vadhan 2017, Lemma 2.2
        const more = units > 1n ? up(exp(fixed(epsilon.minus(whole)))).times(units) : 1n;
        return ["approx", epsilon, F(mechanism.delta).times(more)];
      }
      case "key-selection": return units === 1n && ["approx", epsilon, F(mechanism.delta)];
      case "zcdp": return [kind, F(mechanism.rho).times(units * units)];
    }
    return false;
  };
  const pair = once();
  require_(pair, `a ${kind} mechanism${units > 1n ? ` for groups of ${units}` : ""}`, Unknown);
  return [[pair, 1n]];
}

/** The pair of a table of losses; what is missing, beyond rounding, counts as infinite. */
function tabulated(mechanism) {
  const losses = mechanism.losses.map((x) => F(x)), masses = mechanism.probabilities.map((x) => F(x));
  require_(losses.length === masses.length, "a table of losses: it has another number of probabilities");
  let infinite = F(mechanism.infinity);
  const off = masses.reduce((a, b) => a.plus(b), infinite).minus(1n).times(2n ** 52n);
  require_(off.atMost(BigInt(masses.length)), "tabulated: its masses add up to more than 1");
  if (off.less(-1n)) infinite = infinite.minus(off.over(2n ** 52n));
  return ["table", losses.map((loss, i) => [loss, masses[i]]), infinite];
}

/** The pair on a secret sample: of a unit's change, of its own part, and how units are drawn. */
function sampledPairs(mechanism) {
  let inner = mechanism.mechanism, how = mechanism.kind, times = 1n;
  if (how === "sampled-matrix") { // a turn every `separation` steps: each a run on the largest column
    [how, times] = ["poisson-sampled", BigInt(Math.ceil(inner.steps / inner.separation))];
    inner = { ...inner, participations: 1 };
  }
  const largestSize = mechanism.most ?? 0, units = mechanism.units ?? 0;
  const rate = has(mechanism, "rate") ? F(mechanism.rate) : F(mechanism.size).over(F(units));
  if (how === "truncated-poisson-sampled" && largestSize >= units) how = "poisson-sampled";
  const stated = has(mechanism, "contribution") && SUMS.includes(inner.kind);
  const change = pairsOf(inner)[0][0];
  const own = pairsOf(inner, 1n, stated ? mechanism.contribution : undefined)[0][0];
  require_(rate.atMost(1n), `a mechanism: a sample of more than its ${units} units`);
  return [[["sampled", how, change, own, rate, BigInt(largestSize), BigInt(units), stated], times]];
}

/** The sum of doubles, exactly. */
function sumOf(numbers) {
  const top = 1100n;
  return new Fraction(numbers.reduce((sum, x) => sum + fixedAt(x, top), 0n), 1n << top);
}

function fixedAt(x, places) {
  const exact = Fraction.of(x);
  return (exact.n << places) / exact.d;
}

/** The squared norm that a strategy matrix gives to one unit's changes, at most.

Far columns share no row. Of Toeplitz that falls, the earliest steps (Kalinin and Lampert 2024). */
function reach({ strategy, steps, separation, participations }) {
  require_(steps <= 2 ** 20, `a matrix of ${steps} steps`, Unknown);
  const times = Math.min(participations, Math.ceil(steps / separation)), sums = new Array(steps).fill(0);
  if (need(strategy, "kind") === "lower-triangular") {
    const apart = times === 1 || strategy.rows.every((row) => row.length <= separation);
    require_(apart, "a strategy that is written out, whose turns overlap", Unknown);
    strategy.rows.forEach((row, i) =>
      row.forEach((entry, j) => { sums[i + 1 - row.length + j] += entry * entry; }));
    let best = new Array(steps + 1).fill(0);
    for (let turn = 0; turn < times; turn++) { // the largest sum over steps so far apart, of the first ones
      const found = [0];
      sums.forEach((sum, i) => found.push(Math.max(found[i], sum + best[Math.max(0, i + 1 - separation)])));
      best = found;
    }
    return F(best.at(-1)).times(RAISED);
  }
  let column = (strategy.coefficients ?? [1]).slice(0, steps);
  let powers = (strategy.decays ?? []).map(() => 1);
  while (powers.length && column.length < steps) { // a buffered strategy, whose definition says how to round
    const entry = sumOf(powers.map((power, i) => strategy.scales[i] * power)).number();
    column.push(Math.abs(entry) >= 2 ** -400 ? entry : 0);
    powers = powers.map((power, i) => power * strategy.decays[i]);
  }
  if (column.length > separation && times > 1) {
    let high = 0;
    column = column.reverse().map((entry) => (high = Math.max(high, Math.abs(entry)))).reverse();
  }
  for (let first = 0; first < times * separation; first += separation) {
    column.slice(0, Math.max(0, steps - first)).forEach((entry, i) => { sums[first + i] += entry; });
  }
  return sumOf(sums.map((x) => x * x)).times(RAISED);
}

// 4. Costs that add up

/** A pair's pure epsilon; raises Unknown where it has none. */
function pure(pair) {
  const [kind, first] = pair;
  if (["laplace", "range", "response"].includes(kind)) return first;
  if (["gauss", "zcdp"].includes(kind) && first.n === 0n) return first;
  if (kind === "discrete-laplace") return pair[2].times(first);
  if (kind === "sampled") { // Balle, Barthe and Gaboardi 2018, Theorem 8
    const epsilon = largest([pure(pair[2]), pure(pair[3])]), grown = up(exp(fixed(epsilon))).minus(1n);
    return smallest([epsilon, up(ln(ONE + fixed(pair[4].times(grown)) + 1n))]);
  }
  if (kind === "table" && pair[2].n === 0n) {
    return largest([F(0n), ...first.filter(([, mass]) => mass.n).map(([loss]) => loss)]);
  }
  throw new Unknown(`the pure epsilon of ${kind} noise`);
}

/** A pair's rho of zCDP.

Gaussian mu^2 / 2 (Bun and Steinke 2016), discrete too (Canonne, Kamath and Steinke 2020); Laplace e + e^-e - 1
(Harrison and Manurangsi 2025); a range e^2 / 8 (Cesar and Rogers 2021); pure e tanh(e / 2). */
const rho = kept((pair) => {
  const [kind, first] = pair;
  if (kind === "gauss") return first.over(2n);
  if (kind === "zcdp") return first;
  if (kind === "discrete-gaussian") return F(pair[2]).over(first.square().times(2n));
  if (kind === "sparse") return pair[2].square().times(F(pair[5])).over(2n); // as if all values were released
  const epsilon = pure(pair), shrunk = exp(-fixed(epsilon));
  if (kind === "laplace") return largest([F(0n), epsilon.minus(1n).plus(up(shrunk))]);
  const whole = epsilon.times(up(((ONE - shrunk) << BITS) / (ONE + shrunk)));
  return kind === "range" ? smallest([whole, epsilon.square().over(8n)]) : whole;
});

/** The square of a pair's mu of GDP; of a pure epsilon mu is -2 Phi^-1(1 / (1 + e^epsilon)). */
const muSquared = kept((pair) => {
  if (pair[0] === "gauss" || pair[0] === "sparse") return rho(pair).times(2n);
  const epsilon = smallest([pure(pair), F(10000n)]);
  const wanted = (ONE << BITS) / (ONE + exp(fixed(epsilon))) - (1n << 24n);
  let low = 0n, high = 17n << BITS;
  require_(tail(high) < wanted, `the mu of a pure epsilon of ${epsilon.number()}`, Unknown);
  while (high - low > 1n << 80n) {
    const middle = (low + high) / 2n;
    [low, high] = tail(middle) < wanted ? [low, middle] : [middle, high];
  }
  return epsilon.n ? up(2n * high).square() : F(0n);
});

/** A bound on a Renyi divergence, in both directions (Mironov 2017; Zhu and Wang 2020). */
const divergence = kept((pair, order, relation) => {
  const [kind, first] = pair, t = order.minus(1n), found = [];
  if (kind === "sampled") {
    const [how, inner] = under(pair, relation);
    if (how === "mixture" && inner[0] === "gauss") return sampledDivergence(inner[1], pair[4], order);
    return largest(pair.slice(2, 4).map((one) => divergence(one, order, relation))); // by convexity
  }
  if (kind === "sparse") {
    const [, threshold, alone, sides, answers, steps] = pair;
    let log = F(LN2 + 1n, 1n << GUARD).times(F(steps)); // of the number of outcomes, at most all sequences
    if (2 * answers < steps && steps <= 4096) {
      let outcomes = 1n, term = 1n;
      for (let i = 0; i < answers; i++) {
        term = (term * BigInt(steps - i)) / BigInt(i + 1);
        outcomes += term;
      }
      log = up(ln(outcomes << BITS));
    }
    const values = alone.times(F(sides)).square().times(F(Math.min(answers, steps)));
    found.push(threshold.square().plus(values).times(order).over(2n).plus(log.over(t)));
  }
  const inRange = ["laplace", "response"].includes(kind) && first.n > 0n && first.times(order).less(2000n);
  if (inRange) {
    const [high, low, one] = [t.times(first), order.times(first).times(-1n), first].map((x) =>
      up(exp(fixed(x) + 1n)));
    let inside = order.times(high).plus(t.times(low)).over(order.plus(t));
    if (kind === "response") {
      const others = F(pair[2]).minus(2n);
      inside = high.times(one).plus(low.times(one)).plus(others).over(one.plus(others).plus(1n));
      inside = inside.plus(F(1n, 2n ** 150n));
    }
    found.push(up(ln(fixed(inside) + 1n)).over(t));
  }
  found.push(...attempt(() => pure(pair)));
  return smallest([rho(pair).times(order), ...found]);
});

/** What a function returns, in a list; an empty one where no bound is known. */
function attempt(way) {
  try {
    return [way()];
  } catch (error) {
    if (error instanceof Unknown) return [];
    throw error;
  }
}

/** That of a Poisson-sampled Gaussian: a binomial sum (Mironov et al. 2019), or a chord of it. */
const sampledDivergence = kept((square, rate, order) => {
  const n = order.floor(), plain = square.times(order).over(2n), t = order.minus(1n);
  const known = t.n > 0n && order.less(5000n);
  require_(known, `a sampled Gaussian's divergence of order ${general(order.number())}`, Unknown);
  if (!order.is(n)) {
    const low = n > 1n ? sampledDivergence(square, rate, F(n)).times(n - 1n) : F(0n);
    const high = sampledDivergence(square, rate, F(n + 1n)).times(n);
    const left = order.minus(n);
    return left.times(high).plus(F(1n).minus(left).times(low)).over(t);
  }
  if (F(400n).less(square.times(n * n))) return plain;
  const q = fixed(rate) + 1n, p = fixed(F(1n).minus(rate)) + 1n;
  let total = 0n, ways = 1n;
  for (let k = 0n; k <= n; k++) {
    const [chosen, left] = [[q, k], [p, n - k]].map(([one, m]) => (one ** m << BITS) >> (BITS * m));
    const weight = (ways * (chosen + 1n) * (left + 1n)) >> BITS;
    const grown = exp(fixed(square.times(k * (k - 1n)).over(2n)) + 1n);
    total += (((weight + 1n) * grown) >> BITS) + 1n;
    ways = (ways * (n - k)) / (k + 1n);
  }
  return smallest([up(ln(total)).over(t), plain]);
});

// 5. Curves: delta at epsilon = x, where y = e^x

/** The curve of losses, which decrease, each with its mass; in units. */
function rowsCurve(rows, infinite) {
  const above = [0n], below = [0n];
  for (const [loss, mass] of rows) {
    above.push(above.at(-1) + mass);
    below.push(below.at(-1) + ((mass * exp(-loss)) >> BITS));
  }
  return (x, y) => {
    let low = 0, high = rows.length; // the first loss that is not above x
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle][0] > x) low = middle + 1;
      else high = middle;
    }
    return infinite + above[low] - ((y * below[low]) >> BITS);
  };
}

/** A pair's curve for x >= 0, and for x < 0 where its directions differ; raises Unknown. */
const curve = kept((pair, relation) => {
  const [kind, first] = pair;
  if (kind === "sampled") return sampled(pair, relation);
  if (kind === "gauss") return [gaussian(first)];
  if (kind === "laplace" || kind === "range") { // of all choices of a range (Dong, Durfee and Rogers 2020)
    const epsilon = fixed(first) + 1n, whole = exp(epsilon), half = exp(epsilon / 2n);
    if (kind === "laplace") return [(x) => (x < epsilon ? ONE - exp((x - epsilon) >> 1n) : 0n)];
    return [(x) => (x < epsilon ? (half - exp(x >> 1n)) ** 2n / (whole - ONE) : 0n)];
  }
  if (kind === "response" || kind === "approx") {
    const epsilon = fixed(first), extra = kind === "approx" ? fixed(pair[2]) : 0n;
    const parts = [exp(epsilon), kind === "response" ? BigInt(pair[2] - 2) * ONE : 0n, ONE];
    const sum = parts.reduce((a, b) => a + b), masses = parts.map((part) => div((ONE - extra) * part, sum));
    return [rowsCurve([epsilon, 0n, -epsilon].map((loss, i) => [loss, masses[i]]), extra)];
  }
  if (kind === "discrete-laplace" && first <= 4096n) { // the output, clamped to 0, ..., moves
    const step = fixed(pair[2]), ratio = exp(-step), rows = [];
    for (let k = 0n; k <= first; k++) {
      const mass = (k === 0n || k === first ? ONE : ONE - ratio) * exp(-step * k);
      rows.push([(first - 2n * k) * step, mass / (ONE + ratio)]);
    }
    return [rowsCurve(rows, 0n)];
  }
  if (kind === "discrete-laplace") return curve(["response", pure(pair), 2], relation);
  if (kind === "discrete-gaussian" && pair[2] === 1n && F(1n, 100n).less(first) && first.less(2000n)) {
    return [discreteGaussian(first)];
  }
  if (kind === "table") {
    const rows = first.filter(([, mass]) => mass.n).map(([loss, mass]) => [fixed(loss), fixed(mass)]);
    rows.sort(([a], [b]) => (a < b ? 1 : a > b ? -1 : 0));
    return [rowsCurve(rows, fixed(pair[2]))];
  }
  throw new Unknown(`the privacy curve of ${kind} noise`);
});

/** The curve of N(mu, 1) against N(0, 1), by mu squared (Balle and Wang 2018, Theorem 8). */
function gaussian(square) {
  const mu = root(fixed(square) << BITS);
  if (!mu) return () => 0n;
  return (x, y) => {
    const middle = (x << BITS) / mu, near = tail(middle - mu / 2n);
    const beyond = y < ONE << 100n ? (y * tail(middle + mu / 2n)) >> BITS : 0n; // if it is known well enough
    return most(0n, near - beyond) + ((ONE + y) >> 206n);
  };
}

/** The curve of discrete Gaussian noise moved by 1; losses beyond 15 sigma count as infinite. */
function discreteGaussian(sigma) {
  const step = fixed(F(1n).over(sigma.square())), last = Number(sigma.times(15n).ceil()) + 1, weights = [ONE];
  let ratio = exp(-step >> 1n), total = -ONE;
  while (weights.length <= last + 1) {
    weights.push((weights.at(-1) * ratio) >> BITS);
    ratio = (ratio * exp(-step)) >> BITS;
  }
  for (const weight of weights.slice(0, -1)) total += 2n * weight;
  const rows = [];
  for (let k = -last; k <= last; k++) {
    rows.push([(BigInt(1 - 2 * k) * step) >> 1n, (weights[Math.abs(k)] << BITS) / total]);
  }
  return rowsCurve(rows, 4n * sigma.ceil() * weights.at(-1) + (1n << 40n));
}

/** How a relation has a sampled pair, and the pairs of a unit's change and of its own part.

mixture: (1 - q) Q + q P against Q, where a unit is added, removed, or zeroed in a Poisson sample of a sum. swap:
two mixtures that have the part without the unit in common. opposite: Gaussian ones with a bound on a unit's own
part. alone: without that bound no amplification of Gaussian noise is known. */
function under(pair, relation) {
  const [, how, given, own, rate, , , stated] = pair, bounded = how !== "poisson-sampled";
  const sums = ["gauss", "laplace", "discrete-laplace", "discrete-gaussian"].includes(given[0]);
  let change = given;
  if (relation === "add-or-remove-one" || (relation === "zero-out" && !bounded && sums)) {
    return ["mixture", how === "fixed-size-sampled" ? change : own, own];
  }
  if (relation === "zero-out" && sums) {
    const size = (one) => F(one[0] === "discrete-gaussian" ? one[2] : one[1]);
    change = size(change).less(size(own)) ? own : change;
  }
  if (how === "fixed-size-sampled") return ["swap", change, change];
  if (change[0] !== "gauss" || bounded || rate.is(1n)) return ["swap", change, own];
  const wide = F(own[1]).times(4n).atMost(change[1].times(TOLERANCE).times(TOLERANCE));
  if (stated && own[1].atMost(change[1]) && (rate.times(2n).atMost(1n) || wide)) return ["opposite", change, own];
  return [stated && change[1].less(own[1]) ? "swap" : "alone", change, own];
}

/** The curve of a mechanism on a secret sample in which a unit is with a probability q at most.

mixture: delta'(log(1 + q (y - 1))) = q delta(x), for all y > 0 (Zhu, Dong and Wang 2022, Theorem 11). swap: with
y' = 1 + q (y - 1) and b = y' / y, at most q times the smaller of (1 - b) delta_own(y) + b delta_change(y) and
delta_change(y') (Balle, Barthe and Gaboardi 2018, Theorem 2, and convexity). */
function sampled(pair, relation) {
  const [how, change, own] = under(pair, relation), q = fixed(pair[4]) + (pair[4].less(1n) ? 1n : 0n);
  if (pair[1] === "truncated-poisson-sampled") return truncated(pair, relation);
  if (how === "alone") return curve(change, relation);
  if (how === "opposite") return [opposite(own[1], q)];
  const inner = curve(change, relation)[0], outer = curve(own, relation)[0];
  const upper = (x, y) => {
    const wide = ONE + ((y - ONE) << BITS) / q, far = ln(wide);
    if (how === "mixture" || keyOf(change) === keyOf(own)) return (q * inner(far, wide)) >> BITS;
    const share = (y << BITS) / wide;
    const parted = ((ONE - share) * outer(far, wide) + share * inner(far, wide)) >> BITS;
    return (q * least(parted, inner(x, y))) >> BITS;
  };
  const down = (_, y) => {
    const wide = ONE - ((ONE - y) << BITS) / q;
    if (wide <= ONE >> 64n) return ONE - y;
    return (q * (ONE - wide + ((inner(-ln(wide), (ONE << BITS) / wide) * wide) >> BITS))) >> BITS;
  };
  return how === "mixture" ? [upper, down] : [upper];
}

/** The curve of (1 - q) N(0, 1) + q N(mu, 1) against the same of -mu: P - y Q beyond a point t.

There the densities' ratio is y: q c w^2 - (1 - q) (y - 1) w - y q c = 0, w = e^(mu t), c = e^(-mu^2 / 2). */
function opposite(square, q) {
  const mu = root(fixed(square) << BITS), rest = ONE - q, both = (q * exp(-fixed(square.over(2n)))) >> BITS;
  require_(mu < 14n * ONE, "a unit's part of more than 14 standard deviations in a Poisson sample", Unknown);
  if (!mu) return () => 0n;
  return (_, y) => {
    const linear = (rest * (y - ONE)) >> BITS;
    const w = ((linear + root(linear ** 2n + ((4n * both ** 2n * y) >> BITS))) << BITS) / (2n * both);
    const t = div(ln(w) << BITS, mu);
    const parted = (q * tail(t - mu) - linear * tail(t) - ((y * q) >> BITS) * tail(t + mu)) >> BITS;
    return most(0n, parted) + ((ONE + y) >> 204n);
  };
}

/** The curve of a Poisson sample of `units`, cut to `size`: by revealing whether others fill it.

If k >= size do, a unit has a place with probability rate size / (k + 1), as in a sample of fixed size. */
function truncated([, , change, own, rate, size, units], relation) {
  const others = units - 1n, q = fixed(rate), p = ONE - q;
  let share = ONE; // the probability of a full sample, a binomial tail that is added up from its start
  if (rate.times(others).less(size) && rate.less(1n)) {
    let term = exp(ln(binomial(others, size) << BITS) + size * ln(q) + (others - size) * ln(p));
    share = term;
    for (let k = size; k < others; k++) {
      term = (term * (others - k) * q) / ((k + 1n) * p);
      share += term;
    }
  }
  share = least(ONE, share + (share >> 50n) + (units << 64n));
  const some = curve(["sampled", "poisson-sampled", change, own, rate, 0n, 0n, true], relation);
  const full = rate.times(size).over(size + 1n);
  const many = curve(["sampled", "fixed-size-sampled", change, change, full, 0n, 0n, true], relation);
  const mixed = (one, other) => (x, y) => {
    const low = one(x, y);
    return ((low * ONE + share * most(0n, other(x, y) - low)) >> BITS) + 1n;
  };
  return some.slice(0, Math.min(some.length, many.length)).map((one, i) => mixed(one, many[i]));
}

// 6. Discrete losses, and their sums

const DIGITS = 30; // hexadecimal ones of a mass, which is a multiple of 1 / UNIT
const UNIT = 16n ** BigInt(DIGITS), SLOT = 2 * DIGITS + 4;
const LARGEST = 50; // losses above it count as infinite

const powerOfE = kept((i, cells) => exp(div(BigInt(i) << BITS, BigInt(cells))));

/** A pair's two directions by the chords of its curve, up to where less than `spare` is left.

Each: the first of some losses, which are multiples of 1 / cells, their masses, and that of infinite loss. A mass
is a change of slope, rounded up; where a bound's slope falls, masses are only larger. */
const discrete = kept((pair, relation, cells, spare) => {
  const [upper, down] = curve(pair, relation), right = [], enough = fixed(spare) + 1n, size = BigInt(cells);
  while (!right.length || (right.at(-1) > enough && right.length <= LARGEST * cells)) {
    const height = upper((BigInt(right.length) << BITS) / size, powerOfE(right.length, cells));
    right.push(least(ONE, height, ...right.slice(-1)));
  }
  const last = right.length - 1, points = [];
  for (let i = -last; i <= last; i++) points.push(powerOfE(i, cells));
  const left = points.slice(0, last).map((y, i) =>
    down ? most(ONE - y, down(div(BigInt(i - last) << BITS, size), y)) : ONE - y + ((right[last - i] * y) >> BITS));
  const heights = [...left, ...right], first = [], second = [];
  let before = div((heights[0] - ONE) << BITS, points[0]);
  const lost = most(0n, ONE + before); // the other side's mass where this one has none
  points.forEach((y, i) => {
    const slope = i < 2 * last ? div((heights[i + 1] - heights[i]) << BITS, points[i + 1] - y) : 0n;
    const turn = most(0n, slope - before);
    before = slope;
    first.push(((turn * y * UNIT) >> (2n * BITS)) + 2n);
    second.push(((turn * UNIT) >> BITS) + 2n);
  });
  const one = [-last, first, ((heights.at(-1) * UNIT) >> BITS) + 2n];
  return [one, down ? [-last, second.reverse(), ((lost * UNIT) >> BITS) + 2n] : one];
});

/** Both losses added up; up to `spare` becomes infinite at the top, and moves up at the bottom. */
function product(one, other, spare) {
  const sum = (masses) => masses.reduce((a, b) => a + b);
  const pack = ([, masses]) =>
    BigInt(`0x${masses.map((mass) => mass.toString(16).padStart(SLOT, "0")).reverse().join("")}`);
  let count = one[1].length + other[1].length - 1, top = 0n, bottom = 0n, start = 0;
  const fits = count < 300_000 && sum(one[1]) * sum(other[1]) < 16n ** BigInt(SLOT - 1);
  require_(fits, "losses of so many cells, or of so much mass", Unknown);
  const digits = (pack(one) * pack(other)).toString(16).padStart(count * SLOT, "0"), masses = [];
  for (let at = count * SLOT; at > 0; at -= SLOT) {
    masses.push(BigInt(`0x${digits.slice(at - SLOT, at - DIGITS)}`) + 1n);
  }
  while (count > 1 && top + masses[count - 1] <= spare) top += masses[--count];
  while (start < count - 1 && bottom + masses[start] <= spare) bottom += masses[start++];
  masses[start] += bottom;
  return [one[0] + other[0] + start, masses.slice(start, count), one[2] + other[2] + top];
}

/** A loss added up so many times; of mass at most `spare` is cut off, by halves. */
function power(loss, runs, spare) {
  if (runs === 1n) return loss;
  const half = power(loss, runs / 2n, spare / 3n), rest = most(1n, spare / 6n), both = product(half, half, rest);
  return runs % 2n ? product(both, loss, rest) : both;
}

/** The curves of all that a unit is exposed to, by direction; a millionth of delta is cut off. */
const compose = kept((exposure, relation, cells, delta) => {
  const runs = new Counts();
  let gauss = F(0n);
  for (const [pair, count] of exposure.rows) {
    const alone = pair[0] === "sampled" && under(pair, relation)[0] === "alone";
    if (alone || pair[0] === "gauss" || pair[0] === "sparse") {
      gauss = sumUp(gauss, muSquared(alone ? under(pair, relation)[1] : pair), count);
    } else if (pair[0] === "discrete-gaussian" && pair[2] > 0n && pair[2] <= 3n) {
      runs.add([pair[0], pair[1], 1n], count * pair[2]); // up to 3 entries that move by 1, none by 2
    } else runs.add(pair, count);
  }
  if (gauss.n || !runs.rows.length) runs.add(["gauss", gauss], 1n);
  const rows = runs.rows, spare = delta.over(BigInt(10 ** 6 * rows.length)), found = [];
  const cut = spare.times(UNIT).floor();
  const parts = rows.map(([pair, count]) => [discrete(pair, relation, cells, spare.over(count)), count]);
  for (let side = 0; side < (parts.every(([both]) => both[0] === both[1]) ? 1 : 2); side++) {
    const losses = parts.map(([both, count]) => power(both[side], count, cut));
    while (losses.length > 1) losses.push(product(losses.shift(), losses.shift(), cut / 2n + 1n)); // a queue
    const [first, masses, infinite] = losses[0];
    const curveRows = masses.map((mass, i) =>
      [div(BigInt(first + i) << BITS, BigInt(cells)), (mass << BITS) / UNIT + 1n]);
    found.push(rowsCurve(curveRows.reverse(), (infinite << BITS) / UNIT + (1n << 110n)));
  }
  return found;
});

// 7. What one unit is exposed to, and the bounds that follow

/** How often some things are there, in the order of their first. */
class Counts {
  constructor(rows = []) {
    this.found = new Map();
    for (const [item, count] of rows) this.add(item, count);
  }
  add(item, count) {
    const key = keyOf(item), old = this.found.get(key);
    this.found.set(key, [item, (old ? old[1] : 0n) + count]);
  }
  get rows() { return [...this.found.values()]; }
  get key() { return [...this.found].map(([key, [, count]]) => `${count} ${key}`).sort().join(); }
}

/** A sum and a cost so many times, raised to a multiple of 2^-1024. */
function sumUp(sum, cost, count) {
  const all = 1n << 1024n;
  return new Fraction(sum.n * (all / sum.d) - div(-cost.n * count * all, cost.d), all);
}

/** The pair of all mechanisms on one sample: their mu^2, pure epsilons or rhos are added up. */
function together(mechanisms, relation) {
  const each = mechanisms.flatMap((mechanism) => pairsOf(mechanism).map(([pair]) => pair));
  const [, how, , , rate, size, units] = each[0], both = each.map((pair) => pair.slice(2, 4));
  const replaced = how === "poisson-sampled" && relation === "replace-one";
  const of = (change, own, stated) => ["sampled", how, change, own, rate, size, units, stated];
  const sum = (costs) => costs.reduce((a, b) => a.plus(b));
  if (both.flat().every(([kind]) => kind === "gauss")) {
    const flags = each.map((pair) => pair[7]);
    const stated = replaced ? flags.every(Boolean) : flags.some(Boolean);
    const [change, own] = [0, 1].map((side) => ["gauss", sum(both.map((pair) => pair[side][1]))]);
    return of(change, stated ? own : change, stated);
  }
  const [epsilon] = attempt(() => sum(both.map((pair) => largest(pair.map(pure)))));
  const known = epsilon || (how === "poisson-sampled" && !replaced);
  require_(known, "mechanisms of several kinds on one sample", Unknown);
  const change = epsilon ? ["response", epsilon, 2] : ["zcdp", sum(both.map((pair) => largest(pair.map(rho))))];
  return of(change, change, each[0][7]);
}

/** A value as text, whatever the order of its fields. */
function textOf(value) {
  if (Array.isArray(value)) return `[${value.map(textOf).join(", ")}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "null";
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}: ${textOf(value[name])}`).join(", ")}}`;
}

/** How often pairs run: of mechanisms, and of samples, which are pairs already. */
function seen(rows, units) {
  const found = new Counts();
  for (const [item, count] of rows) {
    require_(units === 1n || !Array.isArray(item), `a sample for groups of ${units}`, Unknown);
    const pairs = Array.isArray(item) ? [[item, 1n]] : pairsOf(item.mechanism, units);
    for (const [pair, times] of pairs) found.add(pair, times * count);
  }
  return found;
}

const added = (...some) => new Counts(some.flatMap((one) => one.rows));

/** Every choice of so many of some things, of each as often as one likes. */
function* choices(things, number, from = 0) {
  if (number === 0n) yield [];
  else for (let i = from; i < things.length; i++) {
    for (const rest of choices(things, number - 1n, i)) yield [things[i], ...rest];
  }
}

/** Compose releases: those without a partition add up, and of a split a unit is in one part.

It is in two if values decide which, and may change. Releases on one sample are one mechanism on it. Returns all
that a unit can be exposed to, and the relation for sampled pairs. */
function accountOf(header, releases) {
  let relation = header.neighbouring;
  const units = has(header, "budget") ? 1n : BigInt(header.group_size), places = new Map([["", new Counts()]]);
  const samples = new Map(), byValues = releases.filter((one) => one.partition?.by === "values");
  const splits = relation === "add-or-remove-one" ? [] : byValues.map((one) => one.partition.split);
  const moving = new Set(splits.map(textOf));
  if (moving.size) {
    const bounded = byValues.some(({ mechanism }) => has(mechanism, "size") || has(mechanism, "most"));
    require_(!bounded, "a sample of bounded size from a part that a unit may leave", Unknown);
    if (byValues.some(({ mechanism }) => TRUSTED.includes(mechanism.kind))) relation = "replace-one";
  }
  releases.forEach((release, place) => {
    const name = release.sample ?? place;
    samples.set(name, [...(samples.get(name) ?? []), release]);
  });
  for (const several of samples.values()) {
    const part = several[0].partition, mechanisms = several.map((one) => one.mechanism);
    const place = part ? textOf([part.split, part.part]) : "";
    const alone = { mechanism: mechanisms[0], key: textOf(mechanisms[0]) };
    if (!places.has(place)) places.set(place, Object.assign(new Counts(), { split: textOf(part.split) }));
    const item = several.length > 1 ? together(mechanisms, relation) : alone;
    places.get(place).add(item, BigInt(several[0].count));
  }
  let found = new Counts([[seen(places.get("").rows, units), 1n]]);
  places.delete("");
  for (const split of new Set([...places.values()].map((counts) => counts.split))) {
    const parts = new Counts([...places.values()].filter((one) => one.split === split).map((one) => [one, 1n]));
    const touched = units * (moving.has(split) ? 2n : 1n), alike = [], ways = new Counts();
    for (const [part, many] of parts.rows) {
      for (let i = 0n; i < least(many, touched); i++) alike.push({ part, key: `${i} ${part.key}` });
    }
    for (const chosen of choices(alike, least(touched, units * BigInt(alike.length)))) {
      const sizes = new Counts(chosen.map((one) => [one, 1n])).rows;
      if (sizes.every(([, size]) => size <= units)) {
        ways.add(added(...sizes.map(([{ part }, size]) => seen(part.rows, size))), 1n);
      }
      const few = ways.found.size * found.found.size <= 4096;
      require_(few, "more than 4096 ways to meet the parts of the splits", Unknown);
    }
    found = new Counts(found.rows.flatMap(([one]) => ways.rows.map(([way]) => [added(one, way), 1n])));
  }
  return { ways: found.rows.map(([way]) => way), relation };
}

/** How a release draws its sample, as text. */
function drawOf({ mechanism, count, partition }) {
  return textOf([{ ...mechanism, mechanism: 0, contribution: 0 }, count, partition]);
}

/** The largest sum of a cost that adds up. */
const total = ({ ways }, cost) =>
  largest(ways.map(({ rows }) => rows.reduce((sum, [pair, count]) => sumUp(sum, cost(pair), count), F(0n))));

const renyi = (account, order) => total(account, (pair) => divergence(pair, order, account.relation));

/** The curve by the best of many orders (Canonne, Kamath and Steinke 2020, Proposition 12). */
function renyiCurve(account) {
  const lines = [];
  for (let k = 0; k < 230; k++) {
    const t = F(BigInt(Math.trunc(2 ** 16 * 1.04 ** k)), 1n << 18n), order = t.plus(1n);
    const height = renyi(account, order).plus(up(ln(fixed(t.over(order))))).times(t);
    lines.push([fixed(t), fixed(height) - ln(fixed(order)) + 9n]);
  }
  return (x) => exp(least(0n, ...lines.map(([t, height]) => height - ((t * x) >> BITS))));
}

/** A curve's delta at an epsilon; or, if that is undefined, the least epsilon at a delta. */
function valueAt(way, epsilon, delta) {
  if (epsilon !== undefined) return up(way(fixed(epsilon), exp(fixed(epsilon))));
  const wanted = fixed(delta.times(RAISED)); // delta to a part in 10^12
  let low = 0n, high = ONE;
  if (way(0n, ONE) <= wanted) return F(0n);
  while (way(high, exp(high)) > wanted) {
    [low, high] = [high, 2n * high];
    const words = `an epsilon at delta ${general(delta.number())}: losses above ${LARGEST} are too likely`;
    require_(high <= 2000n * ONE, words, Unknown);
  }
  while (high - low > high >> 36n) {
    const middle = (low + high) / 2n;
    [low, high] = way(middle, exp(middle)) <= wanted ? [low, middle] : [middle, high];
  }
  return up(high);
}

/** The least known value as `valueAt`, and what finer losses may take off it; undefined: anything.

By mu, pure epsilon, Renyi orders, and losses of ever finer cells, until one gives `enough`. */
function approximate(account, epsilon, delta, enough) {
  const pairs = new Counts(account.ways.flatMap((way) => way.rows)).rows.map(([pair]) => pair), found = [];
  const kinds = new Set(pairs.map((pair) => pair[0])), gauss = kinds.size === 1 && kinds.has("gauss");
  const only = (...names) => [...kinds].every((kind) => names.includes(kind));
  const ways = [() => gaussian(total(account, muSquared))];
  if (!gauss) ways.push(() => curve(["response", total(account, pure), 2], "")[0]);
  const byOrders = ["zcdp", "sparse", "range", "discrete-gaussian"].some((kind) => kinds.has(kind));
  if (byOrders) ways.push(() => renyiCurve(account));
  for (const way of ways) {
    found.push(...attempt(() => valueAt(way(), epsilon, delta)));
    if (found.length && (smallest(found).atMost(enough) || gauss)) {
      const best = smallest(found), at = epsilon !== undefined && epsilon.n ? epsilon : best;
      return [best, at.less(60n) ? F(0n) : undefined]; // see `gaussian`
    }
  }
  const [finest, part] = epsilon === undefined ? [delta, 2500n] : [F(1n, 10n ** 12n), 100n], now = [];
  let change = epsilon === undefined ? delta : epsilon;
  try {
    for (let cells = 32; cells < 2 ** 20; cells *= 2) {
      const all = account.ways.flatMap((way) => compose(way, account.relation, cells, finest));
      now.push(largest(all.map((each) => valueAt(each, epsilon, delta))));
      const own = now.at(-1), step = now.length > 1 ? own.minus(now.at(-2)) : own;
      change = step.n < 0n ? step.times(-1n) : step;
      if (own.atMost(enough) || change.times(part).atMost(own) || cells * (pairs.length + 5) > 50_000) break;
    }
  } catch (error) {
    if (!(error instanceof Unknown) || !found.length) throw error;
    const best = smallest(found), finer = best.over(epsilon === undefined ? 2000n : 20n); // orders in between
    return [best, only("gauss", "zcdp", "discrete-gaussian") ? finer : undefined];
  }
  const loose = pairs.some((pair) => pair[0] === "range" || pair.includes("truncated-poisson-sampled"));
  return [smallest([now.at(-1), ...found]), loose ? undefined : change.times(3n)];
}

/** A bound on a guarantee's leading figure, and the rest as `approximate`. */
function figure(account, guarantee, enough) {
  const kind = guarantee.kind;
  if (kind === "approx-dp" || kind === "curve") {
    const epsilon = kind === "curve" ? F(guarantee.epsilon) : undefined;
    return approximate(account, epsilon, F(guarantee.delta), enough);
  }
  if (kind === "rdp") {
    const order = F(guarantee.alpha), exact = ["gauss", "zcdp", "discrete-gaussian", "laplace"];
    const rough = account.ways.some(({ rows }) => rows.some(([pair]) => !exact.includes(pair[0])));
    return [renyi(account, order), rough ? undefined : F(0n)];
  }
  if (kind === "gdp") return [up(root((fixed(total(account, muSquared)) + 1n) << BITS)), F(0n)];
  require_(kind === "pure-dp" || kind === "zcdp", `guarantees of the kind ${kind}`, Unknown);
  return [total(account, kind === "pure-dp" ? pure : rho), F(0n)];
}

// 8. What is taken on trust

// What figures of mechanisms rest on, beside a declared sensitivity.
const RESTS_ON = table(`hidden-sample: poisson-sampled fixed-size-sampled truncated-poisson-sampled
  sampled-records mixture-of-gaussians; hidden-turns: sampled-matrix random-allocation;
  justified-guarantee: pure-dp approx-dp zcdp tabulated; one-answer-per-unit: randomized-response shuffled;
  score-sensitivity: exponential report-noisy-max; stream-places: tree-aggregation;
  stream-participations: matrix; independent-trials: private-selection; smooth-bound: smooth-gaussian`);
const NOT_DRAWN = [...RESTS_ON.get("justified-guarantee").split(" "), "mixture-of-gaussians"]; // by dpaudit

/** The codes and texts of what figures rest on; `drawn`: whether a curator drew the sample. */
function* restsOn(mechanism, drawn) {
  const kind = mechanism.kind, basis = basisOf(mechanism);
  if (basis === "declared") yield ["declared-sensitivity", undefined];
  for (const [code, kinds] of RESTS_ON) {
    if (kinds.split(" ").includes(kind)) yield [code, mechanism.justification];
  }
  const summed = ON_SAMPLE.includes(kind) && !(drawn && (basis === "mapped" || kind === "sampled-records"));
  if (summed) yield ["sample-summed", undefined];
  const inside = ["mechanism", "local"].filter((name) => has(mechanism, name)).map((name) => mechanism[name]);
  const parts = (mechanism.releases ?? []).map((part) => need(part, "mechanism"));
  for (const one of [...inside, ...parts]) yield* restsOn(one, drawn);
}

/** What shows the sensitivity of a mechanism, or of the one inside it; undefined: it has none. */
const basisOf = (mechanism) => (mechanism.mechanism ?? mechanism).sensitivity?.basis;

/** Whether some release's noise was drawn in floating point. */
function inFloatingPoint({ header, releases }) {
  const kinds = releases.map((one) => one.mechanism.kind), sampler = header.noise.sampler;
  if (sampler === "numpy-float64") return kinds.some((kind) => !/^discrete-(gaussian|laplace)$/.test(kind));
  return sampler === "dpaudit-exact" && kinds.some((kind) => NOT_DRAWN.includes(kind));
}

/** Texts in the order of their characters. */
function sorted(texts) {
  const points = (text) => Array.from(text, (c) => c.codePointAt(0).toString(16).padStart(6, "0")).join("");
  return texts.map((text) => [points(text), text]).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map((x) => x[1]);
}

/** Every condition that follows from the ledger, and from what the certificate's sections say. */
function* conditions({ header, releases }, certificate) {
  const audits = list(certificate.audits), { process, claim, statement } = certificate, labels = new Map();
  const note = ([code, text], ...names) => {
    const key = textOf([code, text]), one = labels.get(key) ?? { code, text, names: [] };
    one.names.push(...names);
    labels.set(key, one);
  };
  let runs = 0;
  const replays = audits.filter((one) => need(one, "method") === "replay" && !list(one.inconclusive).length);
  const untested = replays.some((one) => list(one.not_checked).some((left) => left.code === "samples-untested"));
  for (const release of releases) {
    const { mechanism, label } = release;
    const own = NOT_DRAWN.includes((mechanism.mechanism ?? mechanism).kind); // drawn by the algorithm's own code
    const drawn = (has(header, "run") || header.noise.seeded) && !own, once = new Map();
    for (const one of restsOn(mechanism, drawn)) once.set(textOf(one), one);
    for (const one of once.values()) note(one, label);
    if (ON_SAMPLE.includes(mechanism.kind) && !drawn) {
      runs += release.count;
      note(["fresh-samples", undefined], ...(has(release, "sample") ? [] : [label]));
    }
  }
  for (const { code, text, names } of labels.values()) {
    const first = [...new Set(names)];
    const which = { number: names.length, labels: sorted(first.slice(0, 5)), more_labels: first.length > 5 };
    const found = { code, releases: which, ...(text === undefined ? {} : { text }) };
    if (code === "sample-summed") found.replayed = replays.length > 0 && !untested;
    if (names.length && (runs > 1 || code !== "fresh-samples")) yield found;
  }
  const kind = need(process, "kind"), replayed = replays.length > 0;
  const codes = new Set(releases.filter((one) => one.partition).map((one) => `split-by-${one.partition.by}`));
  codes.add("records-stop-nothing").add(kind === "in-process" ? kind : "honest-worker");
  if (kind === "twin") {
    yield { code: "public-stand-in", text: process.stand_in ?? "" };
    const mapped = releases.every((one) => basisOf(one.mechanism) === "mapped");
    codes.add("nothing-shared").add(mapped ? "mapped-records" : "own-record");
  } else {
    yield { code: "only-through-ledger", replayed };
    if (header.schedule === "fixed") yield { code: "fixed-sequence", replayed };
  }
  if (header.noise.seeded) codes.add("seeded-noise");
  if (inFloatingPoint({ header, releases })) codes.add("floating-point-noise");
  if (!audits.length) codes.add("no-audit");
  for (const code of codes) yield { code };
  const texts = [["stated", header.parameters["taken on trust"]], ["assumed", claim.assumptions]];
  texts.push(["assumed", need(statement, "assumptions")]);
  for (const [code, all] of texts) for (const text of Array.isArray(all) ? all : []) yield { code, text };
  for (const one of audits) {
    yield* list(one.not_checked);
    if (verdictOf(one) === "INCONCLUSIVE") {
      yield { code: "audit-judged-nothing", text: `${one.method}: ${list(one.inconclusive).join("; ")}` };
    }
  }
  const opinion = certificate.second_opinion;
  if (opinion?.agrees === false) yield { code: "accountants-disagree", accountant: need(opinion, "method") };
}

// 9. The certificate

/** A number with nine digits, as C's %.9g writes it. */
function general(x) {
  if (typeof x !== "number" || !Number.isFinite(x)) return String(x);
  const [digits, exponent] = x.toExponential(8).split("e"), e = Number(exponent);
  const short = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (e >= -4 && e < 9) return short(x.toFixed(8 - e));
  return `${short(digits)}e${e < 0 ? "-" : "+"}${String(Math.abs(e)).padStart(2, "0")}`;
}

/** A text in quotes, as Python writes it. */
function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const named = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", [mark]: `\\${mark}` };
  const coded = (c) => {
    const hex = c.codePointAt(0).toString(16), size = [2, 4, 8].find((n) => hex.length <= n);
    return `\\${{ 2: "x", 4: "u", 8: "U" }[size]}${hex.padStart(size, "0")}`;
  };
  const hidden = (c) => c !== " " && /[\p{C}\p{Z}]/u.test(c);
  return mark + Array.from(text, (c) => named[c] ?? (hidden(c) ? coded(c) : c)).join("") + mark;
}

/** The number that a guarantee, or a point of a curve, is about. */
const leading = (guarantee) =>
  F(need(guarantee, { zcdp: "rho", gdp: "mu", curve: "delta" }[need(guarantee, "kind")] ?? "epsilon"));

/** The verdict that follows from an audit's own figures. */
function verdictOf(audit) {
  const pairs = [[audit.epsilon_lower, audit.epsilon_claimed], [audit.mu_lower, audit.claim?.guarantee?.mu]];
  const above = pairs.some(([low, high]) => (low ?? null) !== null && (high ?? null) !== null &&
    low > high * (1 + 1e-9));
  const unlikely = has(audit, "confidence") && (audit.p_value ?? 1) <= 1 - audit.confidence;
  if (list(audit.findings).length || above || unlikely) return "REFUTED";
  return list(audit.inconclusive).length ? "INCONCLUSIVE" : "NOT_REFUTED";
}

/** Whether a guarantee is at least as strong as another, on the same scale. */
function meets(one, other) {
  const alike = one.kind === other.kind || (one.kind === "pure-dp" && other.kind === "approx-dp");
  const pairs = [[leading(one).number(), leading(other).number()], [one.delta ?? 0, other.delta ?? 0],
    [other.alpha ?? 0, one.alpha ?? 2]];
  return alike && pairs.every(([low, high]) => low <= high * (1 + 1e-9));
}

/** Compare a figure with the bound here; it holds if the bound is larger by a factor `close` at most. */
function compared(account, guarantee, about, close = TOLERANCE) {
  const floor = guarantee.kind === "curve" ? F(1n, 10n ** 11n) : F(0n);
  const stated = largest([leading(guarantee), floor]), enough = stated.times(TOLERANCE);
  const entries = Object.entries(guarantee).filter(([name]) => name !== "kind");
  about += `: ${guarantee.kind} ${entries.map(([name, x]) => `${name} ${general(x)}`).join(" ")}`;
  let own, finer;
  try {
    [own, finer] = figure(account, guarantee, enough);
  } catch (error) {
    if (error instanceof Unknown) return [UNKNOWN, about, `no bound is known here on ${error.message}`];
    throw error;
  }
  if (!Number.isFinite(own.number())) return [UNKNOWN, about, "no bound is known here that is a double"];
  if (own.atMost(enough)) return [HOLDS, about, ""];
  const above = stated.n ? `${(own.over(stated).minus(1n).number() * 100).toFixed(3)}%` : "inf%";
  const words = `the bound here is ${general(own.number())}, ${above} above it`;
  if (finer !== undefined && stated.less(own.minus(finer))) return [FAILS, about, words];
  return [own.atMost(stated.times(close)) ? HOLDS : UNKNOWN, about, words];
}

/** An answer about the claim, each bound, each release and each curve. */
function* figuresOf({ header, releases }, certificate) {
  const claim = certificate.claim.guarantee, budget = header.budget, near = F(101n, 100n);
  let account = accountOf(header, releases);
  if (budget) {
    yield compared(account, budget, "the budget");
    const held = leading(budget).times(TOLERANCE).over(RAISED), size = BigInt(header.group_size);
    const pairs = { zcdp: ["zcdp", held.times(size * size)], "pure-dp": ["response", held.times(size), 2],
      gdp: ["gauss", held.times(size).square()] }; // what a filter lets through
    const pair = has(pairs, budget.kind) && pairs[budget.kind];
    require_(pair, `what a budget of the kind ${budget.kind} implies`, Unknown);
    account = { ways: [new Counts([[pair, 1n]])], relation: "" };
  }
  const compare = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };
  const premises = list(certificate.claim.premises).map((one) =>
    need(compare, one.relation)(F(one.left).number(), F(one.right).number()));
  const bounds = list(certificate.bounds), rows = list(certificate.releases);
  const proved = premises.every(Boolean) && bounds.some((bound) => meets(need(bound, "guarantee"), claim));
  if (certificate.proof !== (proved ? "PROVED" : "NOT_PROVED")) {
    yield [FAILS, `proof: ${certificate.proof}`, "the bounds and premises say otherwise"];
  }
  if (proved) yield compared(account, claim, "the claim");
  for (const bound of bounds) yield compared(account, bound.guarantee, `the bound by ${bound.method}`, near);
  const { budget: _, ...alone } = header, ones = new Map();
  for (const release of rows) {
    const { mechanism, count, proved: own, claimed } = release, about = `release ${quoted(release.label)}`;
    const key = textOf([mechanism, count, own]);
    if (!ones.has(key)) ones.set(key, compared(accountOf(alone, [{ mechanism, count }]), own, "", near));
    const [answer, figures, words] = ones.get(key);
    yield [answer, about + figures, words];
    if (claimed && (release.verdict === "PROVED") !== meets(own, claimed)) {
      yield [FAILS, `${about}: ${release.verdict}`, "its own figures say otherwise"];
    }
  }
  for (const stated of list(certificate.profile)) {
    const about = `the curve by ${stated.method}`;
    const points = list(stated.points).map(([epsilon, delta]) =>
      compared(account, { kind: "curve", epsilon, delta }, about, F(11n, 10n)));
    const [answer, , words] = worstFirst([[HOLDS, "", ""], ...points])[0];
    yield [answer, about, words];
  }
}

/** What does not follow from the ledger, or from the certificate's own sections, beside figures. */
function* fieldsOf(ledger, certificate) {
  const { header } = ledger, claim = certificate.claim, audits = list(certificate.audits), noise = header.noise;
  const bounds = list(certificate.bounds), releases = list(certificate.releases);
  const own = header.claim ?? { view: claim.view, premises: [], assumptions: [] };
  const bare = releases.map(({ proved: _, verdict: __, ...one }) => one);
  const lower = bounds.every((one) => F(one.at_least ?? 0).atMost(leading(need(one, "guarantee"))));
  const upper = bounds.every((one) => one.direction === "upper");
  const verdicts = audits.map(verdictOf);
  const experiment = ["REFUTED", "INCONCLUSIVE", "NOT_REFUTED"].find((one) =>
    verdicts.includes(one) || (!verdicts.length && one === "INCONCLUSIVE"));
  const proved = certificate.proof === "PROVED" && releases.every((one) => one.verdict !== "NOT_PROVED");
  const fit = proved && experiment !== "REFUTED" && !noise.seeded && !has(certificate, "diverged");
  const exact = noise.sampler === "dpaudit-exact", figures = bounds.map((one) => leading(one.guarantee));
  const ascending = figures.every((x, i) => !i || figures[i - 1].atMost(x));
  const judged = audits.filter((one) => one.claim).map((one) => one.claim.guarantee);
  const expected = [
    ...["algorithm", "group_size", "budget", "parameters"].map((name) => [name, certificate[name], header[name]]),
    ...["unit", "neighbouring", "trust_model"].map((name) =>
      [name, [certificate[name], claim[name]], [header[name], header[name]]]),
    ["claim.view", [claim.view, certificate.view], [own.view, own.view]],
    ["schema", certificate.schema, "dpaudit.certificate/2"],
    ["ledger_hash", certificate.ledger_hash, ledger.digest],
    ["numerics", certificate.numerics, { sampler: noise.sampler, seeded: noise.seeded, claim_tolerance: 1e-9,
      floating_point: inFloatingPoint(ledger) }],
    ["releases: their number", releases.length, ledger.releases.length],
    ...bare.slice(0, ledger.releases.length).map((one, i) =>
      [`release ${quoted(ledger.releases[i].label)}`, one, ledger.releases[i]]),
    ["releases: their grids", releases.map((one) => one.grid),
      releases.map((one) => (exact ? gridOf(one.mechanism) : one.grid))],
    ["bounds: their order", ascending, true],
    ["bounds: their ends", [lower, upper], [true, true]],
    ["audits: their verdicts", audits.map((one) => one.verdict), verdicts],
    ["audits: their claims", judged, judged.map(() => claim.guarantee)],
    ["experiment", certificate.experiment, experiment],
    ["publishable", certificate.publishable, fit],
  ];
  for (const [about, stated, wanted] of expected) {
    const words = `it is ${textOf(stated).slice(0, 80)}, and should be ${textOf(wanted).slice(0, 80)}`;
    if (!same(stated, wanted)) yield [FAILS, about, words];
  }
  for (const name of ["premises", "assumptions"]) {
    const stated = new Set(list(claim[name]).map(textOf));
    for (const one of list(own[name]).map(textOf)) {
      if (!stated.has(one)) yield [FAILS, "claim", `the ledger's claim has ${one}`];
    }
  }
  const stated = new Set(list(certificate.not_checked).map(textOf));
  for (const one of conditions(ledger, certificate)) {
    const text = textOf(one);
    if (!stated.has(text)) yield [FAILS, `not_checked: it lacks ${one.code}`, text.slice(0, 200)];
  }
}

const worstFirst = (found) => [...found].sort(([a], [b]) => RANK[a] - RANK[b]);

/** Every answer about the texts of a certificate and its ledger, the worst ones first.

`tell` is called with each answer as soon as it is known. */
function answers(certificateText, ledgerText, tell = () => {}) {
  const found = [], add = (answer) => { found.push(answer); tell(answer); };
  try {
    const ledger = readLedger(ledgerText);
    require_(ledger.releases.length, "the ledger: it has no releases");
    add([HOLDS, `the ledger: ${ledger.releases.length} releases and their hash chain`, ""]);
    const certificate = filled(parse(certificateText), RECORDS.get("certificate"), "certificate");
    for (const one of fieldsOf(ledger, certificate)) add(one);
    for (const one of figuresOf(ledger, certificate)) add(one);
    const holds = found.find(([answer, about]) => answer === HOLDS && about.startsWith("the claim: "));
    const own = holds ? holds[1].slice("the claim: ".length) : "nothing", stated = certificate.checks;
    const words = `the other checker is said to confirm ${textOf(stated?.confirmed)}; this one confirms ${own}`;
    if (stated && need(stated, "confirmed") !== own) add([holds ? FAILS : UNKNOWN, "checks", words]);
  } catch (error) {
    const [about, ...words] = error.message.split(": ");
    if (error instanceof Wrong) add([FAILS, about, words.join(": ")]);
    else if (error instanceof Unknown) add([UNKNOWN, "the bounds", `none is known here on ${error.message}`]);
    else if (error instanceof TypeError) add([FAILS, "a field", `one is missing or of another type: ${error.message}`]);
    else add([UNKNOWN, "the bounds", `the computation stopped: ${error.message}`]);
  }
  return worstFirst(found);
}

/** The lines that say all answers, and the worst one. */
function lines(found) {
  const each = found.map(([answer, about, words]) => `${answer.padEnd(14)} ${about}${words ? `: ${words}` : ""}`);
  return [...each, found[0][0]];
}

/** The text of a file's bytes; undefined: they are no UTF-8. */
function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Print the answers; return 0 if all hold, 1 if one does not, 4 if one is not checked, 2 for bad use. */
function main(names) {
  let texts;
  try {
    texts = names.map((name) => decoded(require("node:fs").readFileSync(name)));
    if (texts.length !== 2) throw new TypeError("two files are needed");
  } catch (error) {
    process.stderr.write(`error: ${error.message}\nusage: checker.js certificate.json ledger.jsonl\n`);
    return 2;
  }
  const found = answers(...texts);
  process.stdout.write(`${lines(found).join("\n")}\n`);
  return { [HOLDS]: 0, [FAILS]: 1, [UNKNOWN]: 4 }[found[0][0]];
}

// 10. In a page

/** What a page says of answers: how it looks, a sentence, and the answers behind it. */
function shown(found) {
  const [worst] = found[0], figures = found.filter(([answer]) => answer === HOLDS).length - 1;
  const tone = { [HOLDS]: "good", [FAILS]: "bad", [UNKNOWN]: "unclear" }[worst];
  const words = worst === HOLDS ? `holds, ${figures} figures` : worst;
  const missing = found.filter(([answer]) => answer === worst && worst !== HOLDS).map((one) => one[1]).slice(0, 5);
  const names = missing.length ? `: ${missing.join("; ")}` : "";
  return { tone, words: `Checked in this browser: ${words}${names}.`, lines: lines(found).slice(0, 200) };
}

/** Check the certificate and the ledger that the page carries, in a worker where there are workers. */
function checkPage(source) {
  const { certificate, ledger } = JSON.parse(document.getElementById("to-check").textContent);
  const box = document.createElement("div");
  box.id = "checked";
  box.textContent = "Checking in this browser.";
  document.querySelector("h1").after(box);
  const show = (found) => {
    const { tone, words, lines: all } = shown(found);
    const details = document.createElement("details"), summary = document.createElement("summary");
    const each = document.createElement("pre");
    box.className = tone;
    summary.textContent = words;
    each.textContent = all.join("\n");
    details.append(summary, each);
    box.replaceChildren(details);
  };
  const here = () => setTimeout(() => show(answers(certificate, ledger)), 50);
  try {
    const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    let known = 0;
    worker.onmessage = ({ data }) => {
      if (data.found) show(data.found);
      else box.textContent = `Checking in this browser: ${(known += 1)} answers so far.`;
    };
    worker.onerror = (event) => {
      event.preventDefault();
      here();
    };
    worker.postMessage([certificate, ledger]);
  } catch {
    here();
  }
}

if (typeof module !== "undefined") {
  module.exports = { Unknown, accountOf, answers, compared, decoded, lines, readLedger, shown };
  if (require.main === module) process.exitCode = main(process.argv.slice(2));
} else if (typeof document !== "undefined") {
  checkPage(document.currentScript.textContent);
} else if (typeof importScripts !== "undefined") {
  onmessage = ({ data }) => postMessage({ found: answers(...data, (answer) => postMessage({ answer })) });
}
