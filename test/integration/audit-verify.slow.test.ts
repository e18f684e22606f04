import { spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { expect, it } from '@jest/globals';
import { AuditChain } from '../../src/audit/chain.ts';
import { endFields, intentFields } from '../../src/audit/record-fields.ts';
import { auditIn, testAuditKey } from '../support/audit.ts';
import { harness } from '../support/harness.ts';

const starts = harness();
const noon = Date.UTC(2026, 0, 15, 12);

/** The two records of a payment, as long as in production. */
function payment(chain: AuditChain, number: number): string {
  const credential = { kind: 'token', tokenHash: 'abcd1234' } as const;
  const record = {
    id: randomUUID(),
    caller: 'billing',
    credential,
    decision: 'allowed',
    login: 'acme',
  } as const;
  const [environment, operation] = ['production', 'transfer'];
  const intent = intentFields({
    request: {
      record,
      destination: { environment, operation: { name: operation } },
      form: [['client_orderid', `invoice-${number}`]],
    },
    key: { kind: 'private_key', version: 3, fingerprint: 'a'.repeat(64) },
    signature: { nonce: randomBytes(16).toString('hex'), timestamp: noon / 1000 },
  });
  const result = { status: 200, gatewayStatus: 200, serialNumber: randomUUID(), attempts: 1, startedAt: 0 };
  const end = { ...record, environment, operation, ...result, outcome: 'answered', durations: {} } as const;
  const time = new Date(noon + number).toISOString();
  const members = (fields: object): string => JSON.stringify({ time, ...fields }).slice(1, -1);
  return chain.seal('intent', members(intent)) + chain.seal('result', members(endFields(end)));
}

/** CPU time, since other tests may run at the same time. In microseconds. */
const reportCpu = `data:text/javascript,${encodeURIComponent(
  `process.on('exit', () => {
    const { user, system } = process.cpuUsage();
    process.stderr.write('CPU: ' + (user + system) + '\\n');
  })`,
)}`;

it('200,000 records are verified within 6 s of CPU time, in memory that does not grow with them', async () => {
  const folder = starts.folder();
  const { keyFile } = auditIn(folder);
  const file = folder.at('trail.jsonl');
  const chain = new AuditChain(testAuditKey, 'pod-a');
  const output = createWriteStream(file);
  output.write(chain.seal('start', '"time":"2026-01-15T12:00:00.000Z"'));
  for (let number = 0; number < 100_000; number += 1) {
    if (!output.write(payment(chain, number))) await once(output, 'drain');
  }
  output.end();
  await once(output, 'finish');
  const args = ['audit', 'verify', file, '--key-file', keyFile];
  // Less than the size of the file.
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--max-old-space-size=64', '--import', reportCpu, 'src/main.ts', ...args],
    { encoding: 'utf8' },
  );
  expect([status, stderr]).toEqual([0, expect.stringMatching(/^CPU: \d+\n$/)]);
  expect(stdout).toMatch(/^verified: 200,001 records in 1 file$/m);
  const seconds = Number(stderr.slice('CPU: '.length)) / 1_000_000;
  console.info(`verified 200,000 records in ${seconds.toFixed(1)} s of CPU time`);
  expect(seconds).toBeLessThan(6);
}, 60_000);
