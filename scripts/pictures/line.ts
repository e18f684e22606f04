import { element } from './svg.ts';

type Place = readonly [x: number, y: number];

/** A line through the values, with a gap where there is none, and a faint fill down to the base line. */
export function line(
  places: readonly (Place | undefined)[],
  base: number,
  colour: string,
  fill: number,
): string {
  return runs(places)
    .map((run) => {
      const [[x, y] = [0, 0], second] = run;
      if (second === undefined) return element('circle', { cx: x, cy: y, r: 1.5, fill: colour });
      const path = pathThrough(run);
      const area = { d: `${path}V${tenths(base) / 10}H${tenths(x) / 10}Z`, fill: colour };
      return (
        element('path', { ...area, 'fill-opacity': String(fill) }) +
        element('path', { d: path, fill: 'none', stroke: colour })
      );
    })
    .join('');
}

/** The places that follow one another without a gap. */
function runs(places: readonly (Place | undefined)[]): Place[][] {
  const found: Place[][] = [[]];
  for (const place of places) {
    if (place !== undefined) found.at(-1)?.push(place);
    else if (found.at(-1)?.length !== 0) found.push([]);
  }
  return found.filter((run) => run.length > 0);
}

/** Relative, in tenths of a pixel, without the places in the middle of a level stretch: the file stays small. */
function pathThrough(run: readonly Place[]): string {
  const points = run.map(([x, y]) => [tenths(x), tenths(y)] as const);
  const bends = points.filter(([, y], at) => y !== points[at - 1]?.[1] || y !== points[at + 1]?.[1]);
  return bends
    .map(([x, y], at) => {
      const [fromX, fromY] = bends[at - 1] ?? [0, 0];
      return `${at === 0 ? 'M' : 'l'}${(x - fromX) / 10},${(y - fromY) / 10}`;
    })
    .join('');
}

function tenths(pixels: number): number {
  return Math.round(pixels * 10);
}
