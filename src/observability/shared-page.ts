import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import type { MonotonicClock } from '../util/clock.ts';

export interface SharingOptions extends MonotonicClock {
  /** Least milliseconds between two renderings of a page. */
  readonly interval: number;
}

export interface Page {
  readonly contentType: string;
  readonly body: string;
}

/** Renderings that are read at once. A reader of an older one has had that many intervals, and is cut off. */
const maxRead = 4;

/** @returns sends the page; rejects with what rendering it rejects with */
type SendPage = (response: ServerResponse) => Promise<void>;

/**
 * Renders each page at most once in an interval, however often it is requested: a request within the interval waits for
 * its end, and gets what is true then. All of them read the same bytes, so that memory is bounded by a few renderings,
 * however many read slowly. Pages are rendered one after the other, with turns of the event loop between.
 *
 * @returns shares a page, given what renders it as of now
 */
export function createPageSharing({
  interval,
  monotonic,
}: SharingOptions): (render: () => Promise<Page>) => SendPage {
  let last: Promise<unknown> = Promise.resolve();
  function afterOthers<T>(render: () => Promise<T>): Promise<T> {
    const rendered = last.then(render);
    last = rendered.then(nextTurn, nextTurn);
    return rendered;
  }
  return (render) => {
    const read: Set<ServerResponse>[] = [];
    let renderedAt = Number.NEGATIVE_INFINITY;
    let next: ReturnType<typeof renderNext> | undefined;
    async function renderNext() {
      await pause(Math.max(0, renderedAt + interval - monotonic()));
      const { contentType, body } = await afterOthers(() => {
        renderedAt = monotonic();
        next = undefined;
        return render();
      });
      const readers = new Set<ServerResponse>();
      read.push(readers);
      if (read.length > maxRead) read.shift()?.forEach((reader) => void reader.destroy());
      return { contentType, bytes: Buffer.from(body), readers };
    }
    return async (response) => {
      next ??= renderNext();
      const { contentType, bytes, readers } = await next;
      if (response.destroyed) return;
      readers.add(response);
      response.once('close', () => readers.delete(response));
      response.setHeader('Content-Type', contentType);
      response.end(bytes);
    };
  };
}
