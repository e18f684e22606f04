import { callers } from './callers.ts';
import { keysAndRotation } from './keys-and-rotation.ts';
import type { DashboardModel } from './model.ts';
import { overview } from './overview.ts';

/** The file that each dashboard is generated into. */
export const dashboards: Readonly<Record<string, DashboardModel>> = {
  'overview.json': overview,
  'keys-and-rotation.json': keysAndRotation,
  'callers.json': callers,
};
