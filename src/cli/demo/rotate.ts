import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type ReadOnlyQuery, readOnlyQuery } from '../../gateway/read-only-query.ts';
import { createRoutes } from '../../gateway/router.ts';
import type { KeyKind } from '../../oauth1/methods.ts';
import { keyStates } from '../../observability/status/key-states.ts';
import type { Status } from '../../observability/status/schema.ts';
import type { Signals } from '../../server/signals.ts';
import { createAgent } from '../../util/agent.ts';
import { sendHttpRequest } from '../../util/http-request.ts';
import { describeNetworkFailure } from '../../util/network-failure.ts';
import { CliError } from '../shared/cli-error.ts';
import {
  command,
  type OptionValues,
  oneOf,
  optionsHelp,
  parsed,
  text,
  wholeNumber,
} from '../shared/command.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { readStatus } from '../status/client.ts';
import { demoEnvironment, loadDemoConfig } from './config.ts';
import { generateKey, hasKey, type NewKey, writeKey } from './keys.ts';
import { findDemo, hasStatusPage, type RunningDemo, settingsOf } from './running.ts';

/** Milliseconds. */
const responseTimeout = 5000;

const maxResponseBytes = 1_048_576;

const options = {
  login: text('LOGIN', 'Login of the scenario (default: its first one)'),
  kind: parsed(
    'KIND',
    'Which key of the login: private_key or control_key',
    oneOf(['private_key', 'control_key']),
    'private_key',
  ),
  after: parsed(
    'SECONDS',
    'How long the new key waits until the gateway accepts it, 0 to 3600',
    wholeNumber(0, 3600, 'must be a whole number of seconds from 0 to 3600'),
    '20',
  ),
  'ready-file': text('FILE', 'Ready file of the demo (default: the demo that was started last)'),
};

const usage = `Usage: countersign demo rotate [--login LOGIN] [--kind KIND] [--after SECONDS] [--ready-file FILE]

Rotates a key of a running demo, to watch on its status page. The key directory gets a new key, which waits until
the gateway simulator accepts it in place of the old one. Meanwhile one query per second goes through the proxy;
none of them fails. A payment at the moment of the switch may get a 403, and is then not processed
(docs/key-rotation.md). After Ctrl-C the simulator accepts the new key at once.

${optionsHelp(options)}

Exit codes: 0 the new key is in use and every query succeeded, 1 failure, 2 invalid usage.`;

/** Milliseconds between two queries. */
const pause = 1000;

type Settings = ReturnType<typeof settingsFrom>;
type Rotation = ReturnType<typeof rotationOf>;

export const rotateDemoKey = command(
  { name: 'demo rotate', options, usage },
  async ({ values }, io, signals: Signals) => {
    const settings = settingsFrom(values);
    const stop = new AbortController();
    void signals.stop.then(() => stop.abort());
    return rotate(await prepareRotation(settings), settings, io, stop.signal);
  },
);

async function rotate(
  rotation: Rotation,
  { demo, kind, after }: Settings,
  io: Io,
  stop: AbortSignal,
): Promise<number> {
  const first = await rotation.query();
  if (first !== 200) {
    throw new CliError(
      `a query of ${rotation.login} gets status ${first} before the rotation: choose another --login, or restart the demo`,
    );
  }
  const before = await rotation.versions();
  const watch = before === undefined ? '' : ` Watch it on ${demo.adminUrl}/.`;
  io.out(
    `Rotating the ${kind} of ${rotation.login}, with one ${rotation.operation} query per second.${watch}`,
  );
  const timeline = new Timeline(rotation, io);
  await rotation.writeNewKey();
  timeline.print('The key directory has a new key', before);
  await timeline.queryFor(after, stop);
  await rotation.registerNewKey();
  await timeline.query();
  timeline.print('The gateway accepts it and no other', await rotation.versions());
  io.out(`Queries: ${timeline.queries}, failed: ${timeline.failed}.`);
  return timeline.failed === 0 ? exitCode.done : exitCode.failed;
}

/** Prints what happens with the seconds since the start. */
class Timeline {
  queries = 0;
  failed = 0;
  readonly #rotation: Rotation;
  readonly #io: Io;
  readonly #start = performance.now();
  #versions: string | undefined;

  constructor(rotation: Rotation, io: Io) {
    this.#rotation = rotation;
    this.#io = io;
  }

  /** @param versions `undefined` without a status page */
  print(event: string, versions: string | undefined): void {
    const seconds = String(Math.floor((performance.now() - this.#start) / 1000));
    this.#io.out(`${seconds.padStart(4)} s  ${event}${versions === undefined ? '' : `: ${versions}`}`);
    this.#versions = versions;
  }

  /** Queries once per second for the given number of milliseconds, or until it is stopped. */
  async queryFor(milliseconds: number, stop: AbortSignal): Promise<void> {
    const end = performance.now() + milliseconds;
    for (let left = milliseconds; left > 0 && !stop.aborted; left = end - performance.now()) {
      await this.query();
      const versions = await this.#rotation.versions();
      if (versions !== this.#versions) this.print('Countersign has read it', versions);
      // Rejects only when it is stopped.
      await wait(Math.min(pause, left), undefined, { signal: stop }).catch(() => {});
    }
  }

  async query(): Promise<void> {
    const status = await this.#rotation.query();
    this.queries += 1;
    if (status === 200) return;
    this.failed += 1;
    this.#io.err(`A query got status ${status}.`);
  }
}

/** @throws CliError without a running demo */
function settingsFrom({ kind, after, login, 'ready-file': readyFile }: OptionValues<typeof options>) {
  const demo = findDemo(readyFile);
  if (demo === undefined) throw new CliError('no demo is running: start one with countersign demo');
  return { demo, kind, login, after: after * 1000 };
}

/** @throws CliError for a login that the scenario does not have, or without a query that needs the key */
async function prepareRotation({ demo, kind, login: given }: Settings): Promise<Rotation> {
  const settings = await settingsOf(demo);
  const loaded = await loadDemoConfig(demo, settings);
  if ('problems' in loaded) throw new TypeError('the configuration of a running demo is invalid');
  const { logins, endpoints } = settings.scenario;
  const mapped = loaded.config.environments[demoEnvironment]?.endpoints ?? {};
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
  const query = readOnlyQuery(createRoutes(loaded.config), subject, signature);
  if (typeof query === 'string') {
    throw new CliError(`the scenario has no read-only operation with ${signature}: choose another --kind`);
  }
  return rotationOf(demo, kind, login, query, settings.scenario.caller.tokens?.[0]);
}

/** A rotation of one key, step by step. */
function rotationOf(
  demo: RunningDemo,
  kind: KeyKind,
  login: string,
  { destination, form }: ReadOnlyQuery,
  token: string | undefined,
) {
  const address = `${demo.proxyUrl}/${demoEnvironment}${destination.url.pathname}`;
  const body = new URLSearchParams(form.map(([name, value]): [string, string] => [name, value])).toString();
  const directory = join(demo.keyDirectory, demoEnvironment, login);
  let newKey: NewKey | undefined;
  return {
    login,
    operation: destination.operation.name,
    /** Sends a read-only query that needs the key through the proxy. @returns the status */
    query: (): Promise<number> =>
      sendToDemo('POST', address, 'application/x-www-form-urlencoded', body, token),
    /** The step of the operator: the key source gets a new key. */
    async writeNewKey(): Promise<void> {
      newKey = await generateKey(kind);
      writeKey(directory, newKey);
    },
    /**
     * The step of the gateway: it accepts the new key, and no other.
     *
     * @throws CliError if another rotation has replaced the key: Countersign would have none that the gateway accepts
     */
    async registerNewKey(): Promise<void> {
      if (newKey !== undefined && !hasKey(directory, newKey)) {
        throw new CliError(
          'another rotation has replaced the new key: let that one end, then repeat this one',
        );
      }
      const url = `${demo.gatewayAdminUrl}/keys/${encodeURIComponent(login)}`;
      const registration = JSON.stringify(newKey?.registration ?? {});
      const status = await sendToDemo('PUT', url, 'application/json', registration);
      if (status !== 200) throw new CliError(`the simulator did not accept the new key (status ${status})`);
    },
    /** Those on the status page, such as `version 8 waiting, version 7 in use`. `undefined`: the demo has no page. */
    async versions(): Promise<string | undefined> {
      if (!hasStatusPage(demo)) return undefined;
      const server = { url: new URL('/status.json', demo.adminUrl), token: undefined, tls: {} };
      return versionsOf(await readStatus(server, { timeout: responseTimeout }), login, kind);
    },
  };
}

function versionsOf({ keys }: Status, login: string, kind: KeyKind): string {
  const key = keys.list.find((one) => one.login === login && one.kind === kind);
  if (key === undefined) return 'no version yet';
  return key.versions.map(({ version, state }) => `version ${version} ${keyStates[state].text}`).join(', ');
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
  const options = {
    agent: createAgent(address, {}, { keepAlive: false }),
    signal: AbortSignal.timeout(responseTimeout),
    maxResponseBytes,
  };
  const bytes = Buffer.from(body);
  const headers = {
    'Content-Type': contentType,
    'Content-Length': String(bytes.length),
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  };
  try {
    return (await sendHttpRequest({ method, url, headers, body: bytes }, options)).status;
  } catch (error) {
    const cause = options.signal.aborted
      ? `no response in ${responseTimeout / 1000} s`
      : describeNetworkFailure(error);
    throw new CliError(`${url.origin}: ${cause}. Check whether the demo still runs.`);
  }
}
