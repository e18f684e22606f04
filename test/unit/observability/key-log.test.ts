import { expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import type { LostKey } from '../../../src/keys/key-source.ts';
import type { KeyRing } from '../../../src/keys/ring.ts';
import { createKeyLog } from '../../../src/observability/key-log.ts';

const acme = { environment: 'sandbox', login: 'acme' };

/** What is logged of an update, as texts. */
function logged(ring: KeyRing | undefined, lost: readonly LostKey[] = []): string[] {
  const lines: string[] = [];
  const log = {
    message: (level: string, text: string, { versions = '', kind = '', version = '' } = {}) => {
      lines.push([level, text, versions, kind, version].filter((part) => part !== '').join(' '));
    },
  };
  const keyLog = createKeyLog({ log, monotonic: () => 0, source: 'vault' });
  keyLog.keyRingUpdated(acme, ring, undefined, lost);
  return lines;
}

it('an unusable key is logged as an error unless a newer version superseded it', () => {
  const [newest = [], older = []] = [3, 2].map((version) => parseKeys({ control_key: '' }, { version }));
  const superseded = older.map((entry) => ({ ...entry, supersededAt: new Date(0) }));
  expect(logged([...newest, ...superseded])).toEqual([
    'info keys updated control_key 3, control_key 2',
    expect.stringMatching(/^error .*control key is empty.* control_key 3$/),
  ]);
});

it('a key that the newest version lacks is logged as missing', () => {
  const ring = parseKeys({ control_key: 'k' }, { version: 1 });
  expect(logged(ring, [{ kind: 'control_key', version: 2 }])).toEqual([
    'warn key missing in the key source control_key 2',
  ]);
});

it('logins that are missing in a source end with it', () => {
  const lines: string[] = [];
  const log = { message: (_level: string, text: string) => void lines.push(text) };
  const keyLog = createKeyLog({ log, monotonic: () => 0, source: 'vault' });
  keyLog.loginsNotFound(1, acme);
  keyLog.keySourceReplaced('vault', true);
  expect(lines).toEqual(['login not found in the key source; its cached keys are used']);
  keyLog.keySourceReplaced('directory', false);
  expect(lines.slice(1)).toEqual(['no login with cached keys is missing in the key source any more']);
  keyLog.loginsNotFound(0, undefined);
  expect(lines).toHaveLength(2);
});
