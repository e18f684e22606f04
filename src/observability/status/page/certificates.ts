import { secondsBetween, span } from '../format.ts';
import { lifetime } from '../limits.ts';
import type { Status } from '../schema.ts';
import { type Html, html } from './html.ts';
import { bar, type Column, clockTime, empty, none, pill, section, table, toned } from './parts.ts';

type Certificate = Status['certificates'][number];

export function certificates({ at, certificates: list }: Status): Html {
  const columns: readonly Column<Certificate>[] = [
    { heading: 'Certificate', cell: ({ name }) => name },
    { heading: 'Environment', cell: ({ environment }) => environment ?? none('all') },
    { heading: 'Valid from', cell: ({ from }) => clockTime(at, from) },
    { heading: 'Valid until', cell: ({ until }) => clockTime(at, until) },
    { heading: 'Time left', cell: (one) => timeLeft(at, one) },
  ];
  const listing = {
    id: 'certificates',
    noun: 'certificate',
    key: ({ name, environment }: Certificate) => `${environment ?? ''} ${name}`,
    columns,
    tone: (one: Certificate) => lifetime(at, one).severity,
  };
  return section(
    { id: 'certificates', title: 'Certificates' },
    list.length === 0
      ? empty(
          'No certificates are configured: the proxy port has no TLS, and no client certificate or CA is set for the gateway or Vault.',
        )
      : table(listing, list),
  );
}

function timeLeft(now: string, one: Certificate): Html {
  const { left, severity } = lifetime(now, one);
  const seconds = secondsBetween(now, one.until);
  const state = seconds <= 0 ? pill('bad', 'Expired') : toned(severity, span(seconds));
  return html`${state}${severity === 'warn' ? html` ${pill('warn', 'Renew now')}` : undefined} ${bar(left, severity)}`;
}
