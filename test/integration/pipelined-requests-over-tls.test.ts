import { transport } from '../support/transport.ts';

transport.tls = true;
await import('./pipelined-requests.test.ts');
