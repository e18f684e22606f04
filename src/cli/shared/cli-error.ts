import { ProxyError } from '../../errors.ts';
import { safeStackFrames } from '../../util/stack-frames.ts';

/** A failed system call, as Node reports it. */
interface SystemError {
  readonly code: string;
  readonly syscall: string;
  readonly path?: string;
  readonly address?: string;
  readonly port?: number;
}

const fileSentences: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist. Check the path.',
  EACCES: 'is not accessible. Check its permissions.',
  EPERM: 'is not accessible. Check its permissions.',
  EISDIR: 'is a directory. Name a file.',
  ENOTDIR: 'is not a directory. Check the path.',
  EROFS: 'is on a read-only file system. Choose another path.',
  ENOSPC: 'cannot be written, since the disk is full.',
};

/** After the address that cannot be listened on. */
const listenSentences: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use. Stop the other process, or choose another port.',
  EACCES: 'may not be used by this user. Choose a port above 1023.',
  EADDRNOTAVAIL: 'is not an address of this machine. Choose another host.',
  ENOTFOUND: 'is unknown. Choose an address of this machine.',
};

/** Exit codes of every command. */
export const exitCode = { done: 0, failed: 1, usage: 2 } as const;

/** Ends a command with a message for the operator and an exit code. Holds no secret. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly exit: number;
  /** Printed without the name of the command. */
  readonly isPlain: boolean;

  constructor(message: string, exit: number = exitCode.failed, isPlain = false) {
    super(message);
    this.exit = exit;
    this.isPlain = isPlain;
  }
}

/** The message of an error for an operator, who sees the cause, unlike a caller. */
export function operatorMessage(error: unknown): string {
  if (!(error instanceof ProxyError)) return messageOf(error);
  return error.cause instanceof Error ? error.cause.message : error.detail;
}

/**
 * The message of an error of `listen`; of a port in use, with the option that chooses another one.
 *
 * @param options such as `--port`, by port
 * @param isDemo whether `--port 0` means all ports
 */
export function describeListenError(
  error: unknown,
  options: ReadonlyMap<number, string>,
  isDemo = false,
): string {
  const message = messageOf(error);
  const port = isSystemError(error) && error.code === 'EADDRINUSE' ? error.port : undefined;
  const option = port === undefined ? undefined : options.get(port);
  if (option === undefined) return message;
  const [by, free] = isDemo
    ? [', perhaps by another demo', ', or free ones for all with --port 0']
    : ['', ''];
  return message.replace(/(?<= in use)\..*/, `${by}. Choose another port with ${option}${free}.`);
}

/** What Node reports as `ENOENT: no such file or directory, open 'x'`, as a sentence. `undefined` for other errors. */
export function systemErrorMessage(error: unknown): string | undefined {
  if (!isSystemError(error)) return undefined;
  const { code, syscall, path, address, port } = error;
  if (syscall === 'listen' || (syscall === 'getaddrinfo' && port !== undefined)) {
    const sentence = listenSentences[code];
    const place = `${address ?? 'this host'}${port === undefined ? '' : `:${port}`}`;
    return sentence && `${place} ${sentence}`;
  }
  if (path === undefined && !(code in fileSentences)) return undefined;
  return `${path ?? 'A file'} ${fileSentences[code] ?? `cannot be read or written (${code}).`}`;
}

/** The message of an error; a failed system call, such as one on a missing file, as a sentence. */
export function messageOf(error: unknown): string {
  return systemErrorMessage(error) ?? (error instanceof Error ? error.message : String(error));
}

/** For a command whose data may be in the message of an error: only messages that are meant to be printed. */
export function withheldMessage(error: unknown): string {
  if (error instanceof CliError) return error.message;
  return systemErrorMessage(error) ?? unexpectedErrorMessage(error);
}

/** For what should not have been thrown. The message may hold data, so it is not printed. */
export function unexpectedErrorMessage(error: unknown): string {
  const name = error instanceof Error && /^[A-Za-z]{1,64}$/.test(error.name) ? error.name : 'error';
  const [frame] = error instanceof Error ? safeStackFrames(error) : [];
  return `Internal error (${name}${frame === undefined ? '' : ` ${frame}`}). This is a bug in Countersign: report it with the command that you ran.`;
}

function isSystemError(error: unknown): error is SystemError {
  if (typeof error !== 'object' || error === null) return false;
  return 'syscall' in error && 'code' in error && typeof error.code === 'string';
}
