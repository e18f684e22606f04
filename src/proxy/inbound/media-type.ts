const formMediaType = /^application\/x-www-form-urlencoded[ \t]*(;[ \t]*charset="?utf-8"?[ \t]*)?;?$/i;
const formWithCharset =
  /^application\/x-www-form-urlencoded[ \t]*;[ \t]*charset="?([a-z_-]{2,12}(-?\d{1,4}){0,2})"?[ \t;]*$/i;
/** No digits: a response of ours must not repeat data that arrived in the wrong place. */
const plainMediaType = /^([a-z]{1,20}\/[a-z][a-z.+-]{0,50})[ \t]*(;|$)/i;
const contentCodings: ReadonlySet<string> = new Set([
  'gzip',
  'x-gzip',
  'deflate',
  'br',
  'zstd',
  'compress',
  'identity',
]);

export function isForm(contentType: string): boolean {
  return formMediaType.test(contentType);
}

/** What arrived instead of a form, as a sentence. */
export function describeMediaType(contentType: string | undefined): string {
  if (contentType === undefined) return 'The request has a body but no Content-Type.';
  const charset = formWithCharset.exec(contentType)?.[1];
  if (charset !== undefined) return `The form has the charset ${charset}.`;
  const type = plainMediaType.exec(contentType)?.[1]?.toLowerCase();
  if (type === 'application/x-www-form-urlencoded')
    return 'The Content-Type has other parameters than a charset.';
  return type === undefined ? 'The Content-Type is not that of a form.' : `The Content-Type is ${type}.`;
}

export function describeContentCoding(contentEncoding: string): string {
  const coding = contentEncoding.trim().toLowerCase();
  return contentCodings.has(coding)
    ? `The Content-Encoding is ${coding}.`
    : 'The request has a Content-Encoding.';
}
