import { ProxyError } from '../errors.ts';
import { isIdentifier } from '../identifiers.ts';
import type { Destination } from './router.ts';

type Parameter = readonly [name: string, value: string];

/**
 * The login a request is for: from the path, the body's `login`, the header `Countersign-Login`, or the
 * environment's map of endpoints. All that are there must agree.
 *
 * @throws Refusal `login-conflict`, `login-missing`, `parameter-invalid`.
 */
export function resolveLogin(
  destination: Destination,
  form: readonly Parameter[],
  header: string | undefined,
): string {
  const { operation, values, settings } = destination;
  const stated = [
    values.login,
    ...form.filter(([name]) => name === 'login').map(([, value]) => value),
    header,
    loginForEndpoint(settings.endpoints, values),
  ].filter((login) => login !== undefined);
  const [login, ...others] = new Set(stated);
  if (login === undefined) throw missing(operation.loginFrom);
  if (others.length > 0) {
    throw new ProxyError(
      'login-conflict',
      'Path, body parameter "login", header Countersign-Login and the configured endpoint name different logins. Send one.',
    );
  }
  if (!isIdentifier(login)) {
    throw new ProxyError(
      'parameter-invalid',
      'The login must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ - and not "." or "..".',
    );
  }
  return login;
}

function loginForEndpoint(
  endpoints: Readonly<Record<string, string>>,
  values: Destination['values'],
): string | undefined {
  const id = values.endpoint ?? values.endpointGroup;
  return id === undefined ? undefined : endpoints[id];
}

function missing(from: Destination['operation']['loginFrom']): ProxyError {
  const remedy =
    from === 'body'
      ? 'Send the body parameter "login".'
      : 'Send the header Countersign-Login, or have the endpoint mapped to its login in the configuration.';
  return new ProxyError('login-missing', `The request names no login. ${remedy}`);
}
