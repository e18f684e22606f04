import { Socket } from 'node:net';
import { expect, it } from '@jest/globals';
import { AddressLimit } from '../../../../src/proxy/inbound/listener.ts';

function socketOf(remoteAddress: string): Socket {
  return Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress });
}

it('counts an IPv4 address and the IPv6 address that it is mapped to as one, and others apart', () => {
  const limit = new AddressLimit();
  limit.limit = 1;
  const admitted = ['10.0.0.1', '::ffff:10.0.0.1', '::FFFF:10.0.0.1', '10.0.0.2', '::1', '::ffff:0:1'];
  expect(admitted.map((address) => limit.admits(socketOf(address)))).toEqual([
    true,
    false,
    false,
    true,
    true,
    true,
  ]);
});

it('counts connections that were opened before a limit was set, and none that was rejected', () => {
  const limit = new AddressLimit();
  const first = socketOf('10.0.0.1');
  expect([limit.admits(first), limit.admits(socketOf('10.0.0.1'))]).toEqual([true, true]);
  limit.limit = 2;
  const rejected = socketOf('10.0.0.1');
  expect(limit.admits(rejected)).toBe(false);
  rejected.emit('close');
  expect(limit.admits(socketOf('10.0.0.1'))).toBe(false);
  first.emit('close');
  expect(limit.admits(socketOf('10.0.0.1'))).toBe(true);
});
