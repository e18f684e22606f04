import type { BuiltIn } from './operation-rules.ts';
import { type Path, type Report } from './problem.ts';
import type { CallerConfig, Config } from './schema.ts';
import { isPlaintextRemote } from './url.ts';

/** Reports what is valid, and may yet surprise: `check` prints it, and does not fail. */
export function reportNotices(config: Config, builtIn: BuiltIn, report: Report): void {
  for (const [index, { mode }] of config.callers.entries())
    if (mode === 'dry-run')
      report(
        ['callers', index, 'mode'],
        'lets through every request, also what the grants do not allow: set enforce when the log has no more requests with the decision would-deny',
      );
  noticeTransferRules(config, report);
  noticeKeptRules(config, builtIn, report);
  noticePlainPasswords(config, report);
}

/** Version 0.1.0 forwarded such transfers. Silent once the configuration says what it wants. */
function noticeTransferRules({ operations, environments, callers }: Config, report: Report): void {
  for (const [environment, own] of Object.entries(environments)) {
    const layers = [operations['transfer'], own.operations['transfer']];
    const undecided = [
      layers.every((layer) => layer?.parameters?.['client_orderid']?.required === undefined) &&
        'without client_orderid (to allow it: parameters: { client_orderid: { required: false } })',
      layers.every((layer) => layer?.allowRepeatedParameters === undefined) &&
        'that repeats a parameter name (to allow it: allowRepeatedParameters: true)',
    ].filter((request) => request !== false);
    const path = grantOf(callers, environment);
    if (undecided.length === 0 || path === undefined) continue;
    return report(
      path,
      `allows transfers: one ${undecided.join(', or one ')} is rejected with 400 before it is signed. To confirm that or to change it, set the fields under operations.transfer`,
    );
  }
}

/** The first grant of transfers in an environment. */
function grantOf(callers: readonly CallerConfig[], environment: string): Path | undefined {
  const covers = (names: readonly string[], name: string) => names.includes('*') || names.includes(name);
  const grants = callers.flatMap(({ allow }, caller) =>
    allow.map((grant, index) => ({ grant, path: ['callers', caller, 'allow', index, 'operations'] })),
  );
  return grants.find(
    ({ grant }) => covers(grant.environments, environment) && covers(grant.operations, 'transfer'),
  )?.path;
}

/** In version 0.1.0 the parameters of an override replaced those of the built-in operation. */
function noticeKeptRules({ operations, environments }: Config, builtIn: BuiltIn, report: Report): void {
  const layers: [at: Path, overrides: Config['operations']][] = [
    [['operations'], operations],
    ...Object.entries(environments).map(([name, own]): [Path, Config['operations']] => [
      ['environments', name, 'operations'],
      own.operations,
    ]),
  ];
  for (const [at, overrides] of layers) {
    for (const [name, { parameters }] of Object.entries(overrides)) {
      if (parameters === undefined || name === 'transfer' || !Object.hasOwn(builtIn, name)) continue;
      const kept = Object.keys(builtIn[name]?.parameters ?? {}).filter(
        (rule) => !Object.hasOwn(parameters, rule),
      );
      if (kept.length > 0)
        report(
          [...at, name, 'parameters'],
          `does not replace the built-in rules for ${kept.join(', ')}. To take one back, name it here, with required: false`,
        );
    }
  }
}

/** TLS with the server does not protect the password for the proxy. */
function noticePlainPasswords({ environments, keys, jwtIssuers }: Config, report: Report): void {
  const vault = keys.source === 'vault' ? { vault: keys.vault } : {};
  for (const [group, servers] of Object.entries({ environments, keys: vault, jwtIssuers }))
    for (const [name, { egressProxy }] of Object.entries(servers))
      if (egressProxy?.username !== undefined && isPlaintextRemote(egressProxy.url))
        report(
          [group, name, 'egressProxy', 'url'],
          'sends the password for the proxy unencrypted: everybody on the way can read it. Use an https: URL if the proxy has one',
        );
}
