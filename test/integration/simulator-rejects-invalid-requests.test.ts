import { describe, expect, it } from '@jest/globals';
import { faultRule } from '../../src/simulator/faults.ts';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  balanceDraft,
  bodyOf,
  type Draft,
  gatewayKeys,
  headerOf,
  noon,
  post,
  privateKey,
  send,
  shippedScenario,
  signatureOf,
  statusDraft,
  transferDraft,
  type Wire,
  wireOf,
  withOAuth,
} from '../support/simulator.ts';
import { privateKeyOf } from '../support/vectors.ts';

const starts = harness();

const seconds = noon / 1000;
const balance = balanceDraft;
const status = () => statusDraft([['client_orderid', 'invoice-1']]);

/** Sends a valid request with one change on the wire. */
async function reasonFor(draft: Draft, change: (wire: Wire, url: string) => Wire): Promise<unknown> {
  const { url } = await starts.simulator();
  const { status, headers } = await send(url, change(wireOf(url, draft), url));
  return status === 403 ? headers['simulator-rejection'] : status;
}

/** The same, with its Authorization header changed. */
const reasonForHeader = (draft: Draft, change: (header: string) => string | string[]): Promise<unknown> =>
  reasonFor(draft, (wire) => ({ ...wire, authorization: change(String(wire.authorization)) }));

/** Signs and sends a request that is invalid before it is signed. */
const reasonForSigned = (draft: Draft) => reasonFor(draft, (wire) => wire);

function flip(signature: string): string {
  const bytes = Buffer.from(signature, 'base64');
  bytes[7] = (bytes[7] ?? 0) ^ 1;
  return bytes.toString('base64');
}

const resigned = (draft: Draft, url: string, change: (signature: string) => string, separator?: string) =>
  headerOf(draft.oauth, change(signatureOf(url, draft)), separator);

describe('the simulator', () => {
  it('rejects as the gateway does: 403 and an HTML page without a reason', async () => {
    const { url } = await starts.simulator();
    const response = await send(url, { ...wireOf(url, balance()), authorization: undefined });
    expect(response.status).toBe(403);
    expect(response.headers['content-type']).toBe('text/html;charset=utf-8');
    expect(response.body).toBe(
      '<!DOCTYPE html>\n<html><head><title>403</title></head><body><h1>Access is denied</h1></body></html>\n',
    );
    expect(response.headers['simulator-rejection']).toBe('authorization-missing');
  });

  it('accepts the requests that the following tests break', async () => {
    const { url } = await starts.simulator();
    const transfer = transferDraft([['client_orderid', 'new']]);
    const responses = await Promise.all([balance(), status(), transfer].map((draft) => post(url, draft)));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
  });

  it('accepts OAuth parameters in the header alone, which the signature still covers', async () => {
    const only = (draft: Draft) => (wire: Wire) => ({ ...wire, body: bodyOf(draft.form) });
    const draft = status();
    expect(await reasonFor(draft, only(draft))).toBe(200);
    const altered = withOAuth(status(), 'oauth_nonce', 'another');
    const authorization = (url: string) => headerOf(altered.oauth, signatureOf(url, draft));
    const reason = await reasonFor(draft, (wire, url) => ({
      ...only(draft)(wire),
      authorization: authorization(url),
    }));
    expect(reason).toBe('signature-wrong');
  });

  it('reports why it rejected a request', async () => {
    const rejections: unknown[][] = [];
    const { url } = await starts.simulator({
      onHandled: ({ rejection, operation }) => rejections.push([rejection, operation]),
    });
    await post(url, withOAuth(balance(), 'oauth_version', '2.0'));
    expect(rejections).toEqual([['version-wrong', 'manager-balance']]);
  });
});

describe('the simulator rejects a signature', () => {
  it.each([
    ['HMAC-SHA1', balance()],
    ['RSA-SHA256', status()],
  ])('of %s with one bit flipped', async (_, draft) => {
    expect(
      await reasonFor(draft, (wire, url) => ({ ...wire, authorization: resigned(draft, url, flip) })),
    ).toBe('signature-wrong');
  });

  it.each<[string, Draft, (wire: Wire) => Wire]>([
    [
      'over a body of which one byte changed',
      balance([['balance-name', 'Main USD']]),
      (wire) => ({ ...wire, body: wire.body.replace('USD', 'USE') }),
    ],
    ['over another path', status(), (wire) => ({ ...wire, path: '/gw/api/v4/status/1235' })],
    ['over another host', status(), (wire) => ({ ...wire, headers: { Host: 'other.example' } })],
    ['made with another control key', { ...balance(), key: 'another' }, (wire) => wire],
    [
      'made with another private key',
      { ...status(), key: privateKeyOf('rsa-4096-pkcs8.pem') },
      (wire) => wire,
    ],
  ])('%s', async (_, draft, change) => {
    expect(await reasonFor(draft, change)).toBe('signature-wrong');
  });

  it.each([
    ['in hexadecimal', (signature: string) => Buffer.from(signature, 'base64').toString('hex')],
    ['in base64url', (signature: string) => `${signature.slice(0, -2)}-_`],
    ['without padding', (signature: string) => signature.replace(/=+$/, '')],
    ['that is empty', () => ''],
  ])('%s', async (_, change) => {
    const draft = status();
    expect(
      await reasonFor(draft, (wire, url) => ({ ...wire, authorization: resigned(draft, url, change) })),
    ).toBe('signature-malformed');
  });

  it('of HMAC-SHA1 in hexadecimal', async () => {
    const draft = balance();
    const hex = (signature: string) => Buffer.from(signature, 'base64').toString('hex');
    expect(
      await reasonFor(draft, (wire, url) => ({ ...wire, authorization: resigned(draft, url, hex) })),
    ).toBe('signature-malformed');
  });

  it('of the other method, although it is valid', async () => {
    const draft = withOAuth(balance(), 'oauth_signature_method', 'RSA-SHA256');
    expect(await reasonForSigned({ ...draft, key: privateKey })).toBe('method-wrong');
  });

  it('with the default method if the scenario overrides it', async () => {
    const scenario = { ...loadScenario(shippedScenario()), signatures: { transfer: 'HMAC-SHA1' as const } };
    const { url } = await starts.simulator({ scenario });
    const response = await post(url, transferDraft([['client_orderid', 'new']]));
    expect(response.headers['simulator-rejection']).toBe('method-wrong');
  });
});

describe('the simulator rejects an Authorization header', () => {
  it.each<[string, (header: string) => string | string[]]>([
    ['of another scheme', (header) => header.replace('OAuth', 'Bearer')],
    ['with a scheme alone', () => 'OAuth'],
    ['without quotes', (header) => header.replaceAll('"', '')],
    ['with a semicolon between pairs', (header) => header.replaceAll(', ', '; ')],
    ['with nothing between pairs', (header) => header.replaceAll(', ', '')],
    ['with a comma at the end', (header) => `${header},`],
    ['with two commas', (header) => header.replace(', ', ',,')],
    ['with a name that cannot be decoded', (header) => header.replace('oauth_nonce', 'oauth%_nonce')],
    ['with a percent sign that encodes nothing', (header) => header.replace('%3D', '%3')],
    ['with a bare equals sign in the signature', (header) => header.replace('%3D', '=')],
    ['with bytes that are not UTF-8', (header) => header.replace('"acme"', '"acme%FF"')],
    ['given twice', (header) => [header, header]],
  ])('%s', async (_, change) => {
    expect(await reasonForHeader(balance(), change)).toBe('authorization-malformed');
  });
});

describe('the simulator accepts an Authorization header', () => {
  it.each<[string, (header: string) => string]>([
    ['with a comma and no space between pairs', (header) => header.replaceAll(', ', ',')],
    ['with a realm', (header) => header.replace('OAuth ', 'OAuth realm="Gateway & co", ')],
    ['with a realm in another case', (header) => header.replace('OAuth ', 'OAuth Realm="", ')],
    ['with the scheme in lower case', (header) => header.replace('OAuth ', 'oauth ')],
    ['with lower-case hexadecimal digits', (header) => header.replaceAll(/%../g, (hex) => hex.toLowerCase())],
    [
      'with its pairs in another order',
      (header) => `OAuth ${header.slice(6).split(', ').toReversed().join(', ')}`,
    ],
  ])('%s', async (_, change) => {
    expect(await reasonForHeader(balance(), change)).toBe(200);
  });
});

describe('the simulator rejects OAuth parameters', () => {
  const names = [
    'oauth_consumer_key',
    'oauth_nonce',
    'oauth_signature_method',
    'oauth_timestamp',
    'oauth_version',
  ];

  it.each(names)('when %s is missing from the header', async (name) => {
    const pair = new RegExp(`${name}="[^"]*", `);
    const reason = await reasonForHeader(balance(), (header) => header.replace(pair, ''));
    expect(reason).toBe('oauth-parameter-missing');
  });

  it.each(names)('when %s is missing from the body', async (name) => {
    const pair = new RegExp(`${name}=[^&]*&|&${name}=[^&]*$`);
    const reason = await reasonFor(balance(), (wire) => ({ ...wire, body: wire.body.replace(pair, '') }));
    expect(reason).toBe('oauth-parameter-missing');
  });

  it.each(names)('when %s differs between header and body', async (name) => {
    const pair = new RegExp(`${name}="[^"]*"`);
    const reason = await reasonForHeader(balance(), (header) => header.replace(pair, `${name}="other"`));
    expect(reason).toBe('header-body-mismatch');
  });

  it.each(names)('when %s is in the body twice', async (name) => {
    const draft = balance();
    const again = draft.oauth.filter((pair) => pair[0] === name);
    expect(await reasonForSigned({ ...draft, form: again })).toBe('oauth-parameter-repeated');
  });

  it.each([...names, 'oauth_signature'])('when %s is in the header twice', async (name) => {
    const pair = new RegExp(`${name}="[^"]*"`);
    const reason = await reasonForHeader(balance(), (header) => `${header}, ${pair.exec(header)?.[0]}`);
    expect(reason).toBe('oauth-parameter-repeated');
  });

  it('when the header has no signature', async () => {
    const withoutSignature = (header: string) => header.replace(/, oauth_signature="[^"]*"/, '');
    const reason = await reasonForHeader(balance(), withoutSignature);
    expect(reason).toBe('oauth-parameter-missing');
  });

  it.each(['oauth_signature', 'oauth_token', 'oauth_'])('when the body has %s', async (name) => {
    expect(await reasonForSigned(balance([[name, 'x']]))).toBe('oauth-parameter-unexpected');
  });

  it('when the header has a parameter of the request', async () => {
    const reason = await reasonForHeader(balance(), (header) => `${header}, balance-name="x"`);
    expect(reason).toBe('oauth-parameter-unexpected');
  });

  it('when the version is not 1.0', async () => {
    expect(await reasonForSigned(withOAuth(balance(), 'oauth_version', '1'))).toBe('version-wrong');
  });

  it.each(['', '0', '-5', '1e9', '1768478400.0', ' 1768478400', '01768478400', 'noon'])(
    'when the timestamp is "%s"',
    async (timestamp) => {
      expect(await reasonForSigned(withOAuth(balance(), 'oauth_timestamp', timestamp))).toBe(
        'timestamp-malformed',
      );
    },
  );

  it('when the timestamp is in milliseconds', async () => {
    expect(await reasonForSigned(withOAuth(balance(), 'oauth_timestamp', String(noon)))).toBe(
      'timestamp-in-milliseconds',
    );
  });

  it.each([
    [-301, 'timestamp-outside-window'],
    [-300, 200],
    [300, 200],
    [301, 'timestamp-outside-window'],
  ])('when the timestamp is %d s off, unless that is within the window: %s', async (away, expected) => {
    expect(await reasonForSigned(withOAuth(balance(), 'oauth_timestamp', String(seconds + away)))).toBe(
      expected,
    );
  });

  it('when the timestamp is outside the window that the scenario sets', async () => {
    const { url } = await starts.simulator({
      scenario: { ...loadScenario(shippedScenario()), timestampWindowSeconds: 5 },
    });
    const responses = await Promise.all(
      [5, 6].map((late) => post(url, withOAuth(balance(), 'oauth_timestamp', String(seconds - late)))),
    );
    expect(responses.map(({ status }) => status)).toEqual([200, 403]);
  });
});

describe('the simulator rejects a nonce', () => {
  it('that was used before, even with another timestamp', async () => {
    const { url } = await starts.simulator();
    const draft = balance();
    const later = withOAuth(draft, 'oauth_timestamp', String(seconds + 1));
    expect((await post(url, draft)).status).toBe(200);
    expect((await post(url, draft)).headers['simulator-rejection']).toBe('nonce-replayed');
    expect((await post(url, later)).headers['simulator-rejection']).toBe('nonce-replayed');
  });

  it('until its timestamp is outside the window, also if that is ahead of the clock', async () => {
    let now = noon;
    const { url } = await starts.simulator({ clock: () => now });
    const draft = withOAuth(balance(), 'oauth_timestamp', String(seconds + 300));
    expect((await post(url, draft)).status).toBe(200);
    now += 600_000;
    expect((await post(url, draft)).headers['simulator-rejection']).toBe('nonce-replayed');
  });

  it('of the same login only', async () => {
    const { url } = await starts.simulator();
    const acme = withOAuth(balance(), 'oauth_nonce', 'shared');
    const beta = withOAuth(balance([], 'beta'), 'oauth_nonce', 'shared');
    expect([(await post(url, acme)).status, (await post(url, beta)).status]).toEqual([200, 200]);
  });

  it('only if a request with it was valid', async () => {
    const { url } = await starts.simulator();
    const draft = balance();
    expect((await post(url, { ...draft, key: 'another' })).status).toBe(403);
    expect((await post(url, draft)).status).toBe(200);
  });
});

describe('the simulator rejects a login', () => {
  it('that the scenario does not have', async () => {
    expect(await reasonForSigned(balance([], 'stranger'))).toBe('login-unknown');
  });

  it.each(['__proto__', 'constructor'])('named %s', async (login) => {
    expect(await reasonForSigned(balance([], login))).toBe('login-unknown');
  });

  it('that is not the one of the path', async () => {
    expect(await reasonForSigned(withOAuth(balance(), 'oauth_consumer_key', 'beta'))).toBe('login-mismatch');
  });

  it('that is not the one of the parameter login', async () => {
    expect(await reasonForSigned(withOAuth(status(), 'oauth_consumer_key', 'beta'))).toBe('login-mismatch');
  });

  it.each([
    ['missing', []],
    ['given twice', [['login', 'acme'] as const, ['login', 'acme'] as const]],
  ])('when the parameter login is %s', async (_, form) => {
    expect(await reasonForSigned({ ...status(), form })).toBe('login-mismatch');
  });

  it('that has no key of the kind', async () => {
    const { url } = await starts.simulator({
      keys: new Map([['acme', { ...gatewayKeys, controlKeys: [] }]]),
    });
    expect((await post(url, balance())).headers['simulator-rejection']).toBe('key-missing');
    expect((await post(url, status())).status).toBe(200);
  });

  it('that a fault of its login rejects, until there is none', async () => {
    const { url, simulator } = await starts.simulator();
    simulator.faults.add(faultRule.parse({ login: 'acme', fault: 'status-403' }));
    expect((await post(url, balance())).headers['simulator-rejection']).toBe('fault-injected');
    expect((await post(url, balance([], 'beta'))).status).toBe(200);
    simulator.faults.clear();
    expect((await post(url, balance())).status).toBe(200);
  });

  it('without the balance feature', async () => {
    const scenario = { ...loadScenario(shippedScenario()), logins: { acme: {} } };
    const { url } = await starts.simulator({ scenario });
    const response = await post(url, balance());
    expect([response.status, response.headers['simulator-rejection']]).toEqual([403, 'balance-not-enabled']);
  });
});

describe('the simulator rejects a request', () => {
  it('with a query', async () => {
    expect(await reasonFor(balance(), (wire) => ({ ...wire, path: `${wire.path}?a=b` }))).toBe(
      'query-present',
    );
  });

  it('not for the case or a parameter of its content type', async () => {
    const headers = { 'Content-Type': 'Application/X-WWW-Form-URLEncoded ; charset=UTF-8' };
    expect(await reasonFor(balance(), (wire) => ({ ...wire, headers }))).toBe(200);
  });

  it('that is not a form', async () => {
    const headers = { 'Content-Type': 'text/plain' };
    expect(await reasonFor(balance(), (wire) => ({ ...wire, headers }))).toBe('content-type-wrong');
  });

  it('whose form cannot be decoded', async () => {
    expect(await reasonFor(balance(), (wire) => ({ ...wire, body: `${wire.body}&a=%zz` }))).toBe(
      'body-malformed',
    );
  });

  it.each<[string, Partial<Wire>, number]>([
    ['GET', { method: 'GET', body: '' }, 404],
    ['an unknown path', { path: '/gw/api/v4/refund/1234' }, 404],
    ['another product', { path: '/other/api/v2/get-balance/manager/acme' }, 404],
    ['a path in upper case', { path: '/GW/api/v2/get-balance/manager/acme' }, 404],
    ['a slash at the end', { path: '/gw/api/v2/get-balance/manager/acme/' }, 404],
    ['a path that cannot be decoded', { path: '/gw/api/v2/get-balance/manager/%zz' }, 400],
    ['an encoded body', { headers: { 'Content-Encoding': 'gzip' } }, 415],
  ])('with %s by a status that it marks as undocumented', async (_, change, status) => {
    const { url } = await starts.simulator();
    const response = await send(url, { ...wireOf(url, balance()), ...change });
    expect([response.status, response.headers['simulator-undocumented']]).toEqual([status, 'true']);
  });

  it('with a body of two megabytes by a status that it marks as undocumented', async () => {
    const { url } = await starts.simulator();
    const response = await send(url, { ...wireOf(url, balance()), body: 'a'.repeat(2_000_000) });
    expect([response.status, response.headers['simulator-undocumented']]).toEqual([413, 'true']);
  });
});

it('reads names and values that signers get wrong', async () => {
  const { url } = await starts.simulator();
  const form = [
    ['phone', '1'],
    ['phone2', '2'],
    ['a', 'x'],
    ['a', 'x'],
    ['a', ''],
    ['', 'no name'],
    ['__proto__', "!*'()~ +%2B&=/?é私😀\n\0"],
  ] as const;
  const drafts = [balance(form), statusDraft([['client_orderid', 'invoice-1'], ...form])];
  const responses = await Promise.all(drafts.map((draft) => post(url, draft)));
  expect(responses.map(({ status }) => status)).toEqual([200, 200]);
});

it('reads a form in which spaces are plus signs', async () => {
  const { url } = await starts.simulator();
  const draft = balance([['balance-name', 'Main USD']]);
  const wire = wireOf(url, draft);
  const body = bodyOf([...draft.form, ...draft.oauth]).replace('%20', '+');
  expect(body).toContain('Main+USD');
  expect((await send(url, { ...wire, body })).status).toBe(200);
});
