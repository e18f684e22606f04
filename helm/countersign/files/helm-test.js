import { once } from 'node:events';
import { connect } from 'node:net';

const { READY_URL, PROXY_HOST, PROXY_PORT } = process.env;
const signal = AbortSignal.timeout(10_000);
const ready = await fetch(READY_URL, { signal });
console.log(`${READY_URL}: ${ready.status}`);
if (!ready.ok) process.exit(1);
const socket = connect(Number(PROXY_PORT), PROXY_HOST);
await once(socket, 'connect', { signal });
console.log(`${PROXY_HOST}:${PROXY_PORT}: connected`);
socket.destroy();
