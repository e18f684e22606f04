import { counted, percent, span } from '../format.ts';
import { clockDifference, isBlocked, rejections, silent } from '../thresholds.ts';
import { began, type Conditions, type Environment, failures } from './condition.ts';

/** What the gateway does, whatever the login. */
export const ofGateway = {
  'gateway-unreachable': {
    when: 'Requests failed without a connection to the gateway. Nothing was sent.',
    ...failures({ 'gateway-unreachable': unreachable }),
    todo: 'The log has the code.',
    section: 'Gateway unreachable',
  },
  'gateway-silent': {
    when: 'Requests are in flight, and for 4 s none has ended; warn: a single one.',
    // Said before the requests fail, which takes as long as `timeouts.request`.
    find: ({ environments }) =>
      environments.map((one) => {
        const { name: environment, inFlight, waiting: seconds } = one;
        const severity = silent(one);
        if (severity === 'ok') return undefined;
        const wait = `${counted(inFlight, 'request')} ${inFlight === 1 ? 'waits' : 'wait'}`;
        const summary = `${environment}: no request has ended for ${span(seconds ?? 0)}, and ${wait}`;
        return { severity, summary, environment };
      }),
    todo: 'Either the gateway does not respond, or keys cannot be read; they fail when `timeouts.request` has passed. If `countersign check --online --config FILE` reads the keys, it is the gateway, though that accepts connections.',
    section: 'No complete gateway response',
  },
  'gateway-timeout': {
    when: 'The gateway did not respond in time.',
    ...failures({ 'gateway-timeout': 'the gateway does not respond in time' }),
    todo: 'The limit is `timeouts.request`. Ask the support of the gateway: nothing in Countersign makes it faster.',
    section: 'No complete gateway response',
  },
  'gateway-response-incomplete': {
    when: 'A response of the gateway was not complete, or not valid HTTP.',
    ...failures({
      'gateway-reset': reset,
      'gateway-reply-invalid':
        'the gateway sends responses that are not valid HTTP, or of payments without a length',
    }),
    todo: 'Look for a proxy or load balancer on the way, and ask the support of the gateway.',
    section: 'No complete gateway response',
  },
  'gateway-server-error': {
    when: 'The gateway responded with a 5xx.',
    ...failures({ 'gateway-status': 'the gateway responds with server errors' }),
    todo: 'Ask the support of the gateway, with the times of the log and its serial numbers, where it sent some.',
    section: 'Gateway server error',
  },
  'clock-skew': {
    when: 'The clocks of gateway and instance differ by more than 30 s.',
    find: ({ environments }) =>
      environments.map((one) => {
        if (clockDifference(one) === 'ok') return undefined;
        const { name: environment, clockSkew, rejectedShare } = one;
        const rejected = rejections(one);
        const effect =
          rejected === 'ok'
            ? 'The gateway may reject timestamps.'
            : `${percent(rejectedShare ?? 0)} of responses are 401 or 403, probably for that reason and not because of a key.`;
        const skew = clockSkew ?? 0;
        const summary = `The clock of the gateway of ${environment} is ${span(Math.abs(skew))} ${skew > 0 ? 'ahead of' : 'behind'} that of this machine`;
        const severity = rejected === 'bad' ? 'bad' : 'warn';
        return { severity, summary, state: [effect], todo: likelierClock(one, environments), environment };
      }),
    todo: 'Either one may be off. If the time synchronization of this machine is right, or other instances show the same, ask the support of the gateway.',
    alert: 'CountersignClockSkew',
    title: 'The clocks of <instance> and of the gateway of <environment> differ by <value|humanizeDuration>',
    page: `
        max by (namespace, release, environment, instance) (
          abs(quantile_over_time(0.5, countersign_gateway_clock_skew_seconds[10m]))
        ) > $clockSkewSeconds`,
    for: '5m',
    causes: ['clock-skew'],
  },
  'gateway-blocks': {
    severity: 'bad',
    when: 'For a minute, the gateway rejects every login of an environment, at least two.',
    find: (facts) =>
      facts.environments.map((one) => {
        if (clockDifference(one) !== 'ok' || !isBlocked(one)) return undefined;
        const { name: environment, logins } = one;
        const summary = `The gateway of ${environment} responds with 401 or 403 to every login (${logins.rejected} in the last minute)`;
        const { since } = one.failures.find(({ cause }) => cause === 'rejected') ?? {};
        return { summary, state: [began(facts, since)], environment };
      }),
    todo: 'Unless they all have one key, it is not a key (`current-key` says only which one signed): the gateway blocks this instance, or `baseUrl` is another environment, or something on the way changes requests. Do not store new keys. Ask the support of the gateway.',
    section: 'Gateway rejects every login',
  },
} satisfies Conditions;

/** Seconds by which two clocks that are right may differ. */
const alikeSeconds = 5;

/** What to do about a clock that is off, if other gateways show whose it is; `undefined`: they do not. */
function likelierClock(
  { gatewayHost, clockSkew }: Environment,
  environments: readonly Environment[],
): string | undefined {
  const others = environments.filter((one) => one.gatewayHost !== gatewayHost && one.clockSkew !== null);
  const is = (skew: number | null) => (one: Environment) =>
    Math.abs((one.clockSkew ?? 0) - (skew ?? 0)) <= alikeSeconds;
  const right = others.find(is(0));
  if (right !== undefined)
    return `There is no difference to the clock of the gateway of ${right.name}, so this one is likelier off: ask its support.`;
  return others.length > 0 && others.every(is(clockSkew))
    ? 'The gateways of other environments show the same, so the clock of this machine is likelier off: check its time synchronization.'
    : undefined;
}

/** Why there was no connection, in words that follow "gateway unreachable"; what to do. */
const networkTexts: Readonly<Record<string, readonly [string, string]>> = {
  refused: ['connection refused', 'Is it running, and is `baseUrl` its address?'],
  dns: ['its host name cannot be resolved (DNS)', 'Check `baseUrl`, and DNS on this host.'],
  tls: [
    'the TLS handshake fails',
    'Check `caFile` of the environment (without it, the CAs of Node count), and the certificate of the gateway; the log has the code.',
  ],
  timeout: ['no connection in time', 'Check firewalls and network policies on the way.'],
  'proxy-unreachable': ['the egress proxy cannot be reached', 'Does it run at `egressProxy.url`?'],
  'proxy-timeout': ['the egress proxy makes no tunnel in time', 'Check the egress proxy and its load.'],
  'proxy-tls': ['TLS with the egress proxy fails', 'Check its certificate, and `egressProxy.caFile`.'],
  'proxy-credentials': [
    'the egress proxy does not accept the credentials',
    'Check `egressProxy.username` and its password, which is read again when its file is replaced.',
  ],
  'proxy-denied': [
    'the egress proxy denies the tunnel',
    'Allow CONNECT to host and port of `baseUrl` there.',
  ],
  'proxy-failed': [
    'the egress proxy cannot reach it',
    'The log of the egress proxy has the reason: DNS, a firewall behind it, or the gateway.',
  ],
  'proxy-invalid': ['the egress proxy sends an invalid response', 'Is `egressProxy.url` an HTTP proxy?'],
};

function unreachable(detail: string): readonly [string, string] {
  const [why, todo] = networkTexts[detail] ?? ['the connection fails', 'The log has the code.'];
  return [`gateway unreachable, ${why}`, `Nothing was sent. ${todo}`];
}

/** @param alert TLS alert of the gateway; empty: none */
function reset(alert: string): readonly [string, string?] {
  if (alert === '') return ['the gateway ends connections before its response is complete'];
  return [
    `the gateway ends connections with a TLS alert: ${alert}`,
    'Check `certFile` and `keyFile` of the environment: the gateway may require another client certificate.',
  ];
}
