import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import { freePort } from './faulty-gateway.ts';
import { Folder } from './folder.ts';
import { kill } from './listening-program.ts';
import { until } from './until.ts';

/** A real Redis on loopback that writes through to its file before it responds, and may be killed and started again. */
export class RedisServer {
  readonly port: number;
  readonly #folder = new Folder();
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;

  private constructor(port: number, args: readonly string[]) {
    const durable = `--bind 127.0.0.1 --port ${port} --appendonly yes --appendfsync always`.split(' ');
    this.port = port;
    this.#args = [...durable, '--save', '', '--dir', this.#folder.path, ...args];
  }

  static async start(args: readonly string[] = []): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), args);
    await server.restart();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Starts it again, with what it has written. */
  async restart(): Promise<void> {
    const child = spawn('redis-server', this.#args, { stdio: ['ignore', 'pipe', 'ignore'] });
    this.#child = child;
    let printed = '';
    child.stdout.on('data', (chunk: Buffer) => (printed += String(chunk)));
    await until(() => {
      if (child.exitCode !== null) throw new Error(`redis-server ended: ${printed}`);
      return printed.includes('Ready to accept connections');
    }, 'redis-server is ready');
  }

  async kill(): Promise<void> {
    if (this.#child !== undefined) await kill(this.#child);
  }

  /** It accepts connections, and does not respond. */
  hang(): void {
    this.#child?.kill('SIGSTOP');
  }

  proceed(): void {
    this.#child?.kill('SIGCONT');
  }

  async command(...command: string[]): Promise<unknown> {
    const client = await createClient({ url: this.url }).connect();
    try {
      return await client.sendCommand(command);
    } finally {
      client.destroy();
    }
  }

  /** All that it has written. */
  written(): string {
    return readFileSync(join(this.#folder.path, 'appendonlydir', 'appendonly.aof.1.incr.aof'), 'latin1');
  }

  async close(): Promise<void> {
    await this.kill();
    this.#folder.remove();
  }
}
