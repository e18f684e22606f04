import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

/**
 * Free loopback ports outside the range that the system uses for outgoing connections:
 * a restarted process needs the same port again.
 */
export async function fixedPorts(count: number): Promise<number[]> {
  const lowest = firstOutgoingPort();
  const ports: number[] = [];
  for (let port = 10_000 + ((process.pid * 37) % 10_000); ports.length < count; port += 1) {
    if (port >= lowest) throw new Error('there are no free ports left');
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

function firstOutgoingPort(): number {
  try {
    return Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8'), 10);
  } catch {
    return 32_768;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const free = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
  });
  if (free) await new Promise((resolve) => server.close(resolve));
  return free;
}
