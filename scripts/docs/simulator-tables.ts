import { z } from 'zod';
import { endpoints } from '../../src/simulator/admin/endpoints.ts';
import { faultRule } from '../../src/simulator/faults.ts';
import { rejections } from '../../src/simulator/rejections.ts';
import { code, table } from './markdown.ts';

/** Every endpoint of the simulator's admin API. */
export function endpointTable(): string {
  return table(
    ['request', 'effect'],
    endpoints.map(({ method, path, summary }) => [code(`${method} ${path}`), summary]),
  );
}

/** Every field of a fault. */
export function faultTable(): string {
  const { properties = {} } = z.toJSONSchema(faultRule, { io: 'input', target: 'draft-7' });
  const rows = Object.entries(properties).map(([name, field]) => [
    code(name),
    typeof field === 'object' ? (field.description ?? '') : '',
  ]);
  return table(['field', 'meaning'], rows);
}

/** Every reason of a 403. The simulator explains it. */
export function rejectionList(): string {
  return Object.keys(rejections).map(code).join(', ');
}
