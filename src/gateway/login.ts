import { ProxyError } from '../errors.ts';
import { identifierCharacters, identifierPattern } from '../identifiers.ts';
import { verifyCallback } from './operations.ts';
import type { Destination } from './router.ts';

/**
 * Finds the login of a request: in the path, the body parameter `login`, the header `Countersign-Login` or the
 * environment's map of endpoints. All that are present must be equal. In a callback the parameters do not count: a stranger
 * may have written them.
 *
 * @throws ProxyError `login-conflict`, `login-missing`, `parameter-invalid`
 */
export function resolveLogin(
  destination: Destination,
  form: readonly (readonly [name: string, value: string])[],
  header: string | undefined,
): string {
  const { values, settings, operation } = destination;
  const own = operation.name === verifyCallback ? [] : form;
  const endpoint = values.endpoint ?? values.endpointGroup;
  const candidates: [place: string, login: string | undefined][] = [['the path', values.login]];
  for (const [name, value] of own)
    if (name === 'login') candidates.push(['the body parameter "login"', value]);
  candidates.push(
    ['the header Countersign-Login', header],
    [endpointPlace, endpoint === undefined ? undefined : settings.endpoints[endpoint]],
  );
  let found: { readonly place: string; readonly login: string } | undefined;
  for (const [place, login] of candidates) {
    if (login === undefined) continue;
    found ??= { place, login };
    if (login !== found.login) throw loginConflict(found.place, place, destination);
  }
  if (found === undefined)
    throw new ProxyError('login-missing', `No login in the request. ${loginAdvice(destination)}`);
  const { login } = found;
  if (!identifierPattern.test(login)) {
    throw new ProxyError(
      'parameter-invalid',
      `Invalid login. It must have 1 to 128 characters of ${identifierCharacters} and must not be "." or "..".`,
    );
  }
  return login;
}

const endpointPlace = 'the configuration of the endpoint';

function loginConflict(one: string, other: string, { values, environment }: Destination): ProxyError {
  const place = `${one[0]?.toUpperCase()}${one.slice(1)}`;
  const conflict = one === other ? 'appears with different values' : `and ${other} have different logins`;
  const id = values.endpoint ?? values.endpointGroup;
  const advice =
    other === endpointPlace && id !== undefined
      ? `Endpoint ${id} has its login in environments.${environment}.endpoints: send that login, or use the endpoint of the other one.`
      : 'Send one login.';
  return new ProxyError('login-conflict', `${place} ${conflict}. ${advice}`);
}

function loginAdvice({ operation, values, environment }: Destination): string {
  if (operation.loginFrom === 'body') return 'Send the body parameter "login".';
  const id = values.endpoint ?? values.endpointGroup;
  if (id === undefined) return 'Send the header Countersign-Login.';
  return `Endpoint ${id} is not mapped to a login. Send the header Countersign-Login, or ask the operators to add the endpoint to environments.${environment}.endpoints in the configuration.`;
}
