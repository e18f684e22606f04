import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { htmlReply, type SimulatorResponse, writeHead, writeReply } from './response.ts';
import type { FaultName, Scenario } from './scenario-shape.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * How a gateway, or the network before it, can misbehave once a request had its effect: connection reset
 * before the reply, reply one byte at a time, status 500, bytes that are not HTTP.
 */
export interface Fault {
  /** Time before anything is sent. */
  readonly delaySeconds?: number;
  readonly fault?: FaultName | undefined;
}

const secondsPerByte = 0.1;

/** The first fault of the scenario that is meant for this request. */
export function scriptedFault(operation: string, call: VerifiedRequest, { faults }: Scenario): Fault {
  const orderId = parameter(call, 'client_orderid') ?? parameter(call, 'client-order-id');
  const rule = faults.find(
    (rule) =>
      (rule.operation === undefined || rule.operation === operation) &&
      (rule.client_orderid === undefined || rule.client_orderid === orderId),
  );
  return rule ?? {};
}

/** Sends the reply, or what the fault makes of it. */
export async function deliver(
  response: ServerResponse,
  reply: SimulatorResponse,
  fault: Fault,
): Promise<void> {
  await pause(fault.delaySeconds ?? 0);
  if (response.destroyed) return;
  switch (fault.fault) {
    case undefined:
      return writeReply(response, reply);
    case 'status-500':
      return writeReply(response, htmlReply(500, 'Internal error'));
    case 'drip':
      return drip(response, reply);
    case 'reset':
      response.socket?.resetAndDestroy();
      return;
    case 'garbage':
      response.socket?.end('this is not HTTP\r\n\r\n');
  }
}

async function drip(response: ServerResponse, reply: SimulatorResponse): Promise<void> {
  writeHead(response, reply);
  for (const byte of Buffer.from(reply.body)) {
    await pause(secondsPerByte);
    if (response.destroyed) return;
    response.write(Buffer.of(byte));
  }
  response.end();
}

/** Does not keep a process alive that has nothing else to do. */
async function pause(seconds: number): Promise<void> {
  if (seconds > 0) await sleep(seconds * 1000, undefined, { ref: false });
}
