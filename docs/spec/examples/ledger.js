// Write a ledger that dpaudit verifies, without dpaudit: node ledger.js > ledger.jsonl
'use strict';
const { createHash } = require('node:crypto');

// Canonical JSON (RFC 8785): JSON.stringify writes numbers and texts as the standard asks; keys are sorted.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const fields = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${fields.join(',')}}`;
}

function release(label, sigma) {
  const sensitivity = { value: 1, norm: 'l2', basis: 'clipped' };
  return { record: 'release', label, count: 1, mechanism: { kind: 'gaussian', sigma, sensitivity } };
}

const records = [
  {
    record: 'header', schema: 'dpaudit.ledger/1', algorithm: 'weekly counts', unit: 'person',
    neighbouring: 'add-or-remove-one', claim: { guarantee: { kind: 'zcdp', rho: 0.25 } }, parameters: {},
  },
  release('visits', 2),
  release('visitors', 2.5),
];
records.push({ record: 'footer', releases: records.length - 1 });

let previous = '';
for (const record of records) {
  const text = canonical(record);
  previous = createHash('sha256').update(previous + text, 'utf8').digest('hex');
  process.stdout.write(`${text.slice(0, -1)},"hash":"${previous}"}\n`);
}
