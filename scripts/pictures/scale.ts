import type { PanelModel } from '../dashboards/model.ts';
import { multipleFor } from './units.ts';

/** A value axis: its ends and its labels. */
export interface Scale {
  readonly from: number;
  readonly to: number;
  readonly ticks: readonly number[];
}

const maxTicks = 5;

/** An axis for these values; starts at zero, unless the panel shows negative values. */
export function scaleFor(values: readonly number[], { unit, redBelow = 0 }: PanelModel): Scale {
  const fromZero = redBelow >= 0;
  const [lowest, highest] = spread(fromZero ? [...values, 0] : values);
  const step = stepFor((highest - lowest) / maxTicks, multipleFor(unit, highest)[0]);
  const first = Math.floor(lowest / step + 1e-6);
  const last = Math.max(Math.ceil(highest / step - 1e-6), first + 1);
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  return { from: first * step, to: last * step, ticks };
}

/** A horizontal line needs an axis too. */
function spread(values: readonly number[]): [lowest: number, highest: number] {
  const lowest = Math.min(...values);
  const highest = Math.max(...values);
  if (lowest < highest) return [lowest, highest];
  return [lowest, lowest === 0 ? 1 : lowest + Math.abs(lowest)];
}

/** The next larger 1, 2 or 5 times a power of ten, in the displayed unit. */
function stepFor(least: number, factor: number): number {
  const power = 10 ** Math.floor(Math.log10(least / factor));
  const step = [1, 2, 5, 10].find((one) => one * power * factor >= least * 0.999) ?? 10;
  return step * power * factor;
}
