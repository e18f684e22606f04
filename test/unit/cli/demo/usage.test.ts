import { createServer } from 'node:net';
import { afterAll, expect, it } from '@jest/globals';
import { run } from '../../../support/cli.ts';
import { Folder } from '../../../support/folder.ts';
import { listen } from '../../../support/listening.ts';

const folder = new Folder();
afterAll(() => folder.remove());

it('a demo listens for others only with --allow-anonymous', async () => {
  for (const host of ['0.0.0.0', '10.0.0.1', 'localhost.example'])
    expect(await run(['demo', '--port', '0', '--host', host])).toEqual({
      code: 2,
      out: '',
      err: `countersign demo: --host ${host} lets others send requests without credentials: add --allow-anonymous if that is intended\nSee: countersign demo --help`,
    });
});

it.each([
  [['--port', '65536'], '--port must be a port from 0 to 65535'],
  [['--gateway-port', 'x'], '--gateway-port must be a port from 0 to 65535'],
  [['--request-timeout', '3'], '--request-timeout must be a duration with a unit, such as 500ms, 3s'],
  [['--request-timeout', '0s'], '--request-timeout must be more than zero'],
  [['--scenario', '/nowhere.yaml'], '/nowhere.yaml does not exist. Check the path.'],
])('a demo rejects %j', async (argv, message) => {
  const { code, err } = await run(['demo', ...argv]);
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
});

it('names the command that was given, and not the one that it runs', async () => {
  expect(await run(['serve', '--prot', '80'])).toMatchObject({
    code: 2,
    err: 'countersign serve: unknown option --prot; did you mean "--port"?\nSee: countersign serve --help',
  });
});

it.each(['gateway-port', 'gateway-admin-port'])('names --%s when that port is in use', async (option) => {
  const { port, close } = await listen(createServer());
  // Without logins, no keys are made.
  const scenario = folder.file('scenario.yaml', 'logins: {}\n');
  const ran = await run(['demo', '--port', '0', '--scenario', scenario, `--${option}`, String(port)]);
  await close();
  expect(ran).toEqual({
    code: 1,
    out: '',
    err: `countersign demo: the gateway simulator cannot listen: 127.0.0.1:${port} is in use. Choose another port with --${option}.`,
  });
});
