import { whole } from '../format.ts';
import type { Status } from '../schema.ts';
import type { Html } from './html.ts';
import { type Column, empty, none, relativeTime, section, severityOf, table, toned, worst } from './parts.ts';

type Caller = Status['callers'][number];

export function callers({ at, callers: list, findings }: Status): Html {
  const columns: readonly Column<Caller>[] = [
    { heading: 'Caller', cell: ({ name }) => name },
    { heading: 'Requests', align: 'number', cell: ({ requests }) => whole(requests) },
    {
      heading: 'Denied',
      align: 'number',
      cell: ({ denied }) => toned(denied > 0 ? 'warn' : 'ok', whole(denied)),
    },
    {
      heading: 'Last seen',
      align: 'number',
      cell: ({ lastSeenAt }) => (lastSeenAt === null ? none('never') : relativeTime(at, lastSeenAt)),
    },
  ];
  const listing = {
    id: 'callers',
    noun: 'caller',
    key: ({ name }: Caller) => name,
    columns,
    tone: ({ name, denied }: Caller) =>
      worst([denied > 0 ? 'warn' : 'ok', severityOf(findings.filter(({ caller }) => caller === name))]),
  };
  return section(
    { id: 'callers', title: 'Callers', hint: 'Since the start' },
    list.length === 0
      ? empty('No callers are configured, so every request gets 401. Add one under "callers".')
      : table(listing, list),
  );
}
