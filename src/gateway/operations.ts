import type { Config, OperationConfig, OperationOverride } from '../config/schema.ts';

/** Defaults of an operation. Validation of a configured one requires path, signature and login. */
const operationDefaults: OperationConfig = {
  path: '',
  signature: 'RSA-SHA256',
  loginFrom: 'header',
  readOnly: false,
  retryOn403: false,
  once: false,
  parameters: {},
  allowRepeatedParameters: true,
};

const statusQuery: OperationConfig = {
  ...operationDefaults,
  signature: 'RSA-SHA256',
  loginFrom: 'body',
  readOnly: true,
  retryOn403: true,
  parameters: { login: { required: true }, client_orderid: { required: true } },
};

/** The operation that is Countersign's own: it verifies a callback, and sends nothing. */
export const verifyCallback = 'verify-callback';

/**
 * The five operations of docs/gateway-interface.md sections 4.1 to 4.3, and {@link verifyCallback}. The signature method of
 * the last two of the five is not specified: HMAC-SHA1 for v2 and RSA-SHA256 for v4 are assumptions, which the configuration
 * can override. So is what the control of a callback covers (section 6).
 */
export const builtInOperations: Readonly<Record<string, OperationConfig>> = {
  'manager-balance': {
    ...operationDefaults,
    path: '/api/v2/get-balance/manager/{login}',
    signature: 'HMAC-SHA1',
    loginFrom: 'path',
    readOnly: true,
    retryOn403: true,
    parameters: { 'balance-name': { maxLength: 128 } },
  },
  'order-status': { ...statusQuery, path: '/api/v4/status/{endpoint}' },
  'order-status-group': { ...statusQuery, path: '/api/v4/status/group/{endpointGroup}' },
  'pan-eligibility-send': {
    ...operationDefaults,
    path: '/api/v2/pan-eligibility/send/{endpoint}',
    signature: 'HMAC-SHA1',
    once: true,
  },
  // Without an order ID its outcome could not be queried, and a gateway may take either one of two amounts. The interface
  // says neither (docs/gateway-interface.md section 11), so both are our choice.
  transfer: {
    ...operationDefaults,
    path: '/api/v4/transfer/{endpoint}',
    signature: 'RSA-SHA256',
    once: true,
    parameters: { client_orderid: { required: true } },
    allowRepeatedParameters: false,
  },
  [verifyCallback]: {
    ...operationDefaults,
    path: '/verify-callback',
    signature: 'SHA1-control',
    control: ['status', 'orderid', 'client_orderid'],
    readOnly: true,
    parameters: { control: { required: true } },
    allowRepeatedParameters: false,
  },
};

/** An operation of one environment. */
export interface Operation extends OperationConfig {
  readonly name: string;
  /** Its paths, each split into segments. */
  readonly routes: readonly (readonly string[])[];
}

/** What may follow the path of {@link verifyCallback}, to say whose callback it is. */
const callbackOwners = ['', '/{endpoint}', '/login/{login}'];

/** Merges the layers over the built-in operations, field by field and parameter by parameter. A later one has precedence. */
export function mergeOperations(
  overrides: readonly Readonly<Record<string, OperationOverride>>[],
): readonly Operation[] {
  const layers = [builtInOperations, ...overrides];
  const names = new Set(layers.flatMap((layer) => Object.keys(layer)));
  return [...names].map((name) => {
    const merged = layers.reduce<OperationConfig>(
      (operation, layer) => mergeOperation(operation, Object.hasOwn(layer, name) ? layer[name] : undefined),
      operationDefaults,
    );
    const parameters = withCovered(merged);
    const paths =
      name === verifyCallback ? callbackOwners.map((owner) => merged.path + owner) : [merged.path];
    return { ...merged, parameters, name, routes: paths.map((path) => path.split('/').slice(1)) };
  });
}

/** The parameters of a form that a control covers: the others are values of the path, such as `{endpoint}`. */
export function coveredBy(control: readonly string[]): string[] {
  return control.filter((name) => !name.startsWith('{'));
}

/** What a control covers is required unless a rule says otherwise, but for the login, which is added. */
function withCovered({ control = [], parameters }: OperationConfig): OperationConfig['parameters'] {
  const covered = coveredBy(control).map((name) => {
    const required = name === 'login' ? {} : { required: true };
    return [name, { ...required, ...parameters[name] }] as const;
  });
  return { ...parameters, ...Object.fromEntries(covered) };
}

function mergeOperation(below: OperationConfig, above: OperationOverride = {}): OperationConfig {
  const parameters = new Map(Object.entries(below.parameters));
  for (const [name, rule] of Object.entries(above.parameters ?? {})) {
    parameters.set(name, { ...parameters.get(name), ...rule });
  }
  return { ...below, ...above, parameters: Object.fromEntries(parameters) };
}

/** The operations of each environment. */
export type OperationTable = ReadonlyMap<string, readonly Operation[]>;

/** Over the built-in operations those of `operations`, and over these the environment's own. */
export function createOperationTable({ operations, environments }: Config): OperationTable {
  const own = Object.entries(environments);
  return new Map(own.map(([name, settings]) => [name, mergeOperations([operations, settings.operations])]));
}
