import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

export const chart = 'helm/countersign';

export interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  /** Without messages about symbolic links in the chart. */
  readonly stderr: string;
}

export function helm(args: readonly string[]): Ran {
  const { status, stdout, stderr } = spawnSync('helm', args, { encoding: 'utf8' });
  return { status, stdout, stderr: stderr.replaceAll(/^.*found symbolic link in path.*\n/gm, '') };
}

/** What `helm template` printed, by its arguments: many tests of a file look at the same objects. */
const rendered = new Map<string, Ran>();

/** The objects that it printed, by their text: most of them are the same for all values. */
const parsed = new Map<string, unknown>();

/** The example values files by name: default, minimal, ... */
export const ciValues: readonly string[] = readdirSync(join(chart, 'ci'))
  .map((file) => file.replace(/-values\.yaml$/, ''))
  .sort();

/** Arguments for a values file. @param name one of {@link ciValues} @param settings each as KEY=JSON */
export const values = (name: string, ...settings: readonly string[]): string[] => [
  '--values',
  join(chart, 'ci', `${name}-values.yaml`),
  ...settings.flatMap((setting) => ['--set-json', setting]),
];

/** `helm template`, for a Kubernetes version that the chart supports. */
export function template(args: readonly string[], from: string = chart): Ran {
  const line = ['template', 'pay', from, '--namespace', 'payments', '--kube-version', '1.34.0', ...args];
  const key = JSON.stringify(line);
  const ran = rendered.get(key) ?? helm(line);
  rendered.set(key, ran);
  return ran;
}

/** The rendered objects, of one kind or all. @throws Error with the message of helm */
export function render(args: readonly string[], kind?: string, from?: string): unknown[] {
  const { status, stdout, stderr } = template(args, from);
  if (status !== 0) throw new Error(stderr);
  const objects = stdout.split(/^---\n/m).map(objectIn);
  return objects.filter((object) => object !== null && (kind === undefined || at(object, 'kind') === kind));
}

/** Kubernetes reads YAML 1.1, where 0440 is octal. */
function objectIn(text: string): unknown {
  if (!parsed.has(text)) parsed.set(text, parse(text, { version: '1.1' }));
  return parsed.get(text);
}

/** The only object of a kind (and a name). */
export function renderOne(args: readonly string[], kind: string, name?: string): unknown {
  const found = render(args, kind).filter(
    (one) => name === undefined || at(one, 'metadata', 'name') === name,
  );
  if (found.length !== 1) throw new Error(`${found.length} objects of kind ${kind}`);
  return found[0];
}

/** The value at a path, or undefined. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (isRecord(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined),
    value,
  );
}

const isRecord = (value: unknown): value is Record<string | number, unknown> =>
  typeof value === 'object' && value !== null;

/** The object at a path, or an empty one. */
export function record(value: unknown, ...path: readonly (string | number)[]): Record<string, unknown> {
  const found = at(value, ...path);
  return isRecord(found) ? found : {};
}

/** The list at a path, or an empty one. */
export function list(value: unknown, ...path: readonly (string | number)[]): unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

/** The pod of the Deployment. */
export const podSpec = (args: readonly string[]): unknown =>
  at(renderOne(args, 'Deployment'), 'spec', 'template', 'spec');

/** Its countersign container. */
export const container = (args: readonly string[]): unknown => at(podSpec(args), 'containers', 0);

/** The configuration file inside the ConfigMap. */
export function configText(args: readonly string[]): string {
  const texts = render(args, 'ConfigMap').map((one) => at(one, 'data', 'config.yaml'));
  return texts.filter((text) => typeof text === 'string').join();
}

/** The same, parsed. */
export const configIn = (args: readonly string[]): unknown => parse(configText(args));
