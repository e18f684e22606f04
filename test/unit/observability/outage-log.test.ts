import { expect, it } from '@jest/globals';
import { OutageLog } from '../../../src/observability/outage-log.ts';

const minute = 60_000;

it('an outage is one error line at the beginning, one each five minutes, and one info line at the end', () => {
  let now = 0;
  const lines: unknown[] = [];
  const log = { message: (...line: unknown[]) => void lines.push(line) };
  const outage = new OutageLog({ log, monotonic: () => now, source: 'vault' });
  outage.answered();
  for (; now <= 12 * minute; now += 1000) outage.failed('Vault is sealed');
  outage.answered();
  outage.answered();
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
