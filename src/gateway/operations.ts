import type { Config, OperationConfig } from '../config/schema.ts';

/**
 * The five operations of the interface (sections 4.1 to 4.3). The signature of the last two is not shown
 * there: HMAC-SHA1 for v2 and RSA-SHA256 for v4 is an assumption, and configuration can override it.
 */
export const builtInOperations: Readonly<Record<string, OperationConfig>> = {
  'manager-balance': {
    path: '/api/v2/get-balance/manager/{login}',
    signature: 'HMAC-SHA1',
    loginFrom: 'path',
    readOnly: true,
    retryOn403: true,
    parameters: { 'balance-name': { required: false, maxLength: 128 } },
  },
  'order-status': {
    path: '/api/v4/status/{endpoint}',
    signature: 'RSA-SHA256',
    loginFrom: 'body',
    readOnly: true,
    retryOn403: true,
    parameters: { login: { required: true }, client_orderid: { required: true } },
  },
  'order-status-group': {
    path: '/api/v4/status/group/{endpointGroup}',
    signature: 'RSA-SHA256',
    loginFrom: 'body',
    readOnly: true,
    retryOn403: true,
    parameters: { login: { required: true }, client_orderid: { required: true } },
  },
  'pan-eligibility-send': {
    path: '/api/v2/pan-eligibility/send/{endpoint}',
    signature: 'HMAC-SHA1',
    loginFrom: 'header',
    readOnly: false,
    retryOn403: false,
    parameters: {},
  },
  transfer: {
    path: '/api/v4/transfer/{endpoint}',
    signature: 'RSA-SHA256',
    loginFrom: 'header',
    readOnly: false,
    retryOn403: false,
    parameters: {},
  },
};

/** An operation of one environment, with the segments of its path ready to be matched. */
export interface Operation extends OperationConfig {
  readonly name: string;
  readonly segments: readonly string[];
}

/** Built-in, then the configuration's `operations`, then the environment's own, field by field. */
export function resolveOperations(config: Config, environmentName: string): readonly Operation[] {
  const layers = [
    builtInOperations,
    config.operations,
    config.environments[environmentName]?.operations ?? {},
  ];
  const names = new Set(layers.flatMap((layer) => Object.keys(layer)));
  return [...names].map((name) => {
    const merged = layers.reduce<OperationConfig>(
      (below, layer) => ({ ...below, ...(Object.hasOwn(layer, name) ? layer[name] : {}) }),
      operationDefaults,
    );
    return { ...merged, name, segments: merged.path.split('/').slice(1) };
  });
}

/** What an operation has unless it says otherwise; configuration has to give path, signature and login. */
const operationDefaults: OperationConfig = {
  path: '',
  signature: 'RSA-SHA256',
  loginFrom: 'header',
  readOnly: false,
  retryOn403: false,
  parameters: {},
};
