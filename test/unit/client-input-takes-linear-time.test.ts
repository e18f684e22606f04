import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { bearerToken, presentsToken, tokenDigest } from '../../src/auth/bearer-token.ts';
import { parseSubjectAltName } from '../../src/auth/client-certificate.ts';
import { JwtError } from '../../src/auth/jwt/jwt-error.ts';
import { parseToken } from '../../src/auth/jwt/parse-token.ts';
import { parseStrictJson } from '../../src/auth/jwt/strict-json.ts';
import { configSchema } from '../../src/config/schema.ts';
import { ProxyError } from '../../src/errors.ts';
import { controlText } from '../../src/gateway/control.ts';
import { resolveLogin } from '../../src/gateway/login.ts';
import { shownOrderId } from '../../src/gateway/order-id.ts';
import { parseResponse, responseAsJson, skewOf } from '../../src/gateway/response.ts';
import { createRoutes } from '../../src/gateway/router.ts';
import { validateParameters } from '../../src/gateway/validate-parameters.ts';
import type { Pair } from '../../src/oauth1/parameters.ts';
import { prepare } from '../../src/oauth1/sign.ts';
import { LoginRedactor } from '../../src/observability/login-redactor.ts';
import { decodeReceived } from '../../src/proxy/inbound/read-form.ts';
import { prefersJson } from '../../src/proxy/inbound/send-response.ts';
import { parseTraceparent } from '../../src/proxy/inbound/trace-context.ts';
import {
  describeContentCoding,
  describeMediaType,
  isForm,
  parseCallerRequestId,
  validateRequestHead,
} from '../../src/proxy/inbound/validate-head.ts';
import { redactBaseString, redactParameter, redactParameters } from '../../src/redact-card-data.ts';
import { isKnownHost } from '../../src/util/web-page.ts';
import { texts } from '../support/client-inputs.ts';
import { costOf, growthProblem } from '../support/cpu-time.ts';

const config = configSchema.parse({
  environments: { sandbox: { baseUrl: 'https://gateway.test', product: 'gw' } },
  keys: { source: 'directory', directory: 'keys' },
  operations: {
    sale: {
      path: '/api/v2/sale/{endpoint}',
      signature: 'SHA1-control',
      loginFrom: 'header',
      control: ['login', '{endpoint}', 'client_orderid', 'amount'],
      parameters: { amount: { minorUnitsOf: 'currency' } },
    },
  },
});
const { resolve } = createRoutes(config);
const destination = resolve('/sandbox/gw/api/v2/pan-eligibility/send/1234');
const withControl = resolve('/sandbox/gw/api/v2/sale/1234');
const callback = resolve('/sandbox/gw/verify-callback/login/acme');
const redactor = new LoginRedactor([]);

/** Everything that is done with a form up to its signature. */
function processForm(form: readonly Pair[]): void {
  attempt(() => resolveLogin(destination, form, 'acme'));
  attempt(() => validateParameters(destination.operation, form));
  attempt(() => validateParameters(withControl.operation, form));
  attempt(() => controlText({ destination: withControl, login: 'acme', form }));
  const oauth = { consumerKey: 'acme', nonce: 'nonce', timestamp: 1, signatureMethod: 'HMAC-SHA1' } as const;
  prepare({ method: 'POST', url: destination.url, form, ...oauth });
}

function headWith(name: string, value: string): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  request.httpVersion = '1.1';
  request.method = 'POST';
  request.rawHeaders = ['host', 'x', name, value];
  request.headers = { [name]: value };
  return request;
}

/** The largest that the configuration allows: a form with more is rejected before it is decoded. */
const mostParameters = { maxBodyBytes: 65_536, maxParameters: 10_000 };

/** Work on what a client or a gateway sends, by the place where it is. */
const steps: Readonly<Record<string, (text: string) => unknown>> = {
  'a form': (text) => attempt(() => processForm(decodeReceived(Buffer.from(text), mostParameters))),
  'the name of a parameter': (text) => processForm([[text, '1']]),
  'the value of a parameter': (text) =>
    processForm([
      ['client_orderid', text],
      ['order_desc', text],
    ]),
  'an amount and a control': (text) =>
    processForm([
      ['client_orderid', '1'],
      ['currency', 'EUR'],
      ['amount', text],
      ['control', text],
    ]),
  'a callback': (text) =>
    attempt(() =>
      validateParameters(callback.operation, [
        ['status', 'approved'],
        ['orderid', '1'],
        ['client_orderid', '1'],
        ['control', 'a'],
        ['merchantdata', text],
      ]),
    ),
  'an amount of many digits': (text) =>
    processForm([
      ['client_orderid', '1'],
      ['currency', 'EUR'],
      ['amount', '0'.repeat(text.length)],
    ]),
  Authorization: (text) => tokenDigest(bearerToken(text)?.token ?? ''),
  'Authorization at the admin port': (text) => presentsToken(text, '0'.repeat(64)),
  'a JWT': (text) => parseToken(text.replace('Bearer ', '')),
  'JSON of a JWT': (text) => parseStrictJson(text, 8),
  'a string in JSON of a JWT': (text) => parseStrictJson(JSON.stringify({ [text]: text }), 8),
  'names of a client certificate': (text) => redactor.names({ text, ...parseSubjectAltName(text) }),
  Accept: prefersJson,
  'Host at the admin port': (text) => isKnownHost(text, ['a.test']),
  'Content-Type': (text) => [
    isForm(text),
    describeMediaType(text),
    validateRequestHead(headWith('content-type', text), []),
  ],
  'Content-Encoding': (text) => describeContentCoding(text),
  'the name of a header': (text) => validateRequestHead(headWith(text, '1'), []),
  traceparent: parseTraceparent,
  'X-Request-Id': parseCallerRequestId,
  'Countersign-Login': (text) => resolveLogin(destination, [], text),
  'the target': resolve,
  'a login in the target': (text) => resolve(`/sandbox/gw/api/v2/get-balance/manager/${text}`),
  'a text of an error or a log line': (text) => redactor.text(text),
  'a response of the gateway': (text) => responseAsJson(parseResponse('text/html', Buffer.from(text)) ?? []),
  'Content-Type of the gateway': (text) => parseResponse(text, Buffer.from('a=b')),
  'Date of the gateway': (text) => skewOf(text, { sentAt: 0, receivedAt: 0 }),
  'redacted parameters': redactParameters,
  'a redacted base string': redactBaseString,
  'a redacted parameter': (text) => redactParameter(text, text),
  'an order ID': (text) => shownOrderId({}, [['client_orderid', text]]),
};

/** A rejected input is fine, a bug is not. */
function attempt(work: () => unknown): void {
  try {
    work();
  } catch (error) {
    const isRejection = [ProxyError, JwtError].some((kind) => error instanceof kind);
    if (!isRejection) throw error;
  }
}

const sizes = [16_384, 32_768, 65_536];
/** Milliseconds at 64 KiB: what takes less is no problem, however it grows. */
const floor = 6;

describe('work on any text of 16, 32 and 64 KiB takes linear time, and less than 20 ms', () => {
  it.each(Object.entries(steps))('%s', async (_, step) => {
    const problems: Record<string, string> = {};
    for (const [name, shape] of Object.entries(texts)) {
      const inputs = sizes.map(shape);
      const problem = await growthProblem(sizes.length, floor, (size) =>
        costOf(() => attempt(() => step(inputs[size] ?? ''))),
      );
      if (problem !== undefined) problems[name] = problem;
    }
    expect(problems).toEqual({});
  });
});
