import { transport } from '../support/transport.ts';

transport.tls = true;
await import('./head-validation.test.ts');
