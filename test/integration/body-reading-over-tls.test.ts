import { transport } from '../support/transport.ts';

transport.tls = true;
await import('./body-reading.test.ts');
