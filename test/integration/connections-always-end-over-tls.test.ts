import { transport } from '../support/transport.ts';

transport.tls = true;
await import('./connections-always-end.test.ts');
