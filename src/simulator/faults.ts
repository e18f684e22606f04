import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { htmlResponse, type SimulatorResponse, writeHead, writeResponse } from './response.ts';
import type { FaultName, Scenario } from './scenario-schema.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * How a gateway or the network can fail after a request took effect: connection reset before the response, response one
 * byte at a time, status 500, bytes that are not HTTP.
 */
export interface Fault {
  /** Delay before the response. */
  readonly delaySeconds?: number;
  readonly fault?: FaultName | undefined;
}

const secondsPerByte = 0.1;

/** The first fault of the scenario that matches this request. */
export function scriptedFault(operation: string, request: VerifiedRequest, { faults }: Scenario): Fault {
  const orderId = parameter(request, 'client_orderid') ?? parameter(request, 'client-order-id');
  const rule = faults.find(
    (rule) =>
      (rule.operation === undefined || rule.operation === operation) &&
      (rule.client_orderid === undefined || rule.client_orderid === orderId),
  );
  return rule ?? {};
}

/** Sends the response, or simulates the fault. */
export async function deliver(
  response: ServerResponse,
  content: SimulatorResponse,
  fault: Fault,
): Promise<void> {
  await pause(fault.delaySeconds ?? 0);
  if (response.destroyed) return;
  switch (fault.fault) {
    case undefined:
      return writeResponse(response, content);
    case 'status-500':
      return writeResponse(response, htmlResponse(500, 'Internal error'));
    case 'drip':
      return drip(response, content);
    case 'reset':
      response.socket?.resetAndDestroy();
      return;
    case 'garbage':
      response.socket?.end('this is not HTTP\r\n\r\n');
  }
}

async function drip(response: ServerResponse, content: SimulatorResponse): Promise<void> {
  writeHead(response, content);
  for (const byte of Buffer.from(content.body)) {
    await pause(secondsPerByte);
    if (response.destroyed) return;
    response.write(Buffer.of(byte));
  }
  response.end();
}

/** Does not keep the process alive. */
async function pause(seconds: number): Promise<void> {
  if (seconds > 0) await sleep(seconds * 1000, undefined, { ref: false });
}
