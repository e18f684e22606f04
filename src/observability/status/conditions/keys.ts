import type { KeyStatus, StatusFacts } from '../facts.ts';
import { capitalized, clockText, counted, kindName, percent, versionName } from '../format.ts';
import { isNoKey, rejections } from '../thresholds.ts';
import { because, began, type Conditions, checkOnline, type Found, failures, quiet } from './condition.ts';

/** The keys of logins, and whether the gateway accepts them. */
export const ofKeys = {
  'key-rejected': {
    severity: 'bad',
    when: 'The gateway rejected the key that signs, and has not accepted it since.',
    find: keysWith(rejected),
    todo: 'If the gateway has a new key, store it in the key source: Countersign looks for it each second while there are requests.',
    section: 'CountersignGatewayRejections',
  },
  'gateway-rejections': {
    when: 'More than 2 % of the responses to a login (finding: of an environment) are 401 or 403.',
    // While a clock is off, or every login is rejected, that is the finding.
    find: (facts) =>
      facts.environments.map((one) => {
        const severity = rejections(one);
        const failure = one.failures.find(({ cause }) => cause === 'rejected');
        if (severity === 'ok' || isNoKey(one) || failure === undefined) return undefined;
        const { name: environment, rejectedShare, allFail, logins } = one;
        const { rejected, rejectedNames } = logins;
        const { operation, since, lastAt } = failure;
        const only = operation ? `, all to ${operation}` : '';
        const [login = null] = rejected === 1 ? rejectedNames : [];
        const others = rejected - rejectedNames.length;
        const more = others > 0 ? ` and ${counted(others, 'other login')}` : '';
        const names = rejectedNames.length === 0 ? '' : `, last of ${rejectedNames.join(', ')}${more}`;
        const summary = `${percent(rejectedShare ?? 0)} of responses from ${environment} are 401 or 403${allFail ? ', and now every request fails' : ''}${only}${names}`;
        const state = [began(facts, since), quiet(facts.at, lastAt)];
        return { severity, summary, state, environment, login };
      }),
    todo: 'Compare the fingerprint of the key with what the gateway has: `countersign keys verify`. If it accepts the key, the login may lack a permission.',
    alert: 'CountersignGatewayRejections',
    core: true,
    title: 'The gateway of <environment> rejects requests of <login>',
    page: `
        (
          sum by (namespace, release, environment, login) (rate(countersign_login_requests_total{result="rejected"}[10m]))
            /
          sum by (namespace, release, environment, login) (rate(countersign_login_requests_total{result=~"rejected|other"}[10m]))
        ) > $gatewayRejectionsRatio
          and
        sum by (namespace, release, environment, login) (increase(countersign_login_requests_total{result="rejected"}[10m])) >= $gatewayRejectionsCount`,
    for: '5m',
    causes: ['current-key', 'other-key'],
  },
  'key-missing': {
    when: 'A login has no usable key. A finding also if the newest version was deleted, and an older one still signs.',
    ...failures(
      { 'key-missing': (kind) => [`a login has no ${kind === '' ? 'key of either kind' : kindName(kind)}`] },
      keysWith(missing),
    ),
    todo: 'Store it in the key source; Countersign reads it within a minute.',
    alert: 'CountersignKeyMissing',
    core: true,
    title: 'No usable key of <login> in <environment>',
    ticket:
      'sum by (namespace, release, environment, login) (increase(countersign_login_requests_total{result="no-key"}[15m])) >= $keyMissingCount',
    for: '1m',
  },
  'key-unusable': {
    when: 'The newest version of a key cannot be used, or lacks it. An older one signs, if there is one.',
    ...failures(
      { 'key-unusable': (kind) => [`the ${kindName(kind)} of a login cannot be used`] },
      keysWith(unusable),
    ),
    todo: 'Store a correct key as a new version.',
    alert: 'CountersignKeyUnusable',
    title: 'The newest <kind> of <login> in <environment> cannot be used',
    ticket: 'max by (namespace, release, environment, login, kind) (countersign_key_unusable_versions) > 0',
    for: '1m',
  },
  'key-waiting': {
    severity: 'info',
    when: 'A new version of a key waits for the gateway. The alert: for 2 hours.',
    find: keysWith(waiting),
    todo: 'Has the gateway the new public key? `countersign keys verify` shows which versions it accepts.',
    alert: 'CountersignRotationStuck',
    title: 'The rotation of the <kind> of <login> in <environment> is not finished',
    ticket: `
        max by (namespace, release, environment, login, kind) (countersign_key_version)
          - max by (namespace, release, environment, login, kind) (countersign_key_signing_version) > 0`,
    for: '2h',
  },
  'key-rotation-due': {
    when: 'The latest version of a key in use is older than a year.',
    todo: 'Rotate it.',
    alert: 'CountersignKeyRotationDue',
    title: 'The <kind> of <login> in <environment> is <value|humanizeDuration> old',
    ticket:
      'time() - max by (namespace, release, environment, login, kind) (countersign_key_created_timestamp_seconds) > $keyAgeDays * 86400',
    for: '1h',
  },
  'keys-stale': {
    severity: 'warn',
    when: 'Cached keys could not be read again although the key source is up.',
    // While the key source is down, denies keys, or does not know all of these logins, that is the finding.
    find({ keySource: { state, loginsNotFound }, keys: { list } }) {
      const stale = list.filter(({ staleSince }) => staleSince !== null);
      const logins = new Set(stale.map(({ environment, login }) => `${environment}/${login}`));
      const [first] = stale;
      if (first === undefined || state === 'down' || state === 'denied' || logins.size <= loginsNotFound)
        return undefined;
      const { environment, login, readProblem } = stale.find((one) => one.readProblem !== null) ?? first;
      const which =
        stale.length === 1
          ? `The key of ${login} in ${environment}`
          : `${counted(stale.length, 'cached key')}, such as of ${login} in ${environment},`;
      return { summary: `${which} could not be read again${because(readProblem)}`, environment, login };
    },
    todo: `Cached keys sign until \`keys.cache.staleIfError\` has passed. ${checkOnline}`,
    section: 'Keys cannot be read',
  },
} satisfies Conditions;

/** Of other keys in a finding. */
const maxNames = 5;

/** One for each severity, however many keys it concerns. @param check its summary follows the name of the key */
function keysWith(check: (key: KeyStatus, facts: StatusFacts) => Found | undefined) {
  return (facts: StatusFacts): Found[] => {
    const all = facts.keys.list.flatMap((key) => {
      const found = check(key, facts);
      const { environment, login, kind } = key;
      const name = `${kindName(kind)} of ${login} in ${environment}`;
      return found === undefined ? [] : [{ ...found, environment, login, name }];
    });
    return [...Map.groupBy(all, ({ severity }) => severity).values()].flatMap(([first, ...others]) => {
      if (first === undefined) return [];
      const { name, summary, state = [], ...about } = first;
      return [{ ...about, summary: `${capitalized(name)}: ${summary}`, state: [theSame(others), ...state] }];
    });
  };
}

function theSame(others: readonly { readonly name: string }[]): string {
  if (others.length === 0) return '';
  const names = others.slice(0, maxNames).map(({ name }) => name);
  const such = others.length > maxNames ? 'such as ' : '';
  return `The same for ${counted(others.length, 'other key')}: ${such}${names.join(', ')}.`;
}

function missing({ missingSince, signingVersion }: KeyStatus, { at }: StatusFacts): Found | undefined {
  if (missingSince === null || signingVersion === null) return undefined;
  const until = '`keys.rotationGracePeriod` has passed, or longer if the gateway accepted it last';
  const state = [`${capitalized(versionName(signingVersion))} still signs, until ${until}.`];
  const summary = `missing in the key source since ${clockText(at, missingSince)}`;
  return { severity: 'warn', summary, state };
}

function unusable(key: KeyStatus): Found | undefined {
  // Of one that was deleted, what requests miss is a finding.
  if (key.signingVersion === null && key.missingSince !== null) return undefined;
  if (key.signingVersion === null) {
    const problem = key.versions.find((one) => one.problem !== null)?.problem ?? null;
    const state = [sentence(problem), 'Requests that need this key fail.'];
    return { severity: 'bad', summary: 'no version can sign', state };
  }
  const one = newer(key, 'unusable');
  if (one === undefined) return undefined;
  const state = [sentence(one.problem), `${capitalized(versionName(key.signingVersion))} still signs.`];
  return { severity: 'warn', summary: `${versionName(one.version)} cannot be used`, state };
}

function rejected({ missingSince, signingVersion, versions }: KeyStatus): Found | undefined {
  const signing = versions.find(({ version }) => version === signingVersion);
  if (signing?.state !== 'rejected' || missingSince !== null) return undefined;
  return { summary: `the gateway rejects ${versionName(signing.version)}` };
}

function waiting(key: KeyStatus): Found | undefined {
  const { kind, missingSince, signingVersion } = key;
  const next = newer(key, 'waiting');
  if (next === undefined || missingSince !== null || signingVersion === null) return undefined;
  const name = versionName(next.version);
  const todo =
    kind === 'private_key'
      ? `Register the public key of ${name} at the gateway`
      : `If ${name} is the control key that the gateway sent, query the balance of the login through each instance`;
  return {
    summary: `${name} is waiting for the gateway`,
    state: [`${capitalized(versionName(signingVersion))} signs until then.`],
    todo: `${todo}; \`countersign keys verify\` shows when it is accepted.`,
  };
}

/** The newest version in a state; an older one than what signs does not matter any more. */
function newer({ versions, signingVersion }: KeyStatus, state: string) {
  return versions.find((one) => one.state === state && one.version > (signingVersion ?? 0));
}

/** Empty without a text. */
function sentence(text: string | null): string {
  return text === null ? '' : `${capitalized(text).replace(/\.$/, '')}.`;
}
