import { beforeEach, describe, expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import { createKeyLog } from '../../../src/observability/key-log.ts';
import { createOutageLog, createSteadyState, type SteadyState } from '../../../src/observability/outages.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';

const second = 1000;
const minute = 60_000;
const messages = { failed: 'failed', recovered: 'recovered' };

let now: number;
let lines: string[];
/** Each line as its level, text and the values of its fields, but those that name a login. */
const log = {
  message: (level: string, text: string, fields: Readonly<Record<string, unknown>> = {}) => {
    const { environment: _, login: __, ...shown } = fields;
    lines.push([level, text, ...Object.values(shown)].join(' '));
  },
};
beforeEach(() => {
  [now, lines] = [0, []];
});

describe('an outage', () => {
  const start = () => createOutageLog({ log, monotonic: () => now, source: 'vault', messages });

  it('is one error line at the beginning, one each five minutes, and one info line at the end', () => {
    const outage = start();
    outage(true);
    for (; now <= 12 * minute; now += second) outage(false, 'sealed');
    outage(true);
    outage(true);
    expect(lines).toEqual([
      'error failed vault sealed 0',
      'error failed vault sealed 300',
      'error failed vault sealed 600',
      'info recovered vault 721',
    ]);
  });

  it('has another line for another cause, and one each for causes that alternate', () => {
    const outage = start();
    for (; now < minute; now += second) outage(false, 'timeout');
    for (; now < 4 * minute; now += second) outage(false, now % 2000 === 0 ? 'sealed' : 'timeout');
    outage(true);
    outage(false, 'sealed');
    expect(lines).toEqual([
      'error failed vault timeout 0',
      'error failed vault sealed 60',
      'info recovered vault 240',
      'error failed vault sealed 0',
    ]);
  });
});

describe('whether a source is up', () => {
  let clock: ManualClock;
  let reports: string[];
  let state: SteadyState;
  beforeEach(() => {
    [clock, reports] = [new ManualClock(), []];
    state = createSteadyState({
      monotonic: clock.now,
      setTimer: clock.setTimer,
      report: (up, cause) => void reports.push(up ? 'up' : `down: ${cause}`),
    });
  });

  /** An outage of half a second, and as long after it. */
  function outage(): void {
    state.failed('throttled');
    clock.advance(0.5 * second);
    state.responded();
    clock.advance(0.5 * second);
  }

  it('is reported at once for an outage, and for a second one soon after it', () => {
    state.responded();
    outage();
    outage();
    expect(reports).toEqual(['up', 'down: throttled', 'up', 'down: throttled', 'up']);
  });

  it('is one state from the third outage within a minute, until half a minute without a failure', () => {
    for (let index = 0; index < 600; index += 1) outage();
    expect(reports.filter((report) => report === 'up')).toHaveLength(2);
    expect(reports.at(-1)).toBe('down: throttled');
    clock.advance(28 * second);
    state.responded();
    expect(reports.at(-1)).toBe('down: throttled');
    clock.advance(2 * second);
    expect(reports.at(-1)).toBe('up');
    expect(clock.nextTimer).toBeUndefined();
  });

  it('stays down if it fails again before that, and is up with the first response after a long outage', () => {
    for (let index = 0; index < 3; index += 1) outage();
    clock.advance(20 * second);
    state.failed('sealed');
    clock.advance(20 * second);
    expect(reports.at(-1)).toBe('down: sealed');
    clock.advance(20 * second);
    state.responded();
    expect(reports.at(-1)).toBe('up');
  });
});

describe('the log of keys', () => {
  const acme = { environment: 'sandbox', login: 'acme' };
  const start = () => createKeyLog({ log, monotonic: () => now, source: 'vault' });

  it('has an unusable key as an error unless a newer version superseded it', () => {
    const [newest = [], older = []] = [3, 2].map((version) => parseKeys({ control_key: '' }, { version }));
    const superseded = older.map((entry) => ({ ...entry, supersededAt: new Date(0) }));
    start().keyRingUpdated(acme, [...newest, ...superseded], undefined, []);
    expect(lines).toEqual([
      'info keys updated control_key 3, control_key 2',
      expect.stringMatching(/^error .*control key \(field control_key\) is empty.* control_key 3$/),
    ]);
  });

  it('has a warning of a key that is missing or was deleted, and not of keys that leave the cache', () => {
    const ring = parseKeys({ control_key: 'k' }, { version: 1 });
    start().keyRingUpdated(acme, ring, undefined, [{ kind: 'control_key', version: 2 }]);
    start().keyRingUpdated(acme, undefined, undefined, []);
    start().keyRingUpdated(acme, undefined, 'unused', []);
    expect(lines).toEqual([
      'warn key missing in the key source control_key 2',
      'warn keys deleted in the key source',
      'info keys removed from the cache unused',
    ]);
  });

  it('has errors of what the key source denies, and of a login to it that fails, until they end', () => {
    const keyLog = start();
    keyLog.loginsDenied(2, 'no permission');
    keyLog.loginsDenied(0, 'no permission');
    keyLog.loginFailed('the secret ID is used up');
    keyLog.keySourceUp(true, undefined);
    keyLog.keyProblem('the key of a login is too long', acme);
    expect(lines).toEqual([
      'error key source denies reading keys vault no permission 0',
      'info key source permits reading keys again vault 0',
      'error key source unavailable vault the secret ID is used up 0',
      'info key source available again vault 0',
      'error the key of a login is too long',
    ]);
  });

  it.each(['unavailable', 'denied'] as const)('has an error of a Vault that does not sign: %s', (result) => {
    const keyLog = start();
    keyLog.transitSigned('sandbox', result, 1, 'sealed');
    keyLog.transitSigned('production', 'ok', 1, undefined);
    keyLog.transitSigned('sandbox', 'ok', 1, undefined);
    expect(lines).toEqual(['error Vault does not sign sandbox sealed 0', 'info Vault signs again sandbox 0']);
  });
});
