import { expect, it } from '@jest/globals';
import { createOutageLog } from '../../../src/observability/outages.ts';

const minute = 60_000;
const messages = { failed: 'key source unavailable', recovered: 'key source available again' };

it('a change of the cause is another line, and causes that alternate have one each', () => {
  let now = 0;
  const lines: string[] = [];
  const message = (_level: string, text: string, { cause = '', seconds }: Record<string, unknown> = {}) =>
    void lines.push(`${text} ${String(seconds)} ${String(cause)}`);
  const outage = createOutageLog({ log: { message }, monotonic: () => now, source: 'vault', messages });
  for (; now < 60_000; now += 1000) outage(false, 'timeout');
  for (; now < 4 * minute; now += 1000) outage(false, now % 2000 === 0 ? 'sealed' : 'timeout');
  outage(true);
  outage(false, 'sealed');
  expect(lines).toEqual([
    'key source unavailable 0 timeout',
    'key source unavailable 60 sealed',
    'key source available again 240 ',
    'key source unavailable 0 sealed',
  ]);
});

it('an outage is one error line at the beginning, one each five minutes, and one info line at the end', () => {
  let now = 0;
  const lines: unknown[] = [];
  const log = { message: (...line: unknown[]) => void lines.push(line) };
  const outage = createOutageLog({ log, monotonic: () => now, source: 'vault', messages });
  outage(true);
  for (; now <= 12 * minute; now += 1000) outage(false, 'Vault is sealed');
  outage(true);
  outage(true);
  const line = (seconds: number) => [
    'error',
    'key source unavailable',
    { source: 'vault', cause: 'Vault is sealed', seconds },
  ];
  expect(lines).toEqual([
    line(0),
    line(300),
    line(600),
    ['info', 'key source available again', { source: 'vault', seconds: 721 }],
  ]);
});
