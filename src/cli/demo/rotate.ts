import { setTimeout as wait } from 'node:timers/promises';
import type { KeyKind } from '../../oauth1/methods.ts';
import type { Signals } from '../../server/signals.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { type OptionValues, optionsHelp, parseOptions } from '../shared/parse-options.ts';
import { messageOf } from '../shared/system-error.ts';
import { prepareRotation, type Rotation } from './rotation.ts';
import { findRunningDemo, type RunningDemo, readReadyFile } from './running.ts';

const options = {
  login: { type: 'string', value: 'LOGIN', description: 'Login of the scenario (default: its first one)' },
  kind: {
    type: 'string',
    value: 'KIND',
    default: 'private_key',
    description: 'Which key of the login: private_key or control_key',
  },
  after: {
    type: 'string',
    value: 'SECONDS',
    default: '20',
    description: 'How long the new key waits until the gateway accepts it, 0 to 3600',
  },
  'ready-file': {
    type: 'string',
    value: 'FILE',
    description: 'Ready file of the demo (default: the demo that was started last)',
  },
} as const;

const usage = `Usage: countersign demo rotate [--login LOGIN] [--kind KIND] [--after SECONDS] [--ready-file FILE]

Rotates a key of a running demo, to watch on its status page. The key directory gets a new key, which waits until
the gateway simulator accepts it in place of the old one. Meanwhile one query per second goes through the proxy;
none of them fails. A payment at the moment of the switch may get a 403, and is then not processed
(docs/key-rotation.md). After Ctrl-C the simulator accepts the new key at once.

${optionsHelp(options)}

Exit codes: 0 the new key is in use and every query succeeded, 1 failure, 2 invalid usage.`;

/** Milliseconds between two queries. */
const pause = 1000;

interface Settings {
  readonly demo: RunningDemo;
  readonly kind: KeyKind;
  readonly login: string | undefined;
  /** Milliseconds. */
  readonly after: number;
}

/** @returns the exit code */
export async function rotateDemoKey(argv: readonly string[], io: Io, signals: Signals): Promise<number> {
  const parsed = parseOptions('demo rotate', argv, options, usage, io);
  if ('exit' in parsed) return parsed.exit;
  try {
    const settings = settingsFrom(parsed.values);
    const stop = new AbortController();
    void signals.stop.then(() => stop.abort());
    return await rotate(await prepareRotation(settings), settings, io, stop.signal);
  } catch (error) {
    const exit = error instanceof CliError ? error.exit : exitCode.failed;
    const hint = exit === exitCode.usage ? '\nSee: countersign demo rotate --help' : '';
    io.err(`countersign demo rotate: ${messageOf(error)}${hint}`);
    return exit;
  }
}

async function rotate(
  rotation: Rotation,
  { demo, kind, after }: Settings,
  io: Io,
  stop: AbortSignal,
): Promise<number> {
  const first = await rotation.query();
  if (first !== 200) {
    throw new CliError(
      `a query of ${rotation.login} gets status ${first} before the rotation: choose another --login, or restart the demo`,
    );
  }
  const before = await rotation.versions();
  const watch = before === undefined ? '' : ` Watch it on ${demo.adminUrl}/.`;
  io.out(
    `Rotating the ${kind} of ${rotation.login}, with one ${rotation.operation} query per second.${watch}`,
  );
  const timeline = new Timeline(rotation, io);
  await rotation.writeNewKey();
  timeline.print('The key directory has a new key', before);
  await timeline.queryFor(after, stop);
  await rotation.registerNewKey();
  await timeline.query();
  timeline.print('The gateway accepts it and no other', await rotation.versions());
  io.out(`Queries: ${timeline.queries}, failed: ${timeline.failed}.`);
  return timeline.failed === 0 ? exitCode.done : exitCode.failed;
}

/** Prints what happens with the seconds since the start. */
class Timeline {
  queries = 0;
  failed = 0;
  readonly #rotation: Rotation;
  readonly #io: Io;
  readonly #start = performance.now();
  #versions: string | undefined;

  constructor(rotation: Rotation, io: Io) {
    this.#rotation = rotation;
    this.#io = io;
  }

  /** @param versions `undefined` without a status page */
  print(event: string, versions: string | undefined): void {
    const seconds = String(Math.floor((performance.now() - this.#start) / 1000));
    this.#io.out(`${seconds.padStart(4)} s  ${event}${versions === undefined ? '' : `: ${versions}`}`);
    this.#versions = versions;
  }

  /** Queries once per second for the given number of milliseconds, or until it is stopped. */
  async queryFor(milliseconds: number, stop: AbortSignal): Promise<void> {
    const end = performance.now() + milliseconds;
    for (let left = milliseconds; left > 0 && !stop.aborted; left = end - performance.now()) {
      await this.query();
      const versions = await this.#rotation.versions();
      if (versions !== this.#versions) this.print('Countersign has read it', versions);
      // Rejects only when it is stopped.
      await wait(Math.min(pause, left), undefined, { signal: stop }).catch(() => {});
    }
  }

  async query(): Promise<void> {
    const status = await this.#rotation.query();
    this.queries += 1;
    if (status === 200) return;
    this.failed += 1;
    this.#io.err(`A query got status ${status}.`);
  }
}

/** @throws CliError for invalid options, or without a running demo */
function settingsFrom(values: OptionValues<typeof options>): Settings {
  const { kind, after, login, 'ready-file': readyFile } = values;
  if (kind !== 'private_key' && kind !== 'control_key') {
    throw new CliError('--kind must be private_key or control_key', exitCode.usage);
  }
  if (!/^\d{1,4}$/.test(after) || Number(after) > 3600) {
    throw new CliError('--after must be a whole number of seconds from 0 to 3600', exitCode.usage);
  }
  const demo = readyFile === undefined ? findRunningDemo() : readReadyFile(readyFile);
  if (demo === undefined) throw new CliError('no demo is running: start one with countersign demo');
  return { demo, kind, login, after: Number(after) * 1000 };
}
