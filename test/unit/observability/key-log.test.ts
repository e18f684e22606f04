import { expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import type { LostKey, RingRemoval } from '../../../src/keys/key-source.ts';
import type { KeyRing } from '../../../src/keys/ring.ts';
import { createKeyLog } from '../../../src/observability/key-log.ts';

const acme = { environment: 'sandbox', login: 'acme' };

/** What is logged of an update, as texts. */
function logged(ring: KeyRing | undefined, lost: readonly LostKey[] = [], removal?: RingRemoval): string[] {
  const { keyLog, lines } = create();
  keyLog.keyRingUpdated(acme, ring, removal, lost);
  return lines;
}

function create() {
  const lines: string[] = [];
  const log = {
    message: (level: string, text: string, { versions = '', kind = '', version = '', cause = '' } = {}) => {
      lines.push([level, text, versions, kind, version, cause].filter((part) => part !== '').join(' '));
    },
  };
  return { lines, keyLog: createKeyLog({ log, monotonic: () => 0, source: 'vault' }) };
}

it('an unusable key is logged as an error unless a newer version superseded it', () => {
  const [newest = [], older = []] = [3, 2].map((version) => parseKeys({ control_key: '' }, { version }));
  const superseded = older.map((entry) => ({ ...entry, supersededAt: new Date(0) }));
  expect(logged([...newest, ...superseded])).toEqual([
    'info keys updated control_key 3, control_key 2',
    expect.stringMatching(/^error .*control key \(field control_key\) is empty.* control_key 3$/),
  ]);
});

it('a key that the newest version lacks is logged as missing', () => {
  const ring = parseKeys({ control_key: 'k' }, { version: 1 });
  expect(logged(ring, [{ kind: 'control_key', version: 2 }])).toEqual([
    'warn key missing in the key source control_key 2',
  ]);
});

it('keys that were deleted are a warning, and keys that leave the cache are not', () => {
  expect(logged(undefined)).toEqual(['warn keys deleted in the key source']);
  expect(logged(undefined, [], 'unused')).toEqual(['info keys removed from the cache unused']);
});

it('what the key source denies, and a login to it that fails, are errors until they end', () => {
  const { keyLog, lines } = create();
  keyLog.loginsDenied(2, 'no permission');
  keyLog.loginsDenied(0, 'no permission');
  keyLog.loginFailed('the secret ID is used up');
  keyLog.keySourceUp(true, undefined);
  keyLog.keyProblem('the key of a login is too long', acme);
  expect(lines).toEqual([
    'error key source denies reading keys no permission',
    'info key source permits reading keys again',
    'error key source unavailable the secret ID is used up',
    'info key source available again',
    'error the key of a login is too long',
  ]);
});

it.each(['unavailable', 'denied'] as const)('a Vault that does not sign is an error: %s', (result) => {
  const { keyLog, lines } = create();
  keyLog.transitSigned('sandbox', result, 1, 'sealed');
  keyLog.transitSigned('production', 'ok', 1, undefined);
  expect(lines).toEqual(['error Vault does not sign sealed']);
  keyLog.transitSigned('sandbox', 'ok', 1, undefined);
  expect(lines.slice(1)).toEqual(['info Vault signs again']);
});

it('logins that are missing have a line for the first, and whenever their number has doubled', () => {
  const { keyLog, lines } = create();
  const logged = [1, 2, 3, 4, 2, 7, 8].map((count) => {
    keyLog.loginsNotFound(count, acme);
    return lines.splice(0).length;
  });
  expect(logged).toEqual([1, 1, 0, 1, 0, 0, 1]);
});

it('logins that are missing in a source end with it', () => {
  const lines: string[] = [];
  const log = { message: (_level: string, text: string) => void lines.push(text) };
  const keyLog = createKeyLog({ log, monotonic: () => 0, source: 'vault' });
  keyLog.loginsNotFound(1, acme);
  expect(lines).toEqual(['login not found in the key source; its cached keys are used']);
  keyLog.keySourceReplaced('directory');
  expect(lines.slice(1)).toEqual(['no login with cached keys is missing in the key source any more']);
  keyLog.loginsNotFound(0, undefined);
  expect(lines).toHaveLength(2);
});
