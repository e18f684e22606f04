import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { findProgram } from './find-program.ts';
import { post as postForm } from './forwarding.ts';
import { root } from './sources.ts';
import { until } from './until.ts';

interface Language {
  readonly build?: readonly string[];
  readonly run: readonly string[];
}

/** Folders of docs/examples/client. */
export const languages: Readonly<Record<string, Language>> = {
  node: { run: ['node', 'main.mjs'] },
  python: { run: ['python3', '-B', 'main.py'] },
  go: { build: ['go', 'build', '-o', 'shop', '.'], run: ['./shop'] },
  java: { build: ['javac', '-d', 'classes', 'Main.java'], run: ['java', '-cp', 'classes', 'Main'] },
};

export function isInstalled({ build, run }: Language): boolean {
  return findProgram((build ?? run)[0] ?? '') !== undefined;
}

/** The example program of a language: a shop that uses the sample client. */
export interface Shop {
  readonly url: string;
  /** What it printed about callbacks. */
  readonly printed: readonly string[];
  /** Posts a form to it. @returns what it says, in a line */
  readonly post: (path: string, form: Readonly<Record<string, string>>) => Promise<string>;
}

/** Shops of one language: its folder of docs/examples/client is copied and built. */
export class Shops {
  readonly #folder = mkdtempSync(join(tmpdir(), 'countersign-shops-'));
  readonly #children: ChildProcess[] = [];
  readonly #run: readonly string[];
  readonly #env = { ...process.env, PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}` };

  constructor(name: string, { build: [program, ...argv] = [], run }: Language) {
    this.#run = run;
    cpSync(join(root, 'docs/examples/client', name), this.#folder, { recursive: true });
    if (program !== undefined) execFileSync(program, argv, { cwd: this.#folder, stdio: 'inherit' });
  }

  /** @param seconds until a person decides about a payment, in place of 15 minutes */
  async start(api: string, seconds: number): Promise<Shop> {
    const [program = '', ...argv] = this.#run;
    const child = spawn(program, [...argv, api, '0', String(seconds)], {
      cwd: this.#folder,
      env: { ...this.#env, NODE_OPTIONS: '' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#children.push(child);
    const printed: string[] = [];
    createInterface(child.stdout).on('line', (line) => printed.push(line));
    await until(() => printed.length > 0 || child.exitCode !== null, 'the shop starts', 60);
    const [url = ''] = printed.splice(0, 1);
    const post = async (path: string, form: Readonly<Record<string, string>>): Promise<string> => {
      const { body } = await postForm(url + path, new URLSearchParams(form).toString());
      return body.trim();
    };
    return { url, printed, post };
  }

  clear(): void {
    for (const child of this.#children.splice(0)) child.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
