import './preflight.cjs';
import { exitCode } from './cli/shared/io.ts';
import { catchSignals, ignoreDebuggerSignal } from './server/signals.ts';

// Before the rest is loaded, which takes most of the start: by default each of these signals would end the process,
// or open a debugger.
ignoreDebuggerSignal();
const [command, ...argv] = process.argv.slice(2);
const signals = catchSignals(command === 'serve');

// Without a listener, output that cannot be written ends the process by an exception.
let lost = false;
process.stderr.on('error', () => {});
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A reader that closes the pipe, such as head, has what it wants.
  if (error.code === 'EPIPE') return;
  lost = true;
  process.exitCode = exitCode.failed;
  process.stderr.write(
    `Cannot write to standard output: ${error.code}. Check the disk and the redirection.\n`,
  );
});

const { run } = await import('./cli/run.ts');
const io = {
  out: (line: string) => process.stdout.write(`${line}\n`),
  err: (line: string) => process.stderr.write(`${line}\n`),
};
const code = await run(command, argv, io, signals);
process.exitCode = lost ? exitCode.failed : code;
