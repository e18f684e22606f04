import { expect, it } from '@jest/globals';
import { readStatus } from '../../../../src/cli/status/read-status.ts';
import { startFaultyGateway, switching } from '../../../support/faulty-gateway.ts';

it('has no status of what switches protocols, and does not wait for it', async () => {
  const server = await startFaultyGateway([switching]);
  try {
    const url = new URL(`${server.url}/status.json`);
    await expect(readStatus({ url, token: undefined, tls: {} })).rejects.toThrow('did not respond with HTTP');
  } finally {
    await server.close();
  }
});
