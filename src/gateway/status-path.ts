import { holdsCardNumber } from '../redact-card-data.ts';
import type { OperationTable } from './operations.ts';
import type { Destination } from './router.ts';

/** The queries of an order's status, by the value of their path (docs/gateway-interface.md section 4.2). */
const queries = { endpoint: 'order-status', endpointGroup: 'order-status-group' } as const;

/**
 * The path at Countersign that queries what became of a payment: by the endpoint, or the group, that it was sent to.
 * `undefined` if there is none, or if it must not be written.
 */
export function statusPathOf(
  operations: OperationTable,
  { environment, settings, values }: Pick<Destination, 'environment' | 'settings' | 'values'>,
): string | undefined {
  const placeholder = values.endpoint === undefined ? 'endpointGroup' : 'endpoint';
  const value = values[placeholder];
  const query = operations.get(environment)?.find(({ name }) => name === queries[placeholder]);
  if (value === undefined || query === undefined || holdsCardNumber(value)) return undefined;
  const path = query.path.replace(`{${placeholder}}`, encodeURIComponent(value));
  return `/${environment}/${settings.product}${path}`;
}

const statusPath =
  /^\/[a-z][a-z0-9-]{0,31}\/[A-Za-z0-9_~-]{1,64}\/api\/v\d+\/status\/(?:group\/)?(?!\.{1,2}$)(?:[A-Za-z0-9._~-]|%40){1,128}$/;

/** Whether a text is such a path, whatever the version of the interface, and so none of a payment. */
export function isStatusPath(path: string): boolean {
  return statusPath.test(path);
}
