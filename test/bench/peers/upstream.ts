import { createServer } from 'node:net';
import { onMessage } from '../framing.ts';
import { replies } from '../traffic.ts';
import { answerUrl } from './peer.ts';

/** A gateway that knows one balance and one order, and verifies nothing. */
const server = createServer((socket) => {
  onMessage(socket, (head) => {
    const { type, body } = head.includes('/api/v4/status/') ? replies.status : replies.balance;
    socket.write(
      `HTTP/1.1 200 OK\r\nDate: ${new Date().toUTCString()}\r\nContent-Type: ${type}\r\n` +
        `Content-Length: ${body.length}\r\nConnection: keep-alive\r\n\r\n${body}`,
    );
  });
  socket.on('error', () => socket.destroy());
});

answerUrl(server);
