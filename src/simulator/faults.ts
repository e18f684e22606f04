import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FaultName } from './fault-rule.ts';
import { htmlResponse, type SimulatorResponse, writeHead, writeResponse } from './response.ts';

/** How a response fails to be what the gateway wanted to send. */
export interface Fault {
  /** Delay before the response. */
  readonly delaySeconds?: number;
  readonly fault?: FaultName | undefined;
  /** With `cut`: how many bytes of the body are sent. */
  readonly cutAfterBytes?: number | undefined;
}

const statusFaults: Readonly<Partial<Record<FaultName, SimulatorResponse>>> = {
  'status-429': htmlResponse(429, 'Too many requests'),
  'status-500': htmlResponse(500, 'Internal error'),
  'status-502': htmlResponse(502, 'Bad gateway'),
  'status-503': htmlResponse(503, 'Service unavailable'),
};

const secondsPerByte = 0.1;

/** What is sent in place of the response, for a fault that is a status. */
export function responseOf(fault: FaultName | undefined): SimulatorResponse | undefined {
  return fault && statusFaults[fault];
}

/** Sends the response, or simulates the fault. */
export async function deliver(
  response: ServerResponse,
  content: SimulatorResponse,
  { delaySeconds = 0, fault, cutAfterBytes = 0 }: Fault,
): Promise<void> {
  await pause(delaySeconds);
  if (response.destroyed) return;
  if (fault === 'cut') cut(response, content, cutAfterBytes);
  else if (fault === 'drip') await drip(response, content);
  else if (fault === 'reset') response.socket?.resetAndDestroy();
  else if (fault === 'garbage') response.socket?.end('this is not HTTP\r\n\r\n');
  else writeResponse(response, content);
}

/** Whether the client receives a valid response. */
export function hasResponse(fault: FaultName | undefined): boolean {
  return fault !== 'reset' && fault !== 'garbage';
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

/** A body that is not longer than that is complete. */
function cut(response: ServerResponse, content: SimulatorResponse, bytes: number): void {
  const body = Buffer.from(content.body);
  if (body.length <= bytes) return writeResponse(response, content);
  writeHead(response, content);
  response.flushHeaders();
  response.write(body.subarray(0, bytes));
  response.socket?.destroySoon();
}

/** Does not keep the process alive. */
async function pause(seconds: number): Promise<void> {
  if (seconds > 0) await sleep(seconds * 1000, undefined, { ref: false });
}
