import { type Scheme, schemes } from '../test/support/browser.ts';
import { calmStatus, rotationStatus, type Status, troubleStatus } from '../test/support/status.ts';

export interface StatusPicture {
  readonly file: string;
  readonly status: Status;
  readonly scheme: Scheme;
}

/** CSS pixels, which are the pixels of the picture. */
export const pictureWidth = 1280;

/** Keyword of the text in a PNG that has the digest of the page that it shows. */
export const digestKeyword = 'Page';

const trouble = troubleStatus();

const statuses = {
  calm: calmStatus(),
  rotation: rotationStatus(),
  trouble: { ...trouble, failures: trouble.failures.slice(0, 4) },
} as const;

export const statusPictures: readonly StatusPicture[] = Object.entries(statuses).flatMap(([name, status]) =>
  schemes.map((scheme) => ({ file: `docs/pictures/status-${name}-${scheme}.png`, status, scheme })),
);
