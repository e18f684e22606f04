import { createHash } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import { bodyOf, controlKey, fieldsOf, post, send, statusDraft } from '../support/simulator.ts';

const starts = harness();

type Pair = readonly [name: string, value: string];

async function start() {
  const started = await starts.simulator();
  const call = async (path: string, form: readonly Pair[], control: string) => {
    const body = bodyOf([...form, ['control', control]]);
    const response = await send(started.url, { path, authorization: undefined, body });
    const { status, headers } = response;
    return { status, rejection: headers['simulator-rejection'], ...fieldsOf(response.body) };
  };
  return { ...started, call };
}
const sha1 = (text: string): string => createHash('sha1').update(text).digest('hex');
const refund: readonly Pair[] = [
  ['login', 'acme'],
  ['client_orderid', 'invoice-1'],
  ['orderid', '900001'],
  ['amount', '0.94'],
  ['currency', 'USD'],
];
const path = '/gw/api/v2/return/1234';
const good = sha1(`acmeinvoice-190000194USD${controlKey}`);

it('accepts the published example of a control', async () => {
  const key = { controlKeys: [new Secret('B17F59B4-A7DC-41B4-8FF9-37D986B43D20')], publicKeys: [] };
  const scenario = loadScenario(`logins: { beta: {}, acme: {} }\nendpoints: ["1111"]\n`);
  const { url, simulator } = await starts.simulator({ scenario, keys: new Map([['acme', key]]) });
  // printf '%s' '1111902B4FF51042john.smith@gmail.comB17F59B4-A7DC-41B4-8FF9-37D986B43D20' | sha1sum
  const body = bodyOf([
    ['client_orderid', '902B4FF5'],
    ['amount', '10.42'],
    ['currency', 'USD'],
    ['email', 'john.smith@gmail.com'],
    ['control', 'c6bdd88a78834ef4b863b088827a459f039e8257'],
  ]);
  const response = await send(url, { path: '/gw/api/v2/preauth/1111', authorization: undefined, body });
  expect(fieldsOf(response.body)).toMatchObject({ type: 'async-response', 'merchant-order-id': '902B4FF5' });
  expect(simulator.seen.accepted({ operation: 'preauth', login: 'acme' })).toBe(1);
});

it('a return is a further stage of its order', async () => {
  const { url, call, simulator } = await start();
  expect(await call(path, refund, good)).toMatchObject({ type: 'async-response', 'gw-order-id': '900001' });
  const shown = async () => fieldsOf((await post(url, statusDraft([['client_orderid', 'invoice-1']]))).body);
  expect(await shown()).toMatchObject({ status: 'processing', 'transaction-type': 'reversal' });
  simulator.clock.offsetSeconds = 1;
  expect(await shown()).toMatchObject({ status: 'approved', 'transaction-type': 'reversal', amount: '0.94' });
  simulator.reset();
  expect(await shown()).toMatchObject({ 'transaction-type': 'transfer', amount: '10.42' });
});

it('a return of the whole amount covers neither amount nor currency', async () => {
  const { call } = await start();
  const control = sha1(`acmeinvoice-1900001${controlKey}`);
  expect(await call(path, refund.slice(0, 3), control)).toMatchObject({ type: 'async-response' });
});

it.each<[string, readonly Pair[], string, string]>([
  ['the key of another', refund, sha1('acmeinvoice-190000194USDother'), 'signature-wrong'],
  [
    'another amount',
    refund.map(([name, value]) => [name, value.replace('0.94', '9.40')]),
    good,
    'signature-wrong',
  ],
  ['no control', refund, '', 'signature-wrong'],
  ['two controls', [...refund, ['control', good]], good, 'control-missing'],
  [
    'an unknown login',
    refund.map(([name, value]) => [name, value.replace('acme', 'nobody')]),
    good,
    'login-unknown',
  ],
])('%s is an error with the status 200 that says why, and no refund', async (_, form, control, rejection) => {
  const { call, simulator } = await start();
  expect(await call(path, form, control)).toEqual({
    status: 200,
    rejection,
    type: 'validation-error',
    'serial-number': expect.any(String),
    'error-message': 'Invalid control',
    'error-code': '9007',
  });
  expect(simulator.journal.entries()[0]).toMatchObject({ rejection, status: 200 });
  expect(JSON.stringify(simulator.journal.entries())).not.toContain(good);
});

it('shows what the control covers in the journal', async () => {
  const { call, simulator } = await start();
  await call(path, refund, 'wrong');
  expect(simulator.journal.entries()[0]?.steps.slice(1)).toMatchObject([
    { step: 'login' },
    { step: 'control-text', controlText: 'acmeinvoice-190000194USD' },
    { step: 'signature', result: 'failed', triedKeys: [{ kind: 'control_key', index: 0 }] },
  ]);
});
