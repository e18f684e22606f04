import type { ServerResponse } from 'node:http';
import { Roster } from '../proxy/roster.ts';

/** The answers under way, each of which is the last of its connection once the process stops. */
export class LastAnswers {
  readonly #open = new Roster<ServerResponse>();
  #stopping = false;

  add(response: ServerResponse): void {
    response.once('close', this.#open.enter(response));
    if (this.#stopping) closeAfter(response);
  }

  /** A caller that keeps its connection would otherwise keep the process. */
  closeConnections(): void {
    this.#stopping = true;
    for (const response of this.#open.present()) closeAfter(response);
  }
}

function closeAfter(response: ServerResponse): void {
  if (response.headersSent) response.once('finish', () => response.socket?.end());
  else response.setHeader('Connection', 'close');
}
