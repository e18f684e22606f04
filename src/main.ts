import './preflight.cjs';
import { catchSignals, ignoreDebuggerSignal } from './service/signals.ts';
import { sizeThreadPool } from './service/thread-pool.ts';

// Before loading the rest, which takes most of the start: by default, these signals end the process or open a
// debugger.
ignoreDebuggerSignal();
sizeThreadPool();
const [, , command] = process.argv;
const isService = command === 'serve' || command === 'demo';
const signals = catchSignals(isService);

// Without a listener, a failed write to an output ends the process with an exception.
let lost = false;
/** `exitCode.failed`, which is not loaded yet. */
const failed = 1;
process.stderr.on('error', () => {});
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // The reader closed the pipe on purpose, such as head.
  if (error.code === 'EPIPE') return;
  lost = true;
  process.exitCode = failed;
  process.stderr.write(
    `Cannot write to standard output: ${error.code}. Check the disk and the redirection.\n`,
  );
});

const { run } = await import('./cli/run.ts');
const io = {
  out: (line: string) => process.stdout.write(`${line}\n`),
  err: (line: string) => process.stderr.write(`${line}\n`),
};
const code = await run(process.argv.slice(2), io, signals);
process.exitCode = lost ? failed : code;
// A service that has stopped waits for nothing, such as a receiver of traces that does not respond.
if (isService) process.exit();
