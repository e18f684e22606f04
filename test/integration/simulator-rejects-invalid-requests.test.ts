import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import type { ListenOptions } from '../../src/simulator/listen.ts';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  balanceDraft as balance,
  bodyOf,
  controlKey,
  type Draft,
  fieldsOf,
  gatewayKeys,
  headerOf,
  noon,
  post,
  privateKey,
  send,
  shippedScenario,
  signatureOf,
  statusDraft,
  type TestSimulator,
  transferDraft,
  type Wire,
  wireOf,
  withOAuth,
} from '../support/simulator.ts';
import { until } from '../support/until.ts';
import { privateKeyOf } from '../support/vectors.ts';

const starts = harness(afterAll);
let simulator: TestSimulator['simulator'];
let url: string;
beforeAll(async () => {
  ({ simulator, url } = await starts.simulator());
});
beforeEach(() => simulator.reset());

const seconds = noon / 1000;
const status = () => statusDraft([['client_orderid', 'invoice-1']]);
const transfer = () => transferDraft([['client_orderid', 'new']]);

/** One change of a valid request on the wire. */
type Change = (wire: Wire, draft: Draft) => Wire;
const unchanged: Change = (wire) => wire;
const header =
  (change: (header: string) => string | string[]): Change =>
  (wire) => ({ ...wire, authorization: change(String(wire.authorization)) });
const signature =
  (change: (signature: string) => string): Change =>
  (wire, draft) => ({ ...wire, authorization: headerOf(draft.oauth, change(signatureOf(url, draft))) });
const body =
  (change: (body: string) => string): Change =>
  (wire) => ({ ...wire, body: change(wire.body) });
const replaced =
  (more: Partial<Wire>): Change =>
  (wire) => ({ ...wire, ...more });

/** Sends a draft as it is changed on the wire. @returns why it is rejected, or its status */
async function reasonFor(draft: Draft, change = unchanged, at = url): Promise<unknown> {
  const { status: code, headers } = await send(at, change(wireOf(at, draft), draft));
  const reason = headers['simulator-undocumented'] === 'true' ? `undocumented ${code}` : code;
  return code === 403 ? headers['simulator-rejection'] : reason;
}
const changed = (name: string, value: string, draft = balance()): Draft => withOAuth(draft, name, value);
const flip = (text: string): string => {
  const bytes = Buffer.from(text, 'base64');
  bytes[7] = (bytes[7] ?? 0) ^ 1;
  return bytes.toString('base64');
};

type Row = readonly [what: string, draft: Draft, change?: Change];
const rejected: Readonly<Record<string, readonly Row[]>> = {
  'signature-wrong': [
    ['one bit of an HMAC flipped', balance(), signature(flip)],
    ['one byte of the body changed', balance([['a', 'USD']]), body((text) => text.replace('USD', 'USE'))],
    ['another path', status(), replaced({ path: '/gw/api/v4/status/1235' })],
    ['another host', status(), replaced({ headers: { Host: 'other.example' } })],
    ['another private key', { ...status(), key: privateKeyOf('rsa-4096-pkcs8.pem') }],
    [
      'another nonce, in the header alone',
      status(),
      (wire, draft) => ({
        ...wire,
        authorization: headerOf(changed('oauth_nonce', 'x', draft).oauth, signatureOf(url, draft)),
        body: bodyOf(draft.form),
      }),
    ],
  ],
  'signature-malformed': [
    ['in hexadecimal', balance(), signature((text) => Buffer.from(text, 'base64').toString('hex'))],
    ['in base64url', status(), signature((text) => `${text.slice(0, -2)}-_`)],
    ['without padding', status(), signature((text) => text.replace(/=+$/, ''))],
    ['empty', status(), signature(() => '')],
  ],
  'method-wrong': [['valid', { ...changed('oauth_signature_method', 'RSA-SHA256'), key: privateKey }]],
  'authorization-missing': [['no header', balance(), replaced({ authorization: undefined })]],
  'authorization-malformed': [
    ['another scheme', balance(), header((text) => text.replace('OAuth', 'Bearer'))],
    ['a scheme alone', balance(), header(() => 'OAuth')],
    ['no quotes', balance(), header((text) => text.replaceAll('"', ''))],
    ['nothing between pairs', balance(), header((text) => text.replaceAll(', ', ''))],
    ['a comma at the end', balance(), header((text) => `${text},`)],
    ['a name that cannot be decoded', balance(), header((text) => text.replace('oauth_nonce', 'oauth%_n'))],
    ['a bare equals sign in the signature', balance(), header((text) => text.replace('%3D', '='))],
    ['two headers', balance(), header((text) => [text, text])],
  ],
  'oauth-parameter-missing': [
    ['the nonce in the header', balance(), header((text) => text.replace(/oauth_nonce="[^"]*", /, ''))],
    ['the nonce in the body', balance(), body((text) => text.replace(/oauth_nonce=[^&]*&/, ''))],
    ['the signature', balance(), header((text) => text.replace(/, oauth_signature="[^"]*"/, ''))],
  ],
  'header-body-mismatch': [
    ['the nonce', balance(), header((text) => text.replace(/(oauth_nonce)="[^"]*"/, '$1="other"'))],
  ],
  'oauth-parameter-repeated': [
    ['the version in the body', balance([['oauth_version', '1.0']])],
    ['the version in the header', balance(), header((text) => `${text}, oauth_version="1.0"`)],
    ['the signature', balance(), header((text) => `${text}, ${/oauth_signature=".*"/.exec(text)?.[0]}`)],
  ],
  'oauth-parameter-unexpected': [
    ...['oauth_signature', 'oauth_token'].map((name): Row => [`${name} in the body`, balance([[name, 'x']])]),
    ['a parameter of the request in the header', balance(), header((text) => `${text}, balance-name="x"`)],
  ],
  'version-wrong': [['1', changed('oauth_version', '1')]],
  'timestamp-malformed': ['', '0', '1e9', '1768478400.0', '01768478400'].map(
    (text): Row => [`"${text}"`, changed('oauth_timestamp', text)],
  ),
  'timestamp-in-milliseconds': [['noon', changed('oauth_timestamp', String(noon))]],
  'timestamp-outside-window': [-301, 301].map(
    (away): Row => [`${away} s off`, changed('oauth_timestamp', String(seconds + away))],
  ),
  'login-unknown': [['a stranger', balance([], 'stranger')]],
  'login-mismatch': [
    ['another one than in the path', changed('oauth_consumer_key', 'beta')],
    ['another one than the parameter login', changed('oauth_consumer_key', 'beta', status())],
    ['no parameter login', { ...status(), form: [] }],
    ['two of them', statusDraft([['login', 'acme']])],
  ],
  'query-present': [['a query', balance(), (wire) => ({ ...wire, path: `${wire.path}?a=b` })]],
  'content-type-wrong': [['plain text', balance(), replaced({ headers: { 'Content-Type': 'text/plain' } })]],
  'body-malformed': [['what cannot be decoded', balance(), body((text) => `${text}&a=%zz`)]],
  // No gateway documents these.
  'undocumented 404': [
    ['GET', balance(), replaced({ method: 'GET', body: '' })],
    ['an unknown path', balance(), replaced({ path: '/gw/api/v4/refund/1234' })],
    ['a path in upper case', balance(), replaced({ path: '/GW/api/v2/get-balance/manager/acme' })],
    ['a slash at the end', balance(), replaced({ path: '/gw/api/v2/get-balance/manager/acme/' })],
  ],
  'undocumented 400': [
    ['a path that cannot be decoded', balance(), replaced({ path: '/gw/api/v2/get-balance/manager/%zz' })],
  ],
  'undocumented 415': [['an encoded body', balance(), replaced({ headers: { 'Content-Encoding': 'gzip' } })]],
  'undocumented 413': [['two megabytes', balance(), replaced({ body: 'a'.repeat(2_000_000) })]],
};

describe('the simulator', () => {
  describe.each(Object.keys(rejected))('rejects with the reason %s', (reason) => {
    it.each(rejected[reason] ?? [])('%s', async (_what, draft, ...[change]) => {
      expect(await reasonFor(draft, change)).toBe(reason);
    });
  });

  it('rejects as the gateway does: 403 and an HTML page without a reason', async () => {
    const response = await send(url, { ...wireOf(url, balance()), authorization: undefined });
    expect(response.status).toBe(403);
    expect(response.headers['content-type']).toBe('text/html;charset=utf-8');
    expect(response.body).toBe(
      '<!DOCTYPE html>\n<html><head><title>403</title></head><body><h1>Access is denied</h1></body></html>\n',
    );
  });

  const contentType = 'Application/X-WWW-Form-URLEncoded ; charset=UTF-8';
  const awkward = [
    ['phone', '1'],
    ['phone2', '2'],
    ['a', 'x'],
    ['a', 'x'],
    ['a', ''],
    ['', 'no name'],
    ['__proto__', "!*'()~ +%2B&=/?é私😀\n\0"],
  ] as const;
  it.each<Row>([
    ['no OAuth parameters in the body', status(), (wire, draft) => ({ ...wire, body: bodyOf(draft.form) })],
    ['a comma and no space between pairs', balance(), header((text) => text.replaceAll(', ', ','))],
    ['a realm', balance(), header((text) => text.replace('OAuth ', 'OAuth Realm="Gateway & co", '))],
    ['the scheme in lower case', balance(), header((text) => text.replace('OAuth ', 'oauth '))],
    [
      'lower-case hexadecimal digits',
      balance(),
      header((text) => text.replaceAll(/%../g, (digits) => digits.toLowerCase())),
    ],
    ['reversed pairs', balance(), header((text) => `OAuth ${text.slice(6).split(', ').toReversed().join()}`)],
    ['the end of the window', changed('oauth_timestamp', String(seconds + 300))],
    ['its beginning', changed('oauth_timestamp', String(seconds - 300))],
    ['a parameter of the content type', balance(), replaced({ headers: { 'Content-Type': contentType } })],
    ['names and values that signers get wrong', balance(awkward)],
    ['plus signs', balance([['balance-name', 'Main USD']]), body((text) => text.replace('%20', '+'))],
  ])('accepts %s', async (_what, draft, ...[change]) => {
    expect(await reasonFor(draft, change)).toBe(200);
  });

  it('has the signature method of its scenario', async () => {
    const own = 'logins: { acme: {} }\noperations: { transfer: { signature: HMAC-SHA1 } }';
    const other = await starts.simulator({ scenario: loadScenario(own) });
    expect(await reasonFor(transfer(), unchanged, other.url)).toBe('method-wrong');
  });
});

describe('the simulator rejects a nonce', () => {
  it('that was used before, even with another timestamp, but not by another login', async () => {
    const draft = changed('oauth_nonce', 'shared');
    expect(await reasonFor(draft)).toBe(200);
    expect(await reasonFor(draft)).toBe('nonce-replayed');
    expect(await reasonFor(changed('oauth_timestamp', String(seconds + 1), draft))).toBe('nonce-replayed');
    expect(await reasonFor(changed('oauth_nonce', 'shared', balance([], 'beta')))).toBe(200);
  });

  it('until its timestamp is outside the window, also if that is ahead of the clock', async () => {
    const draft = changed('oauth_timestamp', String(seconds + 300));
    expect(await reasonFor(draft)).toBe(200);
    simulator.clock.offsetSeconds = 600;
    expect(await reasonFor(draft)).toBe('nonce-replayed');
  });

  it('only if a request with it was valid', async () => {
    const draft = balance();
    expect(await reasonFor({ ...draft, key: 'another' })).toBe('signature-wrong');
    expect(await reasonFor(draft)).toBe(200);
  });
});

describe('the simulator rejects a login', () => {
  const reasonAt = async (options: Partial<ListenOptions>, draft: Draft) =>
    reasonFor(draft, unchanged, (await starts.simulator(options)).url);

  it('that has no key of the kind, or not the balance feature', async () => {
    const keys = new Map([['acme', { ...gatewayKeys, controlKeys: [] }]]);
    expect(await reasonAt({ keys }, balance())).toBe('key-missing');
    expect(await reasonAt({ keys }, status())).toBe(200);
    const scenario = { ...loadScenario(shippedScenario()), logins: { acme: {} } };
    expect(await reasonAt({ scenario }, balance())).toBe('balance-not-enabled');
  });
});

const sha1 = (text: string): string => createHash('sha1').update(text).digest('hex');
const whole = 'login=acme&client_orderid=invoice-1&orderid=900001';
const refund = `${whole}&amount=0.94&currency=USD`;
const good = sha1(`acmeinvoice-190000194USD${controlKey}`);

/** Posts a form of a return with this control. */
async function refundWith(
  form: string,
  control: string,
  command = 'return',
): Promise<Record<string, unknown>> {
  const body = `${form}&control=${control}`;
  const response = await send(url, { path: `/gw/api/v2/${command}/1234`, authorization: undefined, body });
  const { status, headers } = response;
  return { status, rejection: headers['simulator-rejection'], ...fieldsOf(response.body) };
}

describe('the simulator verifies a control', () => {
  it('of the published example', async () => {
    const key = { controlKeys: [new Secret('B17F59B4-A7DC-41B4-8FF9-37D986B43D20')], publicKeys: [] };
    const scenario = loadScenario(`logins: { beta: {}, acme: {} }\nendpoints: ["1111"]\n`);
    const own = await starts.simulator({ scenario, keys: new Map([['acme', key]]) });
    // printf '%s' '1111902B4FF51042john.smith@gmail.comB17F59B4-A7DC-41B4-8FF9-37D986B43D20' | sha1sum
    const control = 'c6bdd88a78834ef4b863b088827a459f039e8257';
    const form = 'client_orderid=902B4FF5&amount=10.42&currency=USD&email=john.smith%40gmail.com';
    const body = `${form}&control=${control}`;
    const path = '/gw/api/v2/preauth/1111';
    const response = await send(own.url, { path, authorization: undefined, body });
    const made = { type: 'async-response', 'merchant-order-id': '902B4FF5' };
    expect(fieldsOf(response.body)).toMatchObject(made);
    expect(own.simulator.seen.accepted({ operation: 'preauth', login: 'acme' })).toBe(1);
  });

  it('of a return, which is a further stage of its order', async () => {
    const made = { type: 'async-response', 'gw-order-id': '900001' };
    const merchant = await starts.recordingGateway();
    const callback = `server_callback_url=${encodeURIComponent(merchant.url)}`;
    const first = await refundWith(`${refund}&${callback}`, good);
    expect(first).toMatchObject(made);
    const status = async (...more: (readonly [string, string])[]) =>
      fieldsOf((await post(url, statusDraft([['client_orderid', 'invoice-1'], ...more]))).body);
    const stage = { 'transaction-type': 'reversal', 'reversal-amount': '0.94' };
    expect(await status()).toMatchObject({ status: 'processing', ...stage });
    simulator.clock.offsetSeconds = 1;
    const amounts = { amount: '9.48', 'initial-amount': '10.42', 'total-reversal-amount': '0.94' };
    expect(await status()).toMatchObject({ status: 'approved', ...amounts, ...stage });
    await refundWith(refund, good);
    expect(await status()).toMatchObject({ ...amounts, status: 'processing' });
    const again = await status(['by-request-sn', String(first['serial-number'])]);
    expect(again).toMatchObject({ status: 'approved' });
    await until(() => merchant.requests.length > 0);
    expect(merchant.requests[0]?.target).toContain('&amount=9.48&reversal-amount=0.94&');
    simulator.reset();
    expect(await status()).toMatchObject({ 'transaction-type': 'transfer', amount: '10.42' });
  });

  it.each(['return', 'capture'])(
    'of a %s of the whole amount, once: without amount or currency',
    async (command) => {
      const control = sha1(`acmeinvoice-1900001${controlKey}`);
      expect(await refundWith(whole, control, command)).toMatchObject({ type: 'async-response' });
      simulator.clock.offsetSeconds = 1;
      expect(await refundWith(whole, control, command)).toMatchObject({ 'error-code': '9009' });
    },
  );

  it.each([
    ['invoice-1', '900001', '10.43', 'USD', '9009'],
    ['invoice-1', '900001', '10.42', 'EUR', '9009'],
    ['invoice-2', '900002', '1.00', 'EUR', '9008'],
    ['t-1', '900008', '1.00', 'EUR', '9008'],
    ['t-1', '900008', '1.50', '', '9005'],
  ])('and makes no return of %s, %s: %s %s', async (id, orderid, amount, currency, code) => {
    // In progress.
    await post(url, transferDraft(Object.entries({ client_orderid: 't-1', amount: '12', currency: 'JPY' })));
    const form = `login=acme&client_orderid=${id}&orderid=${orderid}&amount=${amount}${currency && `&currency=${currency}`}`;
    const control = sha1(`acme${id}${orderid}${amount.replace('.', '')}${currency}${controlKey}`);
    const failed = await refundWith(form, control);
    expect(failed).toMatchObject({ status: 200, 'error-code': code });
    const ids = { client_orderid: id, 'by-request-sn': String(failed['serial-number']) };
    const { body } = await post(url, statusDraft(Object.entries(ids)));
    expect(fieldsOf(body)).toMatchObject({ 'error-code': code });
  });

  it.each([
    ['another amount', refund.replace('0.94', '9.40'), good, 'signature-wrong'],
    ['no control', refund, '', 'signature-wrong'],
    ['two controls', `${refund}&control=${good}`, good, 'control-missing'],
    ['an unknown login', refund.replace('acme', 'nobody'), good, 'login-unknown'],
  ])(
    '%s is an error with the status 200 that says why, and no refund',
    async (_, form, control, rejection) => {
      expect(await refundWith(form, control)).toEqual({
        status: 200,
        rejection,
        type: 'validation-error',
        'serial-number': expect.any(String),
        'error-message': 'Invalid control',
        'error-code': '9007',
      });
      const [entry] = simulator.journal.entries();
      expect(entry).toMatchObject({ rejection, status: 200 });
      expect(JSON.stringify(entry)).not.toContain(good);
      if (rejection !== 'signature-wrong') return;
      expect(entry?.steps.slice(1)).toMatchObject([
        { step: 'login' },
        { step: 'control-text', controlText: expect.stringMatching(/^acmeinvoice-1900001\d+USD$/) },
        { step: 'signature', result: 'failed', triedKeys: [{ kind: 'control_key', index: 0 }] },
      ]);
    },
  );
});
