import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { versionName } from '../../observability/status/format.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, type Io, parsed, wholeNumber } from '../shared/command.ts';
import { validConfig } from '../shared/config-file.ts';
import { readStatus } from '../status/read-status.ts';
import { demoConfigFile, demoEnvironment, loadDemoConfig } from './config.ts';
import { writePrivateKey } from './keys.ts';
import { demoOption, findDemo, hasStatusPage, type RunningDemo, settingsOf, usualUrl } from './ready-file.ts';

/** Milliseconds. */
const responseTimeout = 5000;

const options = {
  'login LOGIN': 'Login of the scenario (default: the first one that has an endpoint)',
  'after SECONDS': parsed(
    'How long the new key waits until the gateway accepts it, 0 to 3600',
    wholeNumber(0, 3600, 'must be a whole number of seconds from 0 to 3600'),
    '20',
  ),
  ...demoOption,
};

const spec = {
  name: 'demo rotate',
  usage: '[--login LOGIN] [--after SECONDS] [--gateway-admin-url URL]',
  about:
    'Rotates the RSA key of a login of a running demo, to watch on its status page. The key directory gets a new key. When Countersign has read it, it waits until the gateway simulator accepts it in place of the old one. Meanwhile one query per second goes through the proxy; none of them fails. A payment at the moment of the switch may get a 403, and is then not processed (docs/key-rotation.md). After Ctrl-C the simulator accepts the new key at once.',
  options,
  exitCodes: '0 the new key is in use and every query succeeded, 1 failure, 2 invalid usage',
};

/** Milliseconds between two queries. */
const pause = 1000;
/** Milliseconds for Countersign to read the new key; it reads them again after 5 s. */
const readTimeout = 30_000;

export const rotateDemoKey = command(
  spec,
  async ({ values: { login, after, 'gateway-admin-url': url = usualUrl } }, io, signals) => {
    const stop = new AbortController();
    void signals.stop.then(() => stop.abort());
    const demo = await findDemo(url);
    if (demo === undefined)
      throw new CliError(
        `no demo responds at ${url}: start one with countersign demo, or name its admin API with --gateway-admin-url`,
      );
    return rotate(demo, await subjectOf(demo, login), after * 1000, io, stop.signal);
  },
);

/** Prints what happens with the seconds since the start. @param after milliseconds */
async function rotate(
  demo: RunningDemo,
  { login, sendQuery }: Awaited<ReturnType<typeof subjectOf>>,
  after: number,
  io: Io,
  stop: AbortSignal,
): Promise<number> {
  const first = await sendQuery();
  if (first !== 200)
    throw new CliError(`a query of ${login} gets status ${first} before the rotation: restart the demo`);
  let versions = await versionsOf(demo, login);
  const watch = hasStatusPage(demo) ? ` Watch it on ${demo.adminUrl}/.` : '';
  io.out(`Rotating the private_key of ${login}, with one order-status query per second.${watch}`);
  const start = performance.now();
  const elapsed = (): number => performance.now() - start;
  const print = (event: string): void => {
    const seconds = String(Math.floor(elapsed() / 1000));
    io.out(`${seconds.padStart(4)} s  ${event}${versions === undefined ? '' : `: ${versions}`}`);
  };
  let [queries, failures] = [0, 0];
  const query = async (): Promise<void> => {
    const status = await sendQuery();
    queries += 1;
    if (status === 200) return;
    failures += 1;
    io.err(`A query got status ${status}.`);
  };
  const publicKey = await writePrivateKey(join(demo.keyDirectory, demoEnvironment, login));
  print('The key directory has a new key, not read yet');
  const before = versions;
  // What has no status page does not show it.
  let isRead = versions === undefined;
  const end = elapsed() + after;
  const left = (): number => (stop.aborted ? 0 : end + (isRead ? 0 : readTimeout) - elapsed());
  while (left() > 0) {
    await query();
    versions = await versionsOf(demo, login);
    if (!isRead && versions !== before) {
      isRead = true;
      print('Countersign has read it');
    }
    // Rejects only when it is stopped.
    await wait(Math.max(0, Math.min(pause, left())), undefined, { signal: stop }).catch(() => {});
  }
  await register(demo, login, publicKey);
  await query();
  versions = await versionsOf(demo, login);
  print('The gateway accepts it and no other');
  io.out(`Queries: ${queries}, failed: ${failures}.`);
  return failures === 0 ? exitCode.done : exitCode.failed;
}

/**
 * A login with an endpoint, and a query that needs its RSA key.
 *
 * @param given login; default: the first one
 * @throws CliError if it has none
 */
async function subjectOf(demo: RunningDemo, given: string | undefined) {
  const settings = await settingsOf(demo);
  const { config } = validConfig(demoConfigFile, await loadDemoConfig(demo, settings));
  const { endpoints, product, caller, orders } = settings.scenario;
  const mapped = config.environments[demoEnvironment]?.endpoints ?? {};
  const endpoint = endpoints.find((id) => given === undefined || mapped[id] === given);
  const login = endpoint && mapped[endpoint];
  if (login === undefined)
    throw new CliError(`no endpoint of the scenario leads to ${given ?? 'a login'}`, exitCode.usage);
  const [token] = caller.tokens ?? [];
  const order = orders.find((one) => one.endpoint === endpoint && one.login === login);
  return {
    login,
    /** Sends it through the proxy. @returns the status */
    sendQuery: (): Promise<number> =>
      send(`${demo.proxyUrl}/${demoEnvironment}/${product}/api/v4/status/${endpoint}`, {
        method: 'POST',
        body: new URLSearchParams({ login, client_orderid: order?.client_orderid ?? 'rotation' }),
        headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      }),
  };
}

/** The step of the gateway: it accepts the new key, and no other. */
async function register(demo: RunningDemo, login: string, publicKey: string): Promise<void> {
  const status = await send(`${demo.gatewayAdminUrl}/keys/${encodeURIComponent(login)}`, {
    method: 'PUT',
    body: JSON.stringify({ publicKeys: [publicKey] }),
    headers: { 'content-type': 'application/json' },
  });
  if (status !== 200) throw new CliError(`the simulator did not accept the new key (status ${status})`);
}

/** Those on the status page, such as `version 8 waiting, version 7 in use`. `undefined`: the demo has no page. */
async function versionsOf(demo: RunningDemo, login: string): Promise<string | undefined> {
  if (!hasStatusPage(demo)) return undefined;
  const server = { url: new URL('/status.json', demo.adminUrl), token: undefined, tls: {} };
  const { keys } = await readStatus(server);
  const key = keys.list.find((one) => one.login === login && one.kind === 'private_key');
  if (key === undefined) return 'no version yet';
  return key.versions
    .map(({ version, state }) => `${versionName(version)} ${state.replace('-', ' ')}`)
    .join(', ');
}

/** @returns the status. @throws CliError if there is no response */
async function send(url: string, request: RequestInit): Promise<number> {
  try {
    const signal = AbortSignal.timeout(responseTimeout);
    const response = await fetch(url, { ...request, signal });
    await response.arrayBuffer();
    return response.status;
  } catch {
    throw new CliError(`${new URL(url).origin} does not respond. Check whether the demo still runs.`);
  }
}
