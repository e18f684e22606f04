import { hostOf, isLoopback } from '../../config/url.ts';
import { controlName, controlParts, formWithLogin } from '../../gateway/control.ts';
import type { Destination } from '../../gateway/router.ts';
import type { UsableKey } from '../../keys/ring.ts';
import { encodePairs, joinPairs, type Pair } from '../../oauth1/parameters.ts';
import { authorizationHeader, prepare, type Signer, type Unsigned } from '../../oauth1/sign.ts';
import { redactBaseString, redactParameters } from '../../redact-card-data.ts';

interface Explained {
  readonly destination: Destination;
  readonly login: string;
  readonly form: readonly Pair[];
  readonly key: UsableKey;
  readonly signer: Signer;
  readonly curl: boolean;
  readonly showValues: boolean;
}

/**
 * How a control is made of a form (docs/gateway-interface.md section 5.5), as lines to print, and never the control: it has
 * no URL, nonce or timestamp, so that whoever has it could send it at any time, and anywhere.
 */
export function renderControl(explained: Explained): string[] {
  const { key, showValues } = explained;
  const body = joinPairs(encodePairs([...formWithLogin(explained), [controlName, 'hidden']]));
  const values = joinPairs(encodePairs(controlParts(explained)));
  return [
    ...requestLines(explained),
    'Form parameters, decoded and re-encoded (RFC 3986), in the order sent',
    ...list(showValues ? body : redactParameters(body)),
    '',
    'Control: SHA-1, in hex, of these values and the control key, with nothing between them',
    ...list(showValues ? values : redactParameters(values)),
    '',
    `Key          SHA1-control with the ${describeSigningKey(key)}`,
    '',
    'The control is hidden, and there is no curl command: with it, anyone could send this request to any gateway that has the key.',
    '',
  ];
}

function requestLines({ destination, login }: Pick<Explained, 'destination' | 'login'>): string[] {
  const { url, environment, operation } = destination;
  return [
    `Request      POST ${url.href}`,
    `             environment ${environment}, operation ${operation.name}, login ${login}`,
    '',
  ];
}

/** The signing steps of a request (docs/gateway-interface.md section 5.1) as lines to print. */
export async function renderExplanation(explained: Explained, unsigned: Unsigned): Promise<string[]> {
  const { destination, key, signer, curl, showValues } = explained;
  const parameters = showValues ? (text: string) => text : redactParameters;
  const prepared = prepare(unsigned);
  const isShown = mayShowSignature(destination);
  const signature = isShown ? await signer(prepared.baseString) : 'hidden';
  const header = authorizationHeader(prepared.oauth, signature);
  const lines = [
    ...requestLines(explained),
    'Form parameters, decoded and re-encoded (RFC 3986), in the order sent',
    ...list(parameters(joinPairs(encodePairs(unsigned.form)))),
    '',
    'Form and OAuth parameters, sorted by encoded name, then value',
    ...list(parameters(prepared.normalizedParameters)),
    '',
    'Base string',
    `  ${showValues ? prepared.baseString : redactBaseString(prepared.baseString)}`,
    '',
    `Key          ${unsigned.signatureMethod} with the ${describeSigningKey(key)}`,
    '',
    'Header',
    `  Authorization: ${header}`,
    '',
    ...(isShown ? [] : hidden),
  ];
  if (!curl || !isShown) return lines;
  const command = [
    `curl -X POST '${destination.url.href}' \\`,
    `  -H 'Authorization: ${header}' \\`,
    `  --data-raw '${parameters(prepared.body)}'`,
    '',
  ];
  return [...lines, ...command];
}

/**
 * Anyone with the signature of a payment can make it, without a grant, an audit record and an outcome. A query changes
 * nothing, and a signature for a URL on loopback is valid nowhere else.
 */
function mayShowSignature({ operation, url }: Destination): boolean {
  return operation.readOnly || isLoopback(hostOf(url));
}

const hidden = [
  'The signature is hidden, and there is no curl command: with it, anyone could send this request to the gateway, without a',
  'grant and without an audit record. It is shown for read-only operations, and for a gateway on loopback.',
  '',
];

function list(parameters: string): string[] {
  return parameters === '' ? ['  (none)'] : parameters.split('&').map((pair) => `  ${pair}`);
}

function describeSigningKey({ kind, key, version, fingerprint, createdAt }: UsableKey): string {
  const since = createdAt === undefined ? '' : `, created ${createdAt.toISOString()}`;
  return kind === 'control_key'
    ? `control key, version ${version}${since}`
    : `RSA key${'publicKey' in key ? ` in Vault (Transit key ${key.name}, version ${key.keyVersion})` : ''}, version ${version}${since}\n             public key SHA-256 ${fingerprint}`;
}
