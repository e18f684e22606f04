import { orderIdNames } from '../identifiers.ts';
import { holdsCardNumber } from '../redact-card-data.ts';
import type { Operation, OperationTable } from './operations.ts';
import type { Destination } from './router.ts';

/**
 * The path at Countersign that queries what became of a payment, by the endpoint, or the group, that it was sent to. Of
 * several queries it is one that the caller may use, signed as the payment if there is one: its key is there.
 *
 * @param mayUse whether the caller of the payment may use an operation
 * @returns `undefined` if there is none, or if it must not be written
 */
export function statusPathOf(
  operations: OperationTable,
  { environment, settings, operation, values }: Omit<Destination, 'url'>,
  mayUse: (operation: string) => boolean,
): string | undefined {
  const placeholder = values.endpoint === undefined ? 'endpointGroup' : 'endpoint';
  const value = values[placeholder];
  if (value === undefined || holdsCardNumber(value)) return undefined;
  const fitness = ({ name, signature }: Operation): number =>
    (mayUse(name) ? 2 : 0) + (signature === operation.signature ? 1 : 0);
  const queries = (operations.get(environment) ?? []).filter((one) => isQueryBy(placeholder, one));
  const [query] = queries.toSorted((one, other) => fitness(other) - fitness(one));
  const path = query?.path.replace(`{${placeholder}}`, encodeURIComponent(value));
  return path === undefined ? undefined : `/${environment}/${settings.product}${path}`;
}

/** Whether an operation queries the status of an order by `login` and `client_orderid` alone (docs/gateway-interface.md section 4.2). */
function isQueryBy(placeholder: string, { path, readOnly, parameters }: Operation): boolean {
  // First what most operations are not, since this is asked for every payment.
  if (!readOnly || !path.endsWith(`/{${placeholder}}`)) return false;
  const required = Object.keys(parameters).filter((name) => parameters[name]?.required);
  return (
    isStatusPath(`/e/p${path.replace(`{${placeholder}}`, 'x')}`) &&
    required.every((name) => name === 'login' || orderIdNames.includes(name))
  );
}

const statusPath =
  /^\/[a-z][a-z0-9-]{0,31}\/[A-Za-z0-9_~-]{1,64}\/api\/v\d+\/status\/(?:group\/)?(?!\.{1,2}$)(?:[A-Za-z0-9._~-]|%40){1,128}$/;

/** Whether a text is such a path, whatever the version of the interface, and so none of a payment. */
export function isStatusPath(path: string): boolean {
  return statusPath.test(path);
}
