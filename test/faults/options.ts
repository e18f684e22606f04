import { parseArgs } from 'node:util';
import { positiveInteger } from '../support/command.ts';
import { faultNames } from './fault-table.ts';
import { callerKinds } from './plan.ts';

export const usage = `Usage: npm run faults -- [options]

Sends requests through Countersign to a gateway that goes wrong in every way it can, from callers that disconnect,
pipeline and half-close, while the processes are restarted, reloaded and killed. Then compares what the callers
received, what the gateway saw and what the log says. Exit code 1 where a promise was broken.

  --requests N          how many requests (default 10000)
  --seed S              which faults, callers and moments (default 1); the same seed gives the same
  --concurrency N       callers at once (default 128)
  --only FAULT          only this fault, beside good responses
  --caller KIND         only this kind of caller
  --egress              gateways with TLS behind egress proxies that go wrong too
  --no-signals          no SIGHUP, SIGTERM or SIGKILL before the end
  --no-hostile          no callers that send no valid request
  --no-broken-logs      no instances whose log cannot be written or is not read
  --rolling N           instead of all that: N restarts of one of two instances, under kept-alive load
  --pre-stop T          milliseconds in which the balancer makes no new connections before each of these SIGTERMs
  --shutdown-delay T    proxy.timeouts.shutdownDelay in milliseconds, where this version has it (default 1000)
  --slack T             milliseconds by which a response may be late on a busy machine (default 6000)
  --surplus-window T    milliseconds after a surplus response in which a crossed one is only counted (default 100)
  --help                prints this

Faults: ${faultNames.join(', ')}
Callers: ${callerKinds.join(', ')}`;

export type Options = Exclude<ReturnType<typeof readOptions>, 'help'>;

/** @throws TypeError for an unknown option, fault or caller, and for an invalid number. */
export function readOptions(args: string[]) {
  const text = { type: 'string' } as const;
  const off = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({
    args,
    options: {
      requests: text,
      seed: text,
      concurrency: text,
      only: text,
      caller: text,
      rolling: text,
      egress: off,
      'no-signals': off,
      'no-hostile': off,
      'no-broken-logs': off,
      'shutdown-delay': text,
      'pre-stop': text,
      slack: text,
      'surplus-window': text,
      help: off,
    },
  });
  if (values.help) return 'help';
  const number = (name: string, value: string | undefined, fallback: number): number =>
    value === undefined ? fallback : positiveInteger(name, value);
  return {
    requests: number('requests', values.requests, 10_000),
    seed: number('seed', values.seed, 1),
    concurrency: number('concurrency', values.concurrency, 128),
    only: values.only === undefined ? undefined : oneOf('only', faultNames, values.only),
    caller: values.caller === undefined ? undefined : oneOf('caller', callerKinds, values.caller),
    egress: values.egress,
    signals: !values['no-signals'],
    hostile: !values['no-hostile'],
    brokenLogs: !values['no-broken-logs'],
    rolling: values.rolling === undefined ? undefined : positiveInteger('rolling', values.rolling),
    preStop: number('pre-stop', values['pre-stop'], 0),
    shutdownDelay: number('shutdown-delay', values['shutdown-delay'], 1_000),
    slack: number('slack', values.slack, 6_000),
    surplusWindow: number('surplus-window', values['surplus-window'], 100),
  };
}

function oneOf<T extends string>(name: string, known: readonly T[], text: string): T {
  const found = known.find((one) => one === text);
  if (found === undefined) throw new TypeError(`--${name} must be one of ${known.join(', ')}`);
  return found;
}
