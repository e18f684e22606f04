import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { buffer as readAll } from 'node:stream/consumers';
import type { Config } from '../../config/schema.ts';
import { ProxyError } from '../../errors.ts';
import { resolveLogin } from '../../gateway/login.ts';
import { verifyCallback } from '../../gateway/operations.ts';
import { createRoutes } from '../../gateway/router.ts';
import { validateParameters } from '../../gateway/validate-parameters.ts';
import { ringIn } from '../../keys/key-source.ts';
import { usableKeys } from '../../keys/ring.ts';
import { methods } from '../../oauth1/methods.ts';
import { decodeReceived } from '../../proxy/inbound/read-form.ts';
import { unsignedRequest } from '../../proxy/outbound/signed-request.ts';
import { demoConfigFile, loadDemoConfig } from '../demo/config.ts';
import { demoOption, findDemo, settingsOf } from '../demo/ready-file.ts';
import { CliError, exitCode, messageOf } from '../shared/cli-error.ts';
import { command, type Io, type OptionValues, parsed, wholeNumber } from '../shared/command.ts';
import { configFileOf, validConfig } from '../shared/config-file.ts';
import { withInventory } from '../shared/inventory.ts';
import { loadWithLogin, loginOptions, optionLogin } from '../shared/vault-login.ts';
import { renderControl, renderExplanation } from './render.ts';

/** Seconds since 1970, of twelve digits: one of milliseconds has more. */
const maxTimestamp = 999_999_999_999;

const options = {
  'target PATH': 'Request path as sent to the proxy, such as /sandbox/gw/api/v4/transfer/1234',
  'form FILE':
    'Form as sent to the proxy, byte for byte: a line feed at its end is part of it (default: standard input)',
  'config FILE': 'Configuration file (COUNTERSIGN_CONFIG; default: that of the running demo)',
  ...demoOption,
  'login LOGIN': 'Value for the Countersign-Login header',
  ...loginOptions,
  'nonce TEXT': 'Nonce (default: random)',
  'timestamp SECONDS': parsed(
    'Unix timestamp (default: now)',
    wholeNumber(1, maxTimestamp, 'must be Unix seconds'),
  ),
  curl: 'Print a curl command that sends the signed request directly to the gateway; not for payments, unless it is on loopback, nor with a control',
  'show-values': 'Do not redact card data',
};

const spec = {
  name: 'explain',
  usage: '--target PATH [--form FILE] [options]',
  about:
    'Explains step by step how a form is signed. Sends nothing to the gateway. Redacts card data, and hides controls, and the signature of a payment unless the gateway is on loopback: with it, anyone could make the payment.',
  options,
  exitCodes: '0 ok, 1 the proxy would reject the request, 2 invalid configuration or usage',
};

export const explain = command(spec, async ({ values }, io) => {
  const { target, 'gateway-admin-url': demoUrl } = values;
  if (target === undefined) throw new CliError('--target PATH is required', exitCode.usage);
  if (values.config !== undefined && demoUrl !== undefined)
    throw new CliError('--config and --gateway-admin-url exclude each other', exitCode.usage);
  try {
    const body = await (values.form === undefined ? readAll(process.stdin) : readFile(values.form));
    const file = demoUrl === undefined ? configFileOf(values.config) : undefined;
    const config = file === undefined ? demoConfig(demoUrl, io) : loadWithLogin(file, optionLogin(values));
    const lines = await linesOf(await config, target, body, values, io);
    for (const line of lines) io.out(line);
    return exitCode.done;
  } catch (error) {
    if (error instanceof CliError && error.isPlain) throw error;
    const message =
      error instanceof ProxyError
        ? `The proxy would reject this request (${error.reason}): ${error.detail}`
        : messageOf(error);
    throw new CliError(message, exitCode.failed, true);
  }
});

async function linesOf(
  config: Config,
  target: string,
  body: Buffer,
  { curl, nonce, timestamp, ...values }: OptionValues<typeof options>,
  io: Io,
): Promise<string[]> {
  const form = decodeReceived(body, config.proxy);
  const destination = createRoutes(config).resolve(target, { mayKnow: () => true });
  const login = resolveLogin(destination, form, values.login);
  validateParameters(destination.operation, form);
  const { name, signature: method } = destination.operation;
  if (name === verifyCallback)
    throw new CliError('a callback is not signed: post it to the proxy, which says whether a key made it');
  const report = (problem: string): void => io.err(problem);
  const events = { loginFailed: report, keyProblem: report };
  return withInventory(config.keys, events, async ({ source }) => {
    const loginRef = { environment: destination.environment, login };
    const ring = ringIn(await source.read(loginRef)) ?? [];
    const { kind } = methods[method];
    const [{ key, ...entry }] = usableKeys(loginRef, ring, kind, Date.now(), config.keys.rotationGracePeriod);
    const signer = (text: string) => {
      if (!('publicKey' in key)) return methods[method].sign(text, key, '');
      if (source.sign === undefined) throw new TypeError('the key source does not sign');
      return source.sign(loginRef, key, text);
    };
    const showValues = values['show-values'];
    const explained = { destination, login, form, key: { ...entry, key }, signer, curl, showValues };
    if (method === 'SHA1-control') return renderControl(explained);
    const unsigned = unsignedRequest(
      explained,
      method,
      nonce ?? randomBytes(16).toString('hex'),
      timestamp ?? Math.floor(Date.now() / 1000),
    );
    return renderExplanation(explained, unsigned);
  });
}

/** That of the running demo. @throws CliError if there is none */
async function demoConfig(gatewayAdminUrl: string | undefined, io: Io): Promise<Config> {
  const running = await findDemo(gatewayAdminUrl);
  if (running === undefined)
    throw new CliError(
      '--config FILE is required, or start a demo: countersign demo (on another port: --gateway-admin-url URL)',
      exitCode.usage,
      true,
    );
  io.err(`Using the keys and the gateway simulator of the running demo at ${running.proxyUrl}.`);
  const loaded = await loadDemoConfig(running, await settingsOf(running));
  return validConfig(demoConfigFile, loaded).config;
}
