import { describe, expect, it } from '@jest/globals';
import {
  describeContentCoding,
  describeMediaType,
  isForm,
} from '../../../../src/proxy/inbound/validate-head.ts';

const form = 'application/x-www-form-urlencoded';

it.each([form, `${form};charset=UTF-8`, `${form}; charset="utf-8"`, form.toUpperCase()])(
  '%s is a form',
  (type) => {
    expect(isForm(type)).toBe(true);
  },
);

describe('what arrived instead of a form', () => {
  it.each([
    [undefined, 'The request has a body but no Content-Type.'],
    ['application/json', 'The Content-Type is application/json.'],
    ['Multipart/Form-Data; boundary=4111111111111111', 'The Content-Type is multipart/form-data.'],
    [`${form}; charset=iso-8859-1`, 'The form has the charset iso-8859-1.'],
    [`${form}; charset="windows-1252"`, 'The form has the charset windows-1252.'],
    [`${form}; boundary=x`, 'The Content-Type has other parameters than a charset.'],
    ['', 'The Content-Type is not that of a form.'],
    ['json', 'The Content-Type is not that of a form.'],
    [`${form}; charset=4111111111111111`, 'The Content-Type has other parameters than a charset.'],
    ['text/4111111111111111', 'The Content-Type is not that of a form.'],
    [`text/${'x'.repeat(9_000)}`, 'The Content-Type is not that of a form.'],
  ])('is described for %j, without data that may be in it', (type, text) => {
    expect(isForm(type ?? '')).toBe(false);
    expect(describeMediaType(type)).toBe(text);
  });

  it.each([
    ['GZIP', 'The Content-Encoding is gzip.'],
    ['4111111111111111', 'The request has a Content-Encoding.'],
  ])('is described for the encoding %s', (coding, text) => {
    expect(describeContentCoding(coding)).toBe(text);
  });
});
