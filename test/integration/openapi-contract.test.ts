import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';
import { harness } from '../support/harness.ts';
import { testPrivateKey } from '../support/service.ts';
import { controlKey, noon } from '../support/simulator.ts';
import { root } from '../support/sources.ts';

const text = readFileSync(join(root, 'docs/openapi.yaml'), 'utf8');
interface Described {
  readonly operationId: string;
  readonly requestBody: { readonly content: Readonly<Record<string, { readonly schema: object }>> };
  readonly responses: Readonly<Record<string, { readonly $ref: string }>>;
}
interface DescribedResponse {
  readonly headers: object;
  readonly content: Readonly<Record<string, { readonly schema?: Readonly<Record<string, string>> }>>;
}
const document: {
  readonly paths: Readonly<Record<string, { readonly post: Described }>>;
  readonly components: {
    readonly schemas: { readonly Problem: { readonly properties: object } };
    readonly responses: Readonly<Record<string, DescribedResponse>>;
    readonly headers: Readonly<Record<string, { readonly schema: object }>>;
  };
} = parse(text);

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addSchema({ ...document, $id: 'openapi' });
const isProblem = ajv.compile(document.components.schemas.Problem);
const headerSchemas: Readonly<Record<string, string>> = {
  'X-Request-Id': 'RequestId',
  'Countersign-Outcome': 'Outcome',
  'Proxy-Status': 'ProxyStatus',
};

/** Of HTTP itself, and those that browsers heed. Every other header is described. */
const undescribed =
  'connection content-length content-type date keep-alive content-security-policy cross-origin-resource-policy ' +
  'referrer-policy strict-transport-security x-content-type-options x-frame-options';

const starts = harness(afterAll);
let api: string;

beforeAll(async () => {
  const { url: gateway } = await starts.simulator();
  const keys = { acme: { controlKey, privateKey: testPrivateKey } };
  const endpoints = { 1234: 'acme', 77: 'acme' };
  const { url } = await starts.proxy({ gateway, clock: () => noon, keys, sandbox: { endpoints } });
  api = `${url}/sandbox/gw`;
});

function post(path: string, form: Record<string, string>, headers: Record<string, string> = {}) {
  const values = { login: 'acme', endpoint: '1234', endpointGroup: '77' };
  const filled = Object.entries(values).reduce((all, [name, value]) => all.replace(`{${name}}`, value), path);
  return fetch(api + filled, { method: 'POST', body: new URLSearchParams(form), headers });
}

function expectDocumentedHeaders(response: Response): void {
  for (const [header, name] of Object.entries(headerSchemas)) {
    const validate = ajv.compile(document.components.headers[name]?.schema ?? false);
    expect([header, validate(response.headers.get(header))]).toEqual([header, true]);
  }
}

async function expectProblem(response: Response, { responses }: Described): Promise<void> {
  expectDocumentedHeaders(response);
  expect(response.headers.get('Content-Type')).toBe('application/problem+json');
  expect(responses[response.status]?.$ref).toBe(`#/components/responses/${response.status}`);
  isProblem(await response.json());
  expect(isProblem.errors).toBeNull();
}

const payment = { status: 'approved', orderid: '5005', client_orderid: 'invoice-1' };
const callback = { ...payment, control: 'a'.repeat(40) };
const form = { login: 'acme', client_orderid: 'invoice-1', amount: '1.00', currency: 'EUR' };

describe.each(Object.entries(document.paths))('%s', (path, { post: described }) => {
  const schema = described.requestBody.content['application/x-www-form-urlencoded']?.schema ?? false;
  const isForm = ajv.compile(schema);
  const { login: _, ...withoutLogin } = form;
  const isCallback = described.operationId === 'verify-callback';
  const login = isCallback ? { 'Countersign-Login': 'acme' } : {};
  const sent = isCallback ? callback : described.operationId.startsWith('order-status') ? form : withoutLogin;

  it.each(['*/*', 'application/json'])(
    'responds to a form that fits the schema: Accept %s',
    async (accept) => {
      expect(isForm(sent)).toBe(true);
      const response = await post(path, sent, { Accept: accept, ...login });
      expectDocumentedHeaders(response);
      const outcome = isCallback ? 'not-sent' : 'answered';
      expect([response.status, response.headers.get('Countersign-Outcome')]).toEqual([200, outcome]);
      const type = response.headers.get('Content-Type')?.split(';')[0] ?? '';
      if (accept === 'application/json') expect(type).toBe(accept);
      const success = document.components.responses[described.responses[200]?.$ref.split('/').at(-1) ?? ''];
      const schema = success?.content[type]?.schema;
      if (schema === undefined) throw new TypeError(`${type} is not described`);
      const isDescribed = ajv.compile('$ref' in schema ? { $ref: `openapi${schema['$ref']}` } : schema);
      isDescribed(type === 'application/json' ? await response.json() : await response.text());
      expect(isDescribed.errors).toBeNull();
    },
  );

  it('rejects OAuth parameters, as the schema does, and another content type or encoding', async () => {
    const wrong = { ...sent, oauth_nonce: '1' };
    expect(isForm(wrong)).toBe(false);
    await expectProblem(await post(path, wrong), described);
    for (const headers of [{ 'Content-Type': 'application/json' }, { 'Content-Encoding': 'gzip' }])
      await expectProblem(await post(path, sent, headers), described);
  });

  it('requires the parameters that the schema requires', async () => {
    const isComplete = isForm({});
    const response = await post(path, {});
    expect(isComplete).toBe(response.status === 200);
    if (!isComplete) await expectProblem(response, described);
  });
});

it('problems are as described for an unknown path too, and have no other field or header', async () => {
  const [first] = Object.values(document.paths);
  if (first === undefined) throw new TypeError('no path');
  await expectProblem(await post('/api/v9/none', {}), first.post);
  const response = await fetch(`${api}/api/v4/transfer/1234`, { headers: { 'X-Request-Id': 'order-7' } });
  const problem: Record<string, unknown> = JSON.parse(await response.text());
  expect(problem['callerRequestId']).toBe('order-7');
  const { schemas, responses } = document.components;
  expect(Object.keys(schemas.Problem.properties)).toEqual(expect.arrayContaining(Object.keys(problem)));
  const described = Object.keys(responses['405']?.headers ?? {}).map((name) => name.toLowerCase());
  const sent = [...response.headers.keys()].filter((name) => !undescribed.split(' ').includes(name));
  expect(described).toEqual(expect.arrayContaining(sent));
  expect(sent).toContain('allow');
});
