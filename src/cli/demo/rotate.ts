import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { readOnlyQuery } from '../../gateway/read-only-query.ts';
import { createRoutes } from '../../gateway/router.ts';
import { createAgent } from '../../net/agent.ts';
import { NoResponse, sendSmallRequest } from '../../net/small-request.ts';
import type { KeyKind } from '../../oauth1/methods.ts';
import { versionName } from '../../observability/status/format.ts';
import type { Status } from '../../observability/status/schema.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, type Io, oneOf, parsed, wholeNumber } from '../shared/command.ts';
import { validConfig } from '../shared/config-file.ts';
import { readStatus } from '../status/read-status.ts';
import { demoConfigFile, demoEnvironment, loadDemoConfig } from './config.ts';
import { generateKey, hasKey, type NewKey, writeKey } from './keys.ts';
import { findDemo, hasStatusPage, type RunningDemo, settingsOf } from './ready-file.ts';

/** Milliseconds. */
const responseTimeout = 5000;

const maxResponseBytes = 1_048_576;

const options = {
  'login LOGIN': 'Login of the scenario (default: its first one)',
  'kind KIND': parsed(
    'Which key of the login: private_key or control_key',
    oneOf(['private_key', 'control_key']),
    'private_key',
  ),
  'after SECONDS': parsed(
    'How long the new key waits until the gateway accepts it, 0 to 3600',
    wholeNumber(0, 3600, 'must be a whole number of seconds from 0 to 3600'),
    '20',
  ),
  'ready-file FILE': 'Ready file of the demo (default: the demo that was started last)',
};

const spec = {
  name: 'demo rotate',
  usage: '[--login LOGIN] [--kind KIND] [--after SECONDS] [--ready-file FILE]',
  about:
    'Rotates a key of a running demo, to watch on its status page. The key directory gets a new key, which waits until the gateway simulator accepts it in place of the old one. Meanwhile one query per second goes through the proxy; none of them fails. A payment at the moment of the switch may get a 403, and is then not processed (docs/key-rotation.md). After Ctrl-C the simulator accepts the new key at once.',
  options,
  exitCodes: '0 the new key is in use and every query succeeded, 1 failure, 2 invalid usage',
};

/** Milliseconds between two queries. */
const pause = 1000;

export const rotateDemoKey = command(
  spec,
  async ({ values: { kind, login, after, 'ready-file': readyFile } }, io, signals) => {
    const stop = new AbortController();
    void signals.stop.then(() => stop.abort());
    const demo = findDemo(readyFile);
    if (demo === undefined) throw new CliError('no demo is running: start one with countersign demo');
    const rotation = rotationOf(demo, kind, await generateKey(kind), await queryOf(demo, kind, login));
    return rotate(rotation, kind, after * 1000, io, stop.signal);
  },
);

/** Prints what happens with the seconds since the start. @param after milliseconds */
async function rotate(
  rotation: ReturnType<typeof rotationOf>,
  kind: KeyKind,
  after: number,
  io: Io,
  stop: AbortSignal,
): Promise<number> {
  const { login, operation, page } = rotation;
  const first = await rotation.query();
  if (first !== 200) {
    throw new CliError(
      `a query of ${login} gets status ${first} before the rotation: choose another --login, or restart the demo`,
    );
  }
  let versions = await rotation.versions();
  const watch = page === undefined ? '' : ` Watch it on ${page}.`;
  io.out(`Rotating the ${kind} of ${login}, with one ${operation} query per second.${watch}`);
  const start = performance.now();
  const elapsed = (): number => performance.now() - start;
  const print = (event: string): void => {
    const seconds = String(Math.floor(elapsed() / 1000));
    io.out(`${seconds.padStart(4)} s  ${event}${versions === undefined ? '' : `: ${versions}`}`);
  };
  const failures: number[] = [];
  let queries = 0;
  const query = async (): Promise<void> => {
    const status = await rotation.query();
    queries += 1;
    if (status === 200) return;
    failures.push(status);
    io.err(`A query got status ${status}.`);
  };
  rotation.writeNewKey();
  print('The key directory has a new key, not read yet');
  const end = elapsed() + after;
  for (let left = after; left > 0 && !stop.aborted; left = end - elapsed()) {
    await query();
    const before = versions;
    versions = await rotation.versions();
    if (versions !== before) print('Countersign has read it');
    // Rejects only when it is stopped.
    await wait(Math.min(pause, left), undefined, { signal: stop }).catch(() => {});
  }
  await rotation.registerNewKey();
  await query();
  versions = await rotation.versions();
  print('The gateway accepts it and no other');
  io.out(`Queries: ${queries}, failed: ${failures.length}.`);
  return failures.length === 0 ? exitCode.done : exitCode.failed;
}

/**
 * A query of the scenario that needs the key.
 *
 * @param given login; default: the first one that has such a query
 * @throws CliError if there is none
 */
async function queryOf(demo: RunningDemo, kind: KeyKind, given: string | undefined) {
  const settings = await settingsOf(demo);
  const { config } = validConfig(demoConfigFile, await loadDemoConfig(demo, settings));
  const { logins, endpoints } = settings.scenario;
  const mapped = config.environments[demoEnvironment]?.endpoints ?? {};
  // The proxy rejects a query for an endpoint that is mapped to another login.
  const endpointOf = (login: string): string | undefined => endpoints.find((id) => mapped[id] === login);
  const candidates = Object.entries(logins)
    .filter(([login, { balances }]) => (kind === 'private_key' ? endpointOf(login) : balances) !== undefined)
    .map(([login]) => login);
  const login = given ?? candidates[0];
  if (login === undefined || !candidates.includes(login)) {
    throw new CliError(
      `the scenario has no query that needs a ${kind} of ${login ?? 'any login'}. It has one for: ${candidates.length === 0 ? 'none' : candidates.join(', ')}`,
      exitCode.usage,
    );
  }
  const subject = {
    environment: demoEnvironment,
    login,
    endpoint: endpointOf(login),
    clientOrderId: 'rotation',
  };
  const signature = kind === 'control_key' ? 'HMAC-SHA1' : 'RSA-SHA256';
  const query = readOnlyQuery(createRoutes(config), subject, signature);
  if (typeof query === 'string') {
    throw new CliError(`the scenario has no read-only operation with ${signature}: choose another --kind`);
  }
  return { login, token: settings.scenario.caller.tokens?.[0], ...query };
}

/** A rotation of one key, step by step. */
function rotationOf(
  demo: RunningDemo,
  kind: KeyKind,
  newKey: NewKey,
  { login, token, destination, form }: Awaited<ReturnType<typeof queryOf>>,
) {
  const address = `${demo.proxyUrl}/${demoEnvironment}${destination.url.pathname}`;
  const body = new URLSearchParams(form.map(([name, value]): [string, string] => [name, value])).toString();
  const directory = join(demo.keyDirectory, demoEnvironment, login);
  const page = hasStatusPage(demo) ? `${demo.adminUrl}/` : undefined;
  return {
    login,
    operation: destination.operation.name,
    page,
    /** Sends a read-only query that needs the key through the proxy. @returns the status */
    query: (): Promise<number> =>
      sendToDemo('POST', address, 'application/x-www-form-urlencoded', body, token),
    /** The step of the operator: the key source gets a new key. */
    writeNewKey: (): void => writeKey(directory, newKey),
    /**
     * The step of the gateway: it accepts the new key, and no other.
     *
     * @throws CliError if another rotation has replaced the key: Countersign would have none that the gateway accepts
     */
    async registerNewKey(): Promise<void> {
      if (!hasKey(directory, newKey)) {
        throw new CliError(
          'another rotation has replaced the new key: let that one end, then repeat this one',
        );
      }
      const url = `${demo.gatewayAdminUrl}/keys/${encodeURIComponent(login)}`;
      const registration = JSON.stringify(newKey.registration);
      const status = await sendToDemo('PUT', url, 'application/json', registration);
      if (status !== 200) throw new CliError(`the simulator did not accept the new key (status ${status})`);
    },
    /** Those on the status page, such as `version 8 waiting, version 7 in use`. `undefined`: the demo has no page. */
    async versions(): Promise<string | undefined> {
      if (page === undefined) return undefined;
      const server = { url: new URL('/status.json', page), token: undefined, tls: {} };
      return versionsOf(await readStatus(server), login, kind);
    },
  };
}

function versionsOf({ keys }: Status, login: string, kind: KeyKind): string {
  const key = keys.list.find((one) => one.login === login && one.kind === kind);
  if (key === undefined) return 'no version yet';
  return key.versions
    .map(({ version, state }) => `${versionName(version)} ${state.replace('-', ' ')}`)
    .join(', ');
}

/**
 * Sends one request to a port of a running demo.
 *
 * @param token of its scenario, if that requires one
 * @returns the status
 * @throws CliError if there is no response
 */
async function sendToDemo(
  method: string,
  address: string,
  contentType: string,
  body: string,
  token?: string,
): Promise<number> {
  const url = new URL(address);
  const agent = createAgent(address, {}, { keepAlive: false });
  const headers = {
    'Content-Type': contentType,
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  };
  try {
    const way = { agent, timeout: responseTimeout, maxResponseBytes };
    return (await sendSmallRequest({ method, url, headers, body }, way)).status;
  } catch (error) {
    if (!(error instanceof NoResponse)) throw error;
    throw new CliError(`${url.origin}: ${error.message}. Check whether the demo still runs.`);
  }
}
