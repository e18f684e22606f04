import { serve } from './serve.ts';
import type { Run } from './shared/command.ts';
import { isConfigVariableSet } from './shared/config-file.ts';

/** `serve` without a file runs the demo: then all options are those of the demo. */
export const serveOrDemo: Run = async (argv, io, signals) => {
  const isFileGiven = argv.some((argument) => /^--config(=|$)/.test(argument)) || isConfigVariableSet();
  if (isFileGiven || argv.includes('--help')) return serve(argv, io, signals);
  const { demoAs } = await import('./demo/demo.ts');
  return demoAs('serve')(argv, io, signals);
};
