import { join } from 'node:path';
import { readOnlyQuery } from '../../gateway/read-only-query.ts';
import { createRoutes } from '../../gateway/router.ts';
import type { KeyKind } from '../../oauth1/methods.ts';
import type { Status } from '../../observability/status/schema.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode } from '../shared/io.ts';
import { readStatus } from '../status/client.ts';
import { demoEnvironment, loadDemoConfig } from './config.ts';
import { sendToDemo } from './demo-client.ts';
import { generateKey, hasKey, type NewKey, writeKey } from './new-key.ts';
import { hasStatusPage, type RunningDemo, settingsOf } from './running.ts';

/** Which key of a demo is rotated. */
export interface RotationTarget {
  readonly demo: RunningDemo;
  readonly kind: KeyKind;
  /** Absent: a login of the scenario that has a query for the kind of key. */
  readonly login: string | undefined;
}

/** A rotation of one key, step by step. */
export interface Rotation {
  readonly login: string;
  /** Name of the operation that {@link query} uses. */
  readonly operation: string;
  /** Sends a read-only query that needs the key through the proxy. @returns the status */
  query(): Promise<number>;
  /** The step of the operator: the key source gets a new key. */
  writeNewKey(): Promise<void>;
  /**
   * The step of the gateway: it accepts the new key, and no other.
   *
   * @throws CliError if another rotation has replaced the key: Countersign would have none that the gateway accepts
   */
  registerNewKey(): Promise<void>;
  /**
   * The versions of the key on the status page, such as `version 8 waiting, version 7 in use`. `undefined`: the demo
   * has no status page.
   */
  versions(): Promise<string | undefined>;
}

/** Milliseconds. */
const timeout = 5000;

/** @throws CliError for a login that the scenario does not have, or without a query that needs the key */
export async function prepareRotation({ demo, kind, login: given }: RotationTarget): Promise<Rotation> {
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
  return rotationOf(demo, kind, login, { ...query, token: settings.scenario.caller.tokens?.[0] });
}

function rotationOf(
  demo: RunningDemo,
  kind: KeyKind,
  login: string,
  {
    destination,
    form,
    token,
  }: Exclude<ReturnType<typeof readOnlyQuery>, string> & { readonly token: string | undefined },
): Rotation {
  const address = `${demo.proxyUrl}/${demoEnvironment}${destination.url.pathname}`;
  const body = new URLSearchParams(form.map(([name, value]): [string, string] => [name, value])).toString();
  const directory = join(demo.keyDirectory, demoEnvironment, login);
  let newKey: NewKey | undefined;
  return {
    login,
    operation: destination.operation.name,
    query: () => sendToDemo('POST', address, 'application/x-www-form-urlencoded', body, token),
    async writeNewKey() {
      newKey = await generateKey(kind);
      writeKey(directory, newKey);
    },
    async registerNewKey() {
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
    async versions() {
      if (!hasStatusPage(demo)) return undefined;
      const server = { url: new URL('/status.json', demo.adminUrl), token: undefined, ca: undefined };
      return versionsOf(await readStatus(server, { timeout }), login, kind);
    },
  };
}

function versionsOf({ keys }: Status, login: string, kind: KeyKind): string {
  const key = keys.list.find((one) => one.login === login && one.kind === kind);
  if (key === undefined) return 'no version yet';
  return key.versions.map(({ version, state }) => `version ${version} ${state.replace('-', ' ')}`).join(', ');
}
