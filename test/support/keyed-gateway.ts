import { createPublicKey, verify } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Harness } from './harness.ts';
import { otherBaseString, otherHmacSha1 } from './oauth-sign.ts';
import type { TestKeys } from './service.ts';

/** A request with a valid signature of one of the keys that the gateway can tell apart. */
interface SignedRequest {
  readonly login: string;
  readonly operation: 'balance' | 'status' | 'transfer';
  /** Of the path; of a balance its login. */
  readonly endpoint: string;
  readonly form: URLSearchParams;
  /** Name of the key set whose key signed; empty for another key. */
  readonly key: string;
}

/** A gateway that sees which key signed, and responds as the test wants. */
export interface KeyedGateway {
  readonly url: string;
  readonly requests: SignedRequest[];
  respond: (request: SignedRequest, response: ServerResponse) => unknown;
}

const operations = { 'get-balance': 'balance', status: 'status', transfer: 'transfer' } as const;

/** @param keySets by name */
export async function startKeyedGateway(
  starts: Harness,
  keySets: Readonly<Record<string, Required<TestKeys>>>,
): Promise<KeyedGateway> {
  const gateway = await starts.recordingGateway();
  const candidates = Object.entries(keySets).map(([name, { controlKey, privateKey }]) => {
    return { name, controlKey, publicKey: createPublicKey(privateKey) };
  });
  const requests: SignedRequest[] = [];
  const keyed: KeyedGateway = { url: gateway.url, requests, respond: (_, response) => accept(response) };
  gateway.respond = (response, { target, headers, body }) => {
    const form = new URLSearchParams(body.toString());
    const oauth = parametersOf(headers.authorization ?? '');
    const [, kind = '', endpoint = ''] = /\/api\/v\d\/([\w-]+)\/.*?([^/]+)$/.exec(target) ?? [];
    const url = `${gateway.url}${target}`;
    const signature = oauth.get('oauth_signature') ?? '';
    const pairs = [...form];
    const isHmac = oauth.get('oauth_signature_method') === 'HMAC-SHA1';
    const signer = candidates.find(({ controlKey, publicKey }) =>
      isHmac
        ? otherHmacSha1('POST', url, pairs, controlKey, '') === signature
        : verify(
            'sha256',
            Buffer.from(otherBaseString('POST', url, pairs)),
            publicKey,
            Buffer.from(signature, 'base64'),
          ),
    );
    const operation = Object.entries(operations).find(([name]) => name === kind)?.[1] ?? 'status';
    const login = oauth.get('oauth_consumer_key') ?? '';
    const request = { login, operation, endpoint, form, key: signer?.name ?? '' };
    requests.push(request);
    keyed.respond(request, response);
  };
  return keyed;
}

/** Of an `Authorization` header. */
function parametersOf(header: string): Map<string, string> {
  const pairs = header.matchAll(/(\w+)="([^"]*)"/g);
  return new Map(Array.from(pairs, ([, name = '', value = '']) => [name, decodeURIComponent(value)]));
}

/** The gateway's response to anything but a balance (docs/gateway-interface.md section 2.2). */
export function accept(response: ServerResponse): void {
  const text =
    'type=status-response\n&serial-number=00000000-0000-4000-8000-000000000000\n&status=approved\n';
  response.writeHead(200, { 'Content-Type': 'text/html;charset=utf-8' }).end(text);
}

/** The gateway's response to a wrong signature, or for want of a permission (section 7). */
export function deny(response: ServerResponse): void {
  response.writeHead(403, { 'Content-Type': 'text/html' }).end('<html><body>Access denied</body></html>');
}
