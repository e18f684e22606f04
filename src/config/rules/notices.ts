import type { Finding } from '../problem.ts';
import type { CallerConfig, Config } from '../schema.ts';
import type { BuiltIn } from './operations.ts';

/** What is valid, and may yet surprise: `check` prints it, and does not fail. */
export function noticeFindings(config: Config, builtIn: BuiltIn): Finding[] {
  return [...dryRuns(config), ...transferRules(config), ...keptRules(config, builtIn)];
}

function dryRuns({ callers }: Config): Finding[] {
  return callers.flatMap(({ mode }, index) =>
    mode === 'dry-run'
      ? [
          {
            path: ['callers', index, 'mode'],
            message:
              'lets through every request, also what the grants do not allow: set enforce when the log has no more requests with the decision would-deny',
          },
        ]
      : [],
  );
}

/** Version 0.1.0 forwarded such transfers. Silent once the configuration says what it wants. */
function transferRules(config: Config): Finding[] {
  const open = Object.entries(config.environments).flatMap(([environment, { operations }]) => {
    const layers = [config.operations['transfer'], operations['transfer']];
    const undecided = [
      ...(layers.some((layer) => layer?.parameters?.['client_orderid']?.required !== undefined)
        ? []
        : ['without client_orderid (to allow it: parameters: { client_orderid: { required: false } })']),
      ...(layers.some((layer) => layer?.allowRepeatedParameters !== undefined)
        ? []
        : ['that repeats a parameter name (to allow it: allowRepeatedParameters: true)']),
    ];
    return undecided.length === 0 ? [] : [{ environment, undecided }];
  });
  return open
    .flatMap(({ environment, undecided }) => {
      const path = grantOf(config.callers, environment);
      const message = `allows transfers: one ${undecided.join(', or one ')} is rejected with 400 before it is signed. To confirm that or to change it, set the fields under operations.transfer`;
      return path === undefined ? [] : [{ path, message }];
    })
    .slice(0, 1);
}

/** The first grant of transfers in an environment. */
function grantOf(callers: readonly CallerConfig[], environment: string): Finding['path'] | undefined {
  const covers = (names: readonly string[], name: string) => names.includes('*') || names.includes(name);
  const grants = callers.flatMap(({ allow }, caller) =>
    allow.map((grant, index) => ({ grant, path: ['callers', caller, 'allow', index, 'operations'] })),
  );
  return grants.find(
    ({ grant }) => covers(grant.environments, environment) && covers(grant.operations, 'transfer'),
  )?.path;
}

/** In version 0.1.0 the parameters of an override replaced those of the built-in operation. */
function keptRules({ operations, environments }: Config, builtIn: BuiltIn): Finding[] {
  const layers = [
    { path: ['operations'], operations },
    ...Object.entries(environments).map(([name, environment]) => ({
      path: ['environments', name, 'operations'],
      operations: environment.operations,
    })),
  ];
  return layers.flatMap(({ path, operations: overrides }) =>
    Object.entries(overrides).flatMap(([name, { parameters }]) => {
      if (parameters === undefined || name === 'transfer') return [];
      const rules = Object.hasOwn(builtIn, name) ? (builtIn[name]?.parameters ?? {}) : {};
      const kept = Object.keys(rules).filter((rule) => !Object.hasOwn(parameters, rule));
      const message = `does not replace the built-in rules for ${kept.join(', ')}. To take one back, name it here, with required: false`;
      return kept.length === 0 ? [] : [{ path: [...path, name, 'parameters'], message }];
    }),
  );
}
