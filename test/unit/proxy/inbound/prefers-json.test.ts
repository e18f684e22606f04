import { expect, it } from '@jest/globals';
import { prefersJson } from '../../../../src/proxy/inbound/send-response.ts';

it.each([
  'application/json',
  'Application/JSON',
  'application/json; charset=utf-8',
  'application/json;charset="utf-8";q=0.3',
  'application/json;odata=verbose',
  'application/json;',
  'application/json;profile="https://a.test/b,c;q=0"',
  'application/vnd.pay+json',
  'application/vnd.pay+json; version=4, */*;q=0.8',
  'application/hal+json',
  'Application/LD+JSON;q=0.1',
  'application/json;q=0, application/vnd.pay+json',
  'application/xml, application/vnd.pay+json;q=0.9',
  'application/json;charset=utf-8, text/plain, */*',
  '*/*, application/json;charset=utf-8',
  'application/json;charset=utf-8, text/html;charset=utf-8',
  'text/html;level=1;q=0.4, application/json;indent=2;q=0.5',
  'text/html;q=0, */*',
  'application/*',
])('a client prefers JSON with Accept: %s', (accept) => {
  expect(prefersJson(accept)).toBe(true);
});

it.each([
  undefined,
  '',
  '*/*',
  '*/*;charset=utf-8',
  'text/*, application/*',
  'text/html, application/json;charset=utf-8',
  'text/html;charset=utf-8, application/json;charset=utf-8;q=0.9',
  'application/json;charset=utf-8;q=0',
  'application/vnd.pay+json;q=0.000, */*',
  'application/json;q=0.3;charset=utf-8, */*;q=0.4',
  'text/html;note="application/json", */*;q=0.1',
  'json',
  '+json',
  'application/+json',
  'application/json q=1',
  'application/json;q=high',
  'application/jsonp',
  'application/json-seq',
  'application/pay+jsonld',
  'application//json',
  ';;;,,,',
])('a client gets the form with Accept: %s', (accept) => {
  expect(prefersJson(accept)).toBe(false);
});
