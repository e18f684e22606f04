import type { Check, Found } from './condition-checks.ts';
import type { KeyStatus, StatusFacts } from './facts.ts';
import { clockText, counted, kindName, versionName } from './format.ts';

/** What there is to say about one key; `undefined`: nothing. */
type KeyCheck = (
  key: KeyStatus,
  facts: StatusFacts,
) => (Pick<Found, 'severity' | 'todo'> & { readonly what: string; readonly state?: string }) | undefined;

/** Of other keys in a finding. */
const maxNames = 5;

/** One for each severity, however many keys it concerns. */
export function keysWith(check: KeyCheck): Check {
  return (facts) => {
    const all = facts.keys.list.flatMap((key) => {
      const found = check(key, facts);
      return found === undefined ? [] : [{ ...found, key }];
    });
    return [...Map.groupBy(all, ({ severity }) => severity).values()].flatMap(([first, ...others]) => {
      if (first === undefined) return [];
      const { what, state = '', key, ...about } = first;
      const { environment, login } = key;
      const summary = `${keyName(key)}: ${what}`;
      return [{ ...about, summary, state: [theSame(others), state], environment, login }];
    });
  };
}

function theSame(others: readonly { readonly key: KeyStatus }[]): string {
  if (others.length === 0) return '';
  const names = others.slice(0, maxNames).map(({ key }) => keyName(key));
  const such = others.length > maxNames ? 'such as ' : '';
  return `The same for ${counted(others.length, 'other key')}: ${such}${names.join(', ')}.`;
}

function keyName({ kind, login, environment }: KeyStatus): string {
  return `${kindName(kind)} of ${login} in ${environment}`;
}

export const missing: KeyCheck = ({ missingSince, signingVersion }, { at }) => {
  if (missingSince === null || signingVersion === null) return undefined;
  const until = '`keys.rotationGracePeriod` has passed, or longer if the gateway accepted it last';
  const state = `${capitalized(versionName(signingVersion))} still signs, until ${until}.`;
  return { severity: 'warn', what: `missing in the key source since ${clockText(at, missingSince)}`, state };
};

export const unusable: KeyCheck = (key) => {
  // Of one that was deleted, what requests miss is a finding.
  if (key.signingVersion === null && key.missingSince !== null) return undefined;
  if (key.signingVersion === null) {
    const problem = key.versions.find((one) => one.problem !== null)?.problem ?? null;
    const state = `${sentence(problem)}Requests that need this key fail.`;
    return { severity: 'bad', what: 'no version can sign', state };
  }
  const one = newer(key, 'unusable');
  if (one === undefined) return undefined;
  const what = `${versionName(one.version)} cannot be used`;
  const state = `${sentence(one.problem)}${capitalized(versionName(key.signingVersion))} still signs.`;
  return { severity: 'warn', what, state };
};

export const rejected: KeyCheck = ({ missingSince, signingVersion, versions }) => {
  const signing = versions.find(({ version }) => version === signingVersion);
  if (signing?.state !== 'rejected' || missingSince !== null) return undefined;
  return { what: `the gateway rejects ${versionName(signing.version)}` };
};

export const waiting: KeyCheck = (key) => {
  const { kind, missingSince, signingVersion } = key;
  const next = newer(key, 'waiting');
  if (next === undefined || missingSince !== null || signingVersion === null) return undefined;
  const name = versionName(next.version);
  const todo =
    kind === 'private_key'
      ? `Register the public key of ${name} at the gateway`
      : `The gateway makes control keys: check that ${name} is the one it sent`;
  const state = `${capitalized(versionName(signingVersion))} signs until then.`;
  return {
    what: `${name} is waiting for the gateway`,
    state,
    todo: `${todo}; \`countersign keys verify\` shows when it is accepted.`,
  };
};

/** The newest version in a state; an older one than what signs does not matter any more. */
function newer({ versions, signingVersion }: KeyStatus, state: string) {
  return versions.find((one) => one.state === state && one.version > (signingVersion ?? 0));
}

/** With a space behind it; empty without a text. */
function sentence(text: string | null): string {
  return text === null ? '' : `${capitalized(text).replace(/\.$/, '')}. `;
}

function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
