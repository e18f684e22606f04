import { transport } from '../support/transport.ts';

transport.tls = true;
await import('./shutdown-keeps-serving.test.ts');
