import { expect, it } from '@jest/globals';
import { serverAttributes } from '../../src/trace.ts';

it.each([
  ['http://127.0.0.1/x', '127.0.0.1', 80],
  ['https://gateway.example', 'gateway.example', 443],
  ['https://gateway.example:8443/', 'gateway.example', 8443],
])('the span of a request to %s has its host and port', (address, host, port) => {
  expect(serverAttributes(address)).toEqual({ 'server.address': host, 'server.port': port });
});
